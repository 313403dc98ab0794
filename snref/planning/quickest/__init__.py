"""The quickest plan in so much memory.

What the paper decides once for a whole net, by the kind of a layer, is decided here for
each tensor alone: whether it is kept, copied to the host and back, or computed again;
and which algorithm each convolution gets for the memory that is left. The timeline
(``timing/timeline.py``) judges. Read in this order:

1. gaps      where a value waits between two uses, and what may be decided for it
2. order     the runs of a plan, once it is known what is computed again
3. spans     from when to when each value is on the device
4. forecast  how long that takes, and when each copy begins and ends
5. search    decisions by price, repaired, refilled, improved
6. writing   the decisions as a plan
7. frontier  plans for more and more memory, none slower than one for less

``least_time`` is what ``--memory`` alone means.
"""

from dataclasses import replace
from itertools import product
from typing import TypedDict, Unpack, get_args

from snref.planning.quickest.frontier import Frontier
from snref.planning.quickest.gaps import Problem
from snref.planning.quickest.search import Limits
from snref.plans import OutOfMemory, Plan, extent, lower_bound, peak_run
from snref.plans.verification import verify
from snref.scheduler import Options, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.options import (
    PER_TENSOR,
    Algorithms,
    Overwrite,
    Strategy,
    Transfers,
)
from snref.timing.costs import Costs
from snref.timing.timeline import simulate


class Overrides(TypedDict, total=False):
    """Options that are given, not to be chosen."""

    recompute: Strategy | None
    transfers: Transfers
    algorithms: Algorithms
    overwrite: Overwrite
    host_capacity: int | None


def least_time(
    route: Plan,
    costs: Costs,
    capacity: int,
    *,
    effort: float = 1.0,
    **given: Unpack[Overrides],
) -> tuple[Options, Plan]:
    """Return the quickest plan that is found in so many bytes, and its options.

    effort  how long to search: 1 takes a second or two for a net of fifty layers
    given   options that are kept. Without recomputation, or without transfers, the
            rest is decided tensor by tensor all the same. If a strategy or a kind of
            transfers of the paper is given, the quickest of its plans is taken

    With the same route and options, more memory never gives a slower plan, and less
    memory never a higher peak, workspaces included. This does not hold for the plans of
    the paper.

    Raises OutOfMemory, with the least capacity for which a plan is known.
    """
    strategy, transfers = given.get("recompute"), given.get("transfers", "none")
    if strategy is not None or transfers != "none":
        return _of_the_paper(route, costs, capacity, given)
    options = replace(
        Options(recompute=PER_TENSOR, transfers=PER_TENSOR),
        capacity=capacity,
        slab=capacity,
        **given,
    )
    base = overwrite(route, options.overwrite)
    problem = Problem(base, costs, options.algorithms)
    limits = Limits(
        host=options.host_capacity,
        copies=options.transfers != "none",
        reruns=options.recompute is not None,
    )
    least = lower_bound(base)
    if capacity < least and limits == Limits():
        run = problem.runs[problem.own.index(max(problem.own))]
        raise OutOfMemory(f"{run.layer} {run.phase}", least, capacity, least)
    frontier = Frontier(problem, limits, effort)
    point = frontier.best(capacity)
    if point is None:
        raise _too_little(frontier, capacity)
    verify(
        point.plan,
        route,
        capacity=capacity,
        slab=capacity,
        host_capacity=options.host_capacity,
    )
    return options, point.plan


def _too_little(frontier: Frontier, capacity: int) -> OutOfMemory:
    """The error that names the least capacity for which a plan was found."""
    limits, plan = frontier.limits, frontier.lowest.plan
    run, least = peak_run(plan), extent(plan)
    name = f"{run.layer} {run.phase}"
    if limits.host is None:
        return OutOfMemory(name, least, capacity, least)
    freer = replace(limits, host=None)
    without = frontier.least
    if freer != Limits():
        without = extent(Frontier(frontier.problem, freer).lowest.plan)
    return OutOfMemory(name, least, capacity, least, limits.host, without)


def _of_the_paper(
    route: Plan, costs: Costs, capacity: int, given: Overrides
) -> tuple[Options, Plan]:
    """The quickest of the scheduler's plans that have the given options."""
    plans: list[tuple[float, Options, Plan]] = []
    failures: list[OutOfMemory] = []
    for recompute, transfers in product(
        [given["recompute"]] if "recompute" in given else [None, *get_args(Strategy)],
        [given["transfers"]] if "transfers" in given else get_args(Transfers),
    ):
        options = replace(
            Options(capacity=capacity, slab=capacity),
            **{**given, "recompute": recompute, "transfers": transfers},
        )
        try:
            plan = schedule(route, options, costs)
        except OutOfMemory as error:
            failures.append(error)
            continue
        plans.append((simulate(plan, costs).seconds, options, plan))
    if not plans:
        # A plan that only the host has too little memory for comes closest.
        raise min(failures, key=lambda e: (e.step != "the host", e.least))
    _, options, plan = min(plans, key=lambda entry: entry[0])
    return options, plan
