"""Writing: what was forecast, as a plan."""

from snref.planning.quickest.forecast import Forecast
from snref.planning.quickest.gaps import Problem
from snref.planning.quickest.spans import Span
from snref.plans import Alloc, Free, Offload, Plan, Prefetch, Step, Tensor
from snref.scheduler.algorithms import choose


def written(problem: Problem, forecast: Forecast, capacity: int) -> Plan:
    """The steps, allocated and not yet placed, with the workspaces that fit."""
    count = len(forecast.order)
    begin: list[list[Span]] = [[] for _ in range(count)]
    end: list[list[Span]] = [[] for _ in range(count + 1)]
    leave: list[list[Span]] = [[] for _ in range(count)]
    following: dict[Tensor, int] = {}  # where the next span of a tensor begins
    for span in reversed(forecast.spans):
        start = forecast.begins.get(span, span.first)
        last = max(span.last + 1, forecast.releases.get(span, 0))
        end[min(last, following.get(span.tensor, count))].append(span)
        begin[start].append(span)
        following[span.tensor] = start
        if span.leaves:
            assert span.made is not None
            leave[span.made].append(span)
    steps: list[Step] = []
    in_use = 0
    for place, (i, _) in enumerate(forecast.order):
        for span in end[place]:
            steps.append(Free(span.tensor))
            in_use -= span.tensor.aligned_bytes
        arriving = []
        for span in begin[place][::-1]:
            steps.append(Alloc(span.tensor))
            in_use += span.tensor.aligned_bytes
            if span.earliest is not None:
                arriving.append(Prefetch(span.tensor))
        steps += arriving
        run = problem.runs[i]
        run = choose(run, capacity - in_use, problem.costs, problem.algorithms)
        steps += [*map(Alloc, run.workspaces), run, *map(Free, run.workspaces)]
        steps += [Offload(span.tensor) for span in leave[place][::-1]]
    steps += [Free(span.tensor) for span in end[count]]
    return Plan(tuple(steps))
