"""The distance of a plan from the bound of its time, split by what causes it."""

from dataclasses import dataclass

from snref.planning.quickest.gaps import Problem
from snref.plans import Plan
from snref.timing.timeline import simulate


@dataclass(frozen=True)
class Distance:
    """By how many seconds a plan takes longer than the bound, and why.

    recomputation  runs that run again
    waiting        runs that wait for copies, even if only bytes counted
    placement      what they wait longer since addresses count, too
    algorithms     convolutions with less workspace than their quickest algorithms need
    unavoidable    what any plan needs of all these, as far as the bound proves it
    """

    recomputation: float
    waiting: float
    placement: float
    algorithms: float
    unavoidable: float

    @property
    def seconds(self) -> float:
        causes = self.recomputation + self.waiting + self.placement + self.algorithms
        return causes - self.unavoidable


def distance(plan: Plan, problem: Problem, capacity: int, bound: float) -> Distance:
    """Split what a plan takes longer than a bound of its time.

    capacity  bytes that the plan may use, and for which the bound holds
    """
    timeline = simulate(plan, problem.costs)
    without_addresses = simulate(plan, problem.costs, capacity)
    placement = max(0.0, timeline.seconds - without_addresses.seconds)
    quickest = sum(menu[-1][1] for menu in problem.menus)
    again, seen = 0.0, set[tuple[str, str]]()
    for run in plan.runs():
        if (run.layer, run.phase) in seen:
            again += problem.costs.seconds(run)
        seen.add((run.layer, run.phase))
    return Distance(
        recomputation=again,
        waiting=timeline.stall_seconds - placement,
        placement=placement,
        algorithms=timeline.compute_seconds - again - quickest,
        unavoidable=bound - quickest,
    )
