"""Belady's rule: evict what is needed again last.

Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems
Journal, 1966: of all pages, replace the one whose next use is furthest away. With equal
pages no rule has fewer misses. Tensors are unequal, so here it is a strong rule, not an
optimum. It needs the future, which a training iteration has: the plan.

The cache is that of ``scheduler/lru_cache.py``; nothing is computed again.
"""

from bisect import bisect_right
from collections.abc import Container
from dataclasses import replace

from snref.plans import Plan, Run, Tensor
from snref.scheduler import schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.lru_cache import TensorCache
from snref.scheduler.options import Options
from snref.timing.costs import Costs


def belady(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan of a tensor cache that evicts what is needed again last."""
    runs = tuple(overwrite(route, options.overwrite).runs())
    place = {(run.layer, run.phase): i for i, run in enumerate(runs)}
    uses: dict[Tensor, list[int]] = {}
    for i, run in enumerate(runs):
        for tensor in run.working_set:
            uses.setdefault(tensor, []).append(i)

    def needed_last(cache: TensorCache, locked: Container[Tensor]) -> Tensor | None:
        latest = (step for step in reversed(cache.steps) if isinstance(step, Run))
        run = next(latest, None)
        now = -1 if run is None else place[run.layer, run.phase]

        def next_use(tensor: Tensor) -> int:
            return uses[tensor][bisect_right(uses[tensor], now)]

        unlocked = [tensor for tensor in cache.offsets if tensor not in locked]
        return max(unlocked, key=next_use, default=None)

    options = replace(options, recompute=None, transfers="cache")
    return schedule(route, options, costs, victim=needed_last)
