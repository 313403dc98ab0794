"""Which plan for so much memory: a ladder, each rung quicker and in need of more.

The candidates are every kind of recomputation with every kind of transfer, and the
tensor cache in slabs of several sizes. Their plans are the same for every amount of
memory, which only says which of them fit. Of these plans, by extent, each that is
quicker than all before it, and does not use less, is a rung; the highest that fits is
taken. So more memory never gives a slower plan, and less memory never one with a
higher peak.

Both hold for plans without workspaces, as which they are compared: tensors come first,
and workspaces get what is left (SuperNeurons, section 3.5), which may be more
below a lower rung. To build a ladder takes as long as some twenty plans, of a very deep
net ten.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypedDict, Unpack, get_args

from snref.plans import (
    ALIGNMENT,
    OutOfMemory,
    Plan,
    aligned,
    extent,
    host_memory,
    lower_bound,
    memory,
    peak_run,
)
from snref.scheduler import Options, schedule
from snref.scheduler.options import Algorithms, Overwrite, Strategy, Transfers
from snref.timing.costs import Costs
from snref.timing.timeline import simulate

RECOMPUTE: tuple[Strategy | None, ...] = (None, *get_args(Strategy))
FEW: tuple[Strategy | None, ...] = (None, "cost-aware")  # with a cache, or very deep
DEEP = 10_000  # steps of the route from which a net is very deep
LEVELS, LEVELS_DEEP = 6, 3  # from the smallest slab of the cache to the largest


class Overrides(TypedDict, total=False):
    """Options that are given, not to be chosen."""

    recompute: Strategy | None
    transfers: Transfers
    algorithms: Algorithms
    overwrite: Overwrite
    host_capacity: int | None


@dataclass(frozen=True)
class Rung:
    """A plan without workspaces: its options, what it needs, how long it takes."""

    options: Options
    plan: Plan = field(repr=False)
    peak: int  # bytes of activations and gradients
    extent: int  # bytes of slab
    seconds: float


def least_time(
    route: Plan, costs: Costs, capacity: int, **given: Unpack[Overrides]
) -> tuple[Options, Plan]:
    """The options, and the plan, of least modelled time in so many bytes.

    Raises OutOfMemory if nothing fits.
    """
    rungs = ladder(route, costs, capacity, **given)
    if not rungs and given.get("host_capacity") is not None:
        # The larger the slab, the less is copied to the host: let the cache use all.
        plans = _fitting(route, _caches(route, given, capacity))
        found = [_rung(options, plan, costs) for options, plan in plans]
        rungs = sorted(found, key=lambda rung: rung.seconds)[:1]
    if not rungs:
        raise _too_little(route, capacity, given)
    best = rungs[-1]
    algorithms = given.get("algorithms", Options().algorithms)
    options = replace(best.options, algorithms=algorithms)
    if options.transfers != "cache":
        options = replace(options, capacity=capacity, slab=capacity)
    if algorithms != "none":
        plan = schedule(route, options, costs)
        if simulate(plan, costs).seconds <= best.seconds:
            return options, plan
    return options, best.plan  # other addresses can cost more than workspaces save


def ladder(
    route: Plan, costs: Costs, capacity: int, **given: Unpack[Overrides]
) -> list[Rung]:
    """The rungs that need at most this capacity, the lowest first.

    If the plan that neither recomputes nor copies fits, it is the only one: nothing is
    quicker.
    """
    held = replace(_bare(given), recompute=None, transfers="none")
    simplest = schedule(route, held)
    top = _rung(held, simplest, costs)
    may_be_top = held in _candidates(route, given, ())
    if may_be_top and top.extent <= capacity:
        return [top]
    sizes = _slabs(route, lower_bound(simplest), top.extent)
    fitting = [size for size in sizes if size <= capacity]
    plans = _fitting(route, _candidates(route, given, fitting))
    found = [_rung(options, plan, costs) for options, plan in plans]
    rungs: list[Rung] = []
    for rung in sorted(found, key=lambda rung: (rung.extent, rung.seconds)):
        if rung.extent > capacity or (may_be_top and rung.peak > top.peak):
            continue
        if not rungs or (
            rung.seconds < rungs[-1].seconds and rung.peak >= rungs[-1].peak
        ):
            rungs.append(rung)
    return rungs


def _bare(given: Overrides) -> Options:
    """The given options, without workspaces."""
    return replace(replace(Options(), **given), algorithms="none")


def _slabs(route: Plan, least: int, most: int) -> list[int]:
    """Sizes of slab from the least to the most, in equal ratios."""
    levels = LEVELS if len(route.steps) < DEEP else LEVELS_DEEP
    ratio = (most / least) ** (1 / levels)
    return [least, *(aligned(int(least * ratio**i)) for i in range(1, levels))]


def _candidates(
    route: Plan, given: Overrides, slabs: Sequence[int]
) -> Iterator[Options]:
    """All options that agree with what is given; for the cache, in each slab."""
    bare = _bare(given)
    strategies = RECOMPUTE if len(route.steps) < DEEP else FEW
    for recompute, transfers in product(
        [given["recompute"]] if "recompute" in given else strategies,
        [given["transfers"]] if "transfers" in given else get_args(Transfers),
    ):
        options = replace(bare, recompute=recompute, transfers=transfers)
        if transfers != "cache":
            yield options
        elif recompute in FEW or "recompute" in given:
            for size in slabs:
                yield replace(options, capacity=size, slab=size)


def _rung(options: Options, plan: Plan, costs: Costs) -> Rung:
    seconds = simulate(plan, costs).seconds
    return Rung(options, plan, max(memory(plan)), extent(plan), seconds)


def _fitting(
    route: Plan, candidates: Iterable[Options]
) -> Iterator[tuple[Options, Plan]]:
    """Yield the plans of those options that fit their slab and the host's memory."""
    for options in candidates:
        try:
            yield options, schedule(route, options)
        except OutOfMemory:
            continue


