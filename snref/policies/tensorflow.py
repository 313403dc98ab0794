"""TensorFlow: reference counts; tensors that live long are swapped around a peak.

Abadi et al., TensorFlow: A System for Large-Scale Machine Learning, OSDI 2016. A tensor
is freed when no operation that is to come reads it. The swapping is the optional
heuristic of its graph optimizer (``memory_optimizer.cc`` of grappler), *recalled*:
while the estimated peak is above the memory there is, the tensors that are live at the
peak are ranked by

    (time from the peak to the next use)^2 / (uses left) + (time since it was made)^2

and swapped out, best first, until enough bytes are saved. What is small, 1 MiB or less,
stays.

Our reading: outputs of forward runs are swapped, gradients are not. A tensor leaves
after its last use before the peak. It comes back as late as the copy can be hidden by
the model's times; one that would have to be back before the peak is over stays.
"""

from bisect import bisect_right
from collections.abc import Collection
from itertools import accumulate

from snref.plans import Offload, OutOfMemory, Plan, Prefetch, Run, Step, Tensor, memory
from snref.policies.rebuilding import fitting, kept_for_backward
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.options import Options
from snref.timing.costs import Costs

SMALL = 1 << 20  # bytes

Swap = tuple[
    Tensor, int, int
]  # (what, after which run it leaves, before which it is back)


def tensorflow(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan that swaps as little as is needed for its peak to fit."""
    plan = overwrite(route, options.overwrite)
    runs = tuple(plan.runs())
    clock = [0.0, *accumulate(map(costs.seconds, runs))]
    waiting = kept_for_backward(plan)
    uses: dict[Tensor, list[int]] = {}
    for i, run in enumerate(runs):
        for tensor in waiting.keys() & {*run.working_set}:
            uses.setdefault(tensor, []).append(i)

    def candidates(peak: int, swaps: Collection[Swap]) -> list[Swap]:
        """Return the swaps that relieve a run, the best first."""
        taken = {(tensor, after) for tensor, after, _ in swaps}
        ranked: list[tuple[float, int, Swap]] = []
        for tensor, places in uses.items():
            next_one = bisect_right(places, peak)
            if tensor.nbytes <= SMALL or not 0 < next_one < len(places):
                continue
            last, following = places[next_one - 1], places[next_one]
            if last == peak or tensor not in runs[following].reads:
                continue
            latest = clock[following] - costs.copy_in(tensor.nbytes)
            back = max(last + 1, bisect_right(clock, latest) - 1)
            if back <= peak or (tensor, last) in taken:
                continue
            fitness = (clock[following] - clock[peak]) ** 2 / (len(places) - next_one)
            fitness += (clock[peak] - clock[places[0]]) ** 2
            ranked.append((fitness, len(ranked), (tensor, last, back)))
        return [swap for _, _, swap in sorted(ranked, reverse=True)]

    def make(capacity: int) -> Plan:
        swaps: list[Swap] = []
        while True:
            made = _with_swaps(runs, swaps)
            place, peak = _peak(free_dead(made))
            if peak <= capacity:
                return made
            chosen = candidates(place, swaps)
            if not chosen:
                run = runs[place]
                raise OutOfMemory(f"{run.layer} {run.phase}", peak, capacity, peak)
            for swap in chosen:
                if peak <= capacity:
                    break
                swaps.append(swap)
                peak -= swap[0].aligned_bytes

    return fitting(make, 0, options, costs)


def _with_swaps(runs: tuple[Run, ...], swaps: Collection[Swap]) -> Plan:
    """Return the plan with these copies. A value that is on the host is not copied."""
    out: dict[int, list[Tensor]] = {}
    back: dict[int, list[Tensor]] = {}
    on_host: set[Tensor] = set()
    for tensor, after, before in sorted(swaps, key=lambda swap: swap[1]):
        if tensor not in on_host:
            out.setdefault(after, []).append(tensor)
        on_host.add(tensor)
        back.setdefault(before, []).append(tensor)
    steps: list[Step] = []
    for i, run in enumerate(runs):
        steps += map(Prefetch, back.get(i, ()))
        steps.append(run)
        steps += map(Offload, out.get(i, ()))
    return Plan(tuple(steps))


def _peak(plan: Plan) -> tuple[int, int]:
    """Return the place of the run with most bytes in use, and the bytes."""
    usage = memory(plan, workspace=True)
    peak = max(usage)
    before = plan.steps[: usage.index(peak) + 1]
    count = sum(isinstance(step, Run) for step in plan.steps)
    return min(sum(isinstance(step, Run) for step in before), count - 1), peak
