"""The scheduler: a plan for training a net in the memory there is.

Read in this order; each file is one stage, a pure function from plan to plan:

1. liveness        free a tensor at its last use                  (paper, 3.2)
2. offloading      unified tensor pool, eager                      (3.3.1)
3. lru_cache       unified tensor pool, lazy: the LRU tensor cache (3.3.2)
4. recomputation   forget what is cheap to compute again           (3.4)
5. in_place        outputs over inputs, by renaming
6. algorithms      convolution algorithm and workspace             (3.5)
7. placement       an address for every tensor                     (3.2.1)
   packing         a search, where the sweep of placement leaves holes

``schedule`` below is the pipeline. Liveness is the paper's first stage and the last
pass here: the other stages put in second definitions (a re-run, a copy back), and only
then does it show what is dead in between. No stage knows a device or a kind of layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from snref.plans import OutOfMemory, Plan, Run, extent, host_memory, memory
from snref.plans.verification import verify
from snref.scheduler.algorithms import choose, choose_algorithms
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead, hold_all
from snref.scheduler.lru_cache import ChooseAlgorithms, tensor_cache
from snref.scheduler.offloading import offload
from snref.scheduler.placement import place
from snref.scheduler.recomputation import Strategy, recompute
from snref.support.garbage import no_garbage_collection
from snref.support.units import one_of
from snref.timing.costs import Costs

Transfers: TypeAlias = Literal["none", "offload", "demand", "cache"]
Algorithms: TypeAlias = Literal["none", "exact", "fastest"]
Overwrite: TypeAlias = Literal["never", "gradients"]


@dataclass(frozen=True)
class Options:
    """What the scheduler may do. Bytes are bytes; None is no limit.

    liveness       free at the last use; without it (preset "baseline") every tensor is
                   held throughout, and nothing can be recomputed or copied
    recompute      which of the paper's strategies, None for no recomputation
    transfers      "none"; "offload" (convolutions, one ahead); "demand" (every
                   checkpoint, at first need); "cache" (LRU, only when room is needed)
    algorithms     "none": no workspaces; "exact": one summation order; "fastest"
    overwrite      "never"; "gradients" (as the original); "activations" is not here yet
    capacity       bytes that may be in use at once, workspaces included
    slab           bytes of device memory they live in: the highest address
    host_capacity  bytes of host memory a plan may keep
    """

    liveness: bool = True
    recompute: Strategy | None = "cost-aware"
    transfers: Transfers = "cache"
    algorithms: Algorithms = "exact"
    overwrite: Overwrite = "gradients"
    capacity: int | None = None
    slab: int | None = None
    host_capacity: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in {
            "recompute": (None, *get_args(Strategy)),
            "transfers": get_args(Transfers),
            "algorithms": get_args(Algorithms),
            "overwrite": get_args(Overwrite),
        }.items():
            one_of(name, getattr(self, name), allowed)
        for name in "capacity", "slab", "host_capacity":
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} {value}: must be >= 0 bytes")
        if not self.liveness and (self.recompute, self.transfers) != (None, "none"):
            raise ValueError(
                f"recompute {self.recompute!r}, transfers {self.transfers!r}: both "
                "need liveness; without it, as in preset 'baseline', every tensor stays"
            )

    @property
    def limit(self) -> int | None:
        """The tighter of capacity and slab."""
        limits = [n for n in (self.capacity, self.slab) if n is not None]
        return min(limits, default=None)


PRESETS: Mapping[str, Options] = {
    "baseline": Options(liveness=False, recompute=None, transfers="none"),
    "liveness": Options(recompute=None, transfers="none"),
    "offload": Options(recompute=None, transfers="offload"),
    "speed-centric": Options(recompute="speed-centric", transfers="offload"),
    "memory-centric": Options(recompute="memory-centric", transfers="offload"),
    "superneurons": Options(recompute="cost-aware", transfers="offload"),
    "cache": Options(recompute="cost-aware", transfers="cache"),
}


def schedule(route: Plan, options: Options, costs: Costs | None = None) -> Plan:
    """The route as a plan that fits: allocated, placed and verified.

    costs says how long each algorithm takes; without it convolutions keep the one
    that needs no workspace.

    Raises OutOfMemory, naming the step and the least capacity that does.
    """
    with no_garbage_collection():
        plan = route
        if options.overwrite != "never":
            plan = overwrite(plan, options.overwrite)
        if options.recompute is not None:
            plan = recompute(plan, options.recompute)
        if options.transfers == "offload":
            plan = offload(plan, "ahead")
        elif options.transfers == "demand":
            plan = offload(plan, "demand")
        plan = _fit(plan, options, costs)
        kept = max(host_memory(plan))
        if options.host_capacity is not None and kept > options.host_capacity:
            raise OutOfMemory("the host", kept, options.host_capacity, kept)
        verify(
            plan,
            route,
            capacity=options.capacity,
            slab=options.slab,
            host_capacity=options.host_capacity,
        )
        return plan


def _fit(plan: Plan, options: Options, costs: Costs | None) -> Plan:
    """The plan allocated and placed within the limit, with what workspace fits.

    Without a limit, workspaces get what the tensors leave below their own peak: so
    they cost no memory.
    """
    limit = options.limit
    bare = free_dead(plan) if options.liveness else hold_all(plan)
    peak = max(memory(bare, workspace=True))
    if limit is None or peak <= limit:
        placed = place(bare, limit)
        if limit is None or extent(placed) <= limit:
            return _with_workspaces(plan, placed, options, costs, peak)
    if options.transfers == "cache":
        fastest: ChooseAlgorithms | None = None
        if costs is not None and options.algorithms != "none":
            freedom = options.algorithms
            fastest = lambda run, left: choose(run, left, costs, freedom)  # noqa: E731
        return tensor_cache(plan, limit, fastest)
    least = extent(place(bare))
    raise OutOfMemory(_fullest(bare), max(peak, least), limit, least)


def _with_workspaces(
    plan: Plan, placed: Plan, options: Options, costs: Costs | None, peak: int
) -> Plan:
    """The plan with workspaces, if there are to be any and they fit.

    With a limit, fewer of them where fragmentation is in the way.
    """
    if costs is None or options.algorithms == "none":
        return placed
    if options.limit is None and not options.liveness:
        return placed  # always at its peak
    granted = peak if options.limit is None else options.limit
    for _ in range(4):
        full = choose_algorithms(plan, granted, costs, options.algorithms)
        full = free_dead(full) if options.liveness else hold_all(full)
        full = place(full, options.limit)
        excess = 0 if options.limit is None else extent(full) - options.limit
        if excess <= 0:
            return full
        granted -= excess
    return placed


def _fullest(plan: Plan) -> str:
    """The run during which most bytes are in use."""
    usage = zip(memory(plan, workspace=True), plan.steps, strict=True)
    _, run = max(
        ((nbytes, step) for nbytes, step in usage if isinstance(step, Run)),
        key=lambda pair: pair[0],
    )
    return f"{run.layer} {run.phase}"
