"""CLOCK instead of least recently used, in the tensor cache (Corbato 1968).

A use sets a tensor's reference bit, ``cache.used``. The hand clears the bits that it
meets, sends those tensors to the end of the queue, and evicts the first without one.
"""

from snref.scheduler.cache_refinements import refined_cache
from snref.scheduler.in_place import overwrite
from snref.scheduler.recomputation import recompute


def clock(cache, locked):
    for tensor in [t for t in cache.offsets if t not in locked] * 2:
        if not cache.used[tensor]:
            return tensor
        cache.used[tensor], cache.offsets[tensor] = False, cache.offsets.pop(tensor)


def policy(route, options, costs):
    """Plan as the preset "cache" does where not everything fits, with this victim."""
    plan = recompute(overwrite(route, options.overwrite), options.recompute)
    return refined_cache(plan, options.limit, victim=clock)