def _caches(route: Plan, given: Overrides, slab: int) -> Iterator[Options]:
    """Yield the options of a cache in this slab, with each kind of recomputation."""
    if given.get("transfers", "cache") == "cache":
        bare = replace(_bare(given), transfers="cache", capacity=slab, slab=slab)
        strategies = RECOMPUTE if len(route.steps) < DEEP else FEW
        for recompute in [given["recompute"]] if "recompute" in given else strategies:
            yield replace(bare, recompute=recompute)


def _too_little(route: Plan, capacity: int, given: Overrides) -> OutOfMemory:
    """Return the error that names the least capacity for which a plan was found."""
    host = given.get("host_capacity")
    best = _smallest(route, {**given, "host_capacity": None})
    assert best is not None
    if host is not None:
        limited = _smallest(route, given)
        if limited is None:
            return _too_little_host(route, host, given)
        without, best = extent(best), limited
    run, needed = peak_run(best), extent(best)
    name = f"{run.layer} {run.phase}"
    if host is None:
        return OutOfMemory(name, needed, capacity, needed)
    return OutOfMemory(name, needed, capacity, needed, host, without)


def _smallest(route: Plan, given: Overrides) -> Plan | None:
    """Return the plan of the smallest extent found; None if the host has too little."""
    held = replace(_bare(given), recompute=None, transfers="none", host_capacity=None)
    simplest = schedule(route, held)
    low, high = lower_bound(simplest), extent(simplest)
    plans = [plan for _, plan in _fitting(route, _caches(route, given, low))]
    if not plans:
        plans = [plan for _, plan in _fitting(route, _candidates(route, given, ()))]
        # A larger slab needs less of the host: halve the range until it is narrow.
        while high - low > max(ALIGNMENT, high // 1000):
            middle = (low + high) // 2
            found = [p for _, p in _fitting(route, _caches(route, given, middle))]
            plans += found
            low, high = (low, middle) if found else (middle, high)
    return min(plans, key=extent, default=None)


def _too_little_host(route: Plan, host: int, given: Overrides) -> OutOfMemory:
    """Return the error for options that all copy more to the host than it has."""
    free = _candidates(route, {**given, "host_capacity": None}, ())
    least = min(max(host_memory(plan)) for _, plan in _fitting(route, free))
    return OutOfMemory("the host", least, host, least)
