"""The order of runs: the route, and what is computed again before it is read.

With the problem of ``gaps.py``, of which x is dropped after relu1 (run 1 of the route):

>>> from snref.plans import Launch, Plan, Run
>>> from snref.timing.costs import Costs
>>> x, y, z, dz, dy = (Tensor(name, (64,)) for name in ("x", "y", "z", "dz", "dy"))
>>> route = Plan((
...     Run("conv1", "forward", (Launch("", (x,)),)),
...     Run("relu1", "forward", (Launch("", (y,), (x,)),)),
...     Run("loss", "forward", (Launch("", (z,), (y,)),)),
...     Run("loss", "backward", (Launch("", (dz,), (z,)),)),
...     Run("relu1", "backward", (Launch("", (dy,), (x, dz)),)),
... ))
>>> costs = Costs("by hand", dict.fromkeys(
...     ((run.layer, run.phase) for run in route.runs()), 1.0), {}, 256.0, 256.0)
>>> problem = Problem(route, costs, "exact")
>>> order(problem, {problem.gaps[0]: "recompute"})
[(0, False), (1, False), (2, False), (3, False), (0, True), (4, False)]
"""

from typing import TypeAlias

from snref.planning.quickest.gaps import Decisions, Problem
from snref.plans import Tensor

Order: TypeAlias = list[tuple[int, bool]]


def order(problem: Problem, decisions: Decisions) -> Order:
    """Every run as its place in the route, and whether it runs again.

    A value that was dropped is computed again just before the run that reads it, from
    whatever is there, and from what has to be computed again for it in turn.
    """
    reads, writes, makers = problem.reads, problem.writes, problem.makers
    dropped: dict[int, list[Tensor]] = {}  # behind which run
    for gap, decision in decisions.items():
        if decision != "copy":
            dropped.setdefault(gap.begin, []).append(gap.tensor)
    each = {gap.tensor for gap in decisions if decisions[gap] == "recompute each"}
    runs: Order = []
    missing: set[Tensor] = set()
    for i in range(len(problem.runs)):
        if not missing or missing.isdisjoint(reads[i]):
            runs.append((i, False))
        else:
            rebuilt: list[Tensor] = []
            todo = [tensor for tensor in reads[i] if tensor in missing]
            needed = set[int]()
            while todo:
                maker = makers[todo.pop()]
                if maker not in needed:
                    needed.add(maker)
                    todo += [
                        x for x in reads[maker] if x in missing or problem.last[x] < i
                    ]
            for maker in sorted(needed):
                runs.append((maker, True))
                rebuilt += writes[maker]
            missing.difference_update(rebuilt)
            runs.append((i, False))
            for tensor in rebuilt:
                if tensor in each and tensor not in problem.uses[i]:
                    missing.add(tensor)
        if i in dropped:
            missing.update(dropped[i])
    return runs
