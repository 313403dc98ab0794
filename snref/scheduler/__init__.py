"""The scheduler: a plan for training a net in the memory there is.

``schedule`` below calls the passes in order, each a function from plan to plan. Read
them in the paper's order:

1. liveness           free a tensor after its last use             (paper, 3.2)
2. offloading         unified tensor pool, eager: copy out early   (3.3.1)
3. lru_cache          unified tensor pool, lazy: the tensor cache  (3.3.2)
   cache_refinements  what the preset "cache" does beyond it
4. recomputation      compute cheap tensors again                  (3.4)
5. in_place           outputs over inputs, by renaming
6. algorithms         convolution algorithms and workspaces        (3.5)
7. placement          an address for every tensor                  (3.2.1)
   packing            a tight packing, by a sweep and a search
   slab               the paper's memory pool

The route itself, with the order of a fork's branches, is made by ``net.route``
(section 3.1). No pass knows a device or a kind of layer. Where copies and kernels
overlap is decided when a plan runs, by ``device/order.py``: which steps wait for which
others. ``timing/timeline.py`` models it.
"""

from functools import partial

from snref.plans import OutOfMemory, Plan, extent, host_peak, memory, peak_run
from snref.plans.verification import verify
from snref.scheduler.algorithms import choose, choose_algorithms
from snref.scheduler.cache_refinements import refined_cache
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead, hold_all
from snref.scheduler.lru_cache import Victim, least_recently_used
from snref.scheduler.offloading import offload
from snref.scheduler.options import PRESETS, Options
from snref.scheduler.placement import place
from snref.scheduler.recomputation import recompute
from snref.support.garbage import no_garbage_collection
from snref.timing.costs import Costs

__all__ = ["PRESETS", "Options", "schedule"]


def schedule(
    route: Plan,
    options: Options,
    costs: Costs | None = None,
    *,
    victim: Victim = least_recently_used,
    ahead: int = 1,
) -> Plan:
    """Return the route as a plan that fits: allocated, placed and verified.

    costs   how long each algorithm takes. Without it every convolution keeps the
            algorithm that needs no workspace
    victim  with transfers "cache": which tensor to evict
    ahead   with transfers "offload": by how many convolutions a prefetch is early

    Raises OutOfMemory, which names the step and the least capacity that works, and
    ValueError for a ``victim`` or an ``ahead`` that these transfers do not use.
    """
    if options.recompute == "per tensor" or options.transfers == "per tensor":
        raise ValueError("what is decided per tensor is planned by least_time")
    if ahead != 1 and options.transfers != "offload":
        raise ValueError(f"ahead is of transfers 'offload', not {options.transfers!r}")
    if victim is not least_recently_used and options.transfers != "cache":
        raise ValueError(f"victim is of transfers 'cache', not {options.transfers!r}")
    with no_garbage_collection():
        plan = overwrite(route, options.overwrite, static=not options.liveness)
        plan = recompute(plan, options.recompute)
        plan = offload(plan, options.transfers, ahead)
        allocated = free_dead(plan) if options.liveness else hold_all(plan)
        placed = _placed(allocated, options, costs)
        limit = options.limit
        if placed is None and limit is not None and options.transfers == "cache":
            # The cache evicts by address. So it replaces three passes: it allocates,
            # places, and chooses algorithms by the holes that it leaves.
            placed = refined_cache(
                plan,
                limit,
                victim,
                partial(choose, costs=costs, allowed=options.algorithms),
            )
        plan = _checked(placed, allocated, options)
        verify(
            plan,
            route,
            capacity=options.capacity,
            slab=options.slab,
            host_capacity=options.host_capacity,
        )
        return plan


def complete(plan: Plan, options: Options, costs: Costs | None = None) -> Plan:
    """Return a plan of runs and copies allocated and placed, with its algorithms.

    These are the last three passes of ``schedule``, for planners that decide by other
    rules what is copied and computed again (``snref/policies/``).

    Raises OutOfMemory, which names the step and the least capacity that works.
    """
    allocated = free_dead(plan) if options.liveness else hold_all(plan)
    return _checked(_placed(allocated, options, costs), allocated, options)


def check_host(plan: Plan, host_capacity: int | None) -> None:
    """Raise OutOfMemory if the copies of a plan need more memory of the host."""
    if host_capacity is not None:
        kept = host_peak(plan)
        if kept > host_capacity:
            raise OutOfMemory("the host", kept, host_capacity, kept)


def _checked(placed: Plan | None, allocated: Plan, options: Options) -> Plan:
    """Return the placed plan. Raise OutOfMemory if there is none, or for the host."""
    if placed is None:
        run, least = peak_run(allocated), extent(place(allocated))
        raise OutOfMemory(f"{run.layer} {run.phase}", least, options.limit or 0, least)
    check_host(placed, options.host_capacity)
    return placed


def _placed(plan: Plan, options: Options, costs: Costs | None) -> Plan | None:
    """Choose algorithms for an allocated plan and place it; None if it does not fit.

    Without a limit, workspaces get what the tensors leave below their own peak: they
    cost no memory. With a limit, they get what the tensors leave below it; if
    fragmentation makes the plan too large, try again with less for workspaces.
    """
    limit, algorithms = options.limit, options.algorithms
    peak = max(memory(plan, workspace=True), default=0)
    if limit is None:
        # Without liveness every step is at the peak.
        if costs is not None and options.liveness:
            plan = choose_algorithms(plan, peak, costs, algorithms)
        return place(plan)
    placed = place(plan, limit) if peak <= limit else None
    if placed is None or extent(placed) > limit:
        return None
    if costs is not None and algorithms != "none":
        capacity = limit
        for _ in range(4):
            full = place(choose_algorithms(plan, capacity, costs, algorithms), limit)
            excess = extent(full) - limit
            if excess <= 0:
                return full
            capacity -= excess
    return placed
