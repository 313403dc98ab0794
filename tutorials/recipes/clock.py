"""CLOCK instead of least recently used, in the tensor cache (Corbato 1968).

A use sets a tensor's reference bit, ``cache.used``. The hand clears the bits that it
meets, sends those tensors to the end of the queue, and evicts the first without one.
"""

from snref import schedule


def clock(cache, locked):
    for tensor in [t for t in cache.offsets if t not in locked] * 2:
        if not cache.used[tensor]:
            return tensor
        cache.used[tensor], cache.offsets[tensor] = False, cache.offsets.pop(tensor)


def policy(route, options, costs):
    """Plan as the preset "cache" does, with this victim where not everything fits."""
    return schedule(route, options, costs, victim=clock)
