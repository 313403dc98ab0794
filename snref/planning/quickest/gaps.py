"""Gaps: where a value stays on the device, and nobody uses it.

Between two uses of a value lies a gap. A value that stays for it takes memory; a value
that leaves takes time. So a plan for little memory is a decision for each gap:

keep             it stays
copy             it leaves for the host, and is back before the second use
recompute        it is dropped, and its layer runs again before the second use. What
                 else had to be computed for that stays until its own next use
                 (speed-centric: SuperNeurons, section 3.4)
recompute each   likewise, but what else had to be computed is dropped at once
                 (memory-centric)

A convolution's output that its ReLU reads, and then only the backward:

>>> from snref.plans import Launch
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
>>> for gap in problem.gaps:
...     print(gap.tensor.name, gap.begin, gap.end, problem.again[gap])
x 1 4 1.0
"""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from snref.plans import Plan, Run, Tensor, aligned
from snref.scheduler.options import Algorithms
from snref.timing.costs import Costs

Decision: TypeAlias = Literal["copy", "recompute", "recompute each"]
Menu: TypeAlias = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """The time between two uses of a value.

    begin, end  the runs that use it before and after, by their places in the route
    maker       the forward run that computes the value; None if running it again
                would not give the value
    first       whether no gap of the same value comes before
    """

    tensor: Tensor
    begin: int
    end: int
    maker: int | None
    first: bool
    nbytes: int = field(init=False, repr=False)  # of the tensor, rounded up

    def __post_init__(self) -> None:
        object.__setattr__(self, "nbytes", self.tensor.aligned_bytes)


Decisions: TypeAlias = dict[Gap, Decision]  # a gap that is not there is kept


class Problem:
    """What decisions are about: the runs of a route, their costs, and the gaps.

    runs      the route's runs, renamed where they work in place. All else counts their
              places
    uses, reads, writes   the scheduled tensors of each run
    fresh    of those it writes, the ones that it does not read
    updated  of those it writes, the ones that it reads, too
    own       bytes of those, each rounded up
    menus     for each run, pairs of bytes of workspace and seconds: the more bytes,
              the fewer seconds
    makers    for each tensor that a forward run computes, that run
    shared    tensors that hold the values of two forward runs, one after the other:
              the second can be copied, but not computed again
    last      for each tensor the last run that uses it
    copy_out, copy_in   for each tensor the seconds of a copy
    again     for each gap with a maker, the seconds to compute the value again
    """

    def __init__(self, route: Plan, costs: Costs, algorithms: Algorithms) -> None:
        self.costs, self.algorithms = costs, algorithms
        self.runs = tuple(route.runs())
        self.uses = [run.working_set for run in self.runs]
        self.reads = [tuple([t for t in r.reads if t.scheduled]) for r in self.runs]
        self.writes = [tuple([t for t in r.writes if t.scheduled]) for r in self.runs]
        self.fresh = [
            tuple([t for t in uses if t not in reads])
            for uses, reads in zip(self.uses, self.reads, strict=True)
        ]
        self.updated = [
            tuple([t for t in writes if t in reads])
            for writes, reads in zip(self.writes, self.reads, strict=True)
        ]
        self.own = [sum([t.aligned_bytes for t in uses]) for uses in self.uses]
        self.menus = [_menu(run, costs, algorithms) for run in self.runs]
        self.makers: dict[Tensor, int] = {}
        self.last: dict[Tensor, int] = {}
        self.shared = self._shared()
        self.gaps = [self._checked(gap) for gap in self._find_gaps()]
        self.copy_out = {t: costs.copy_out(t.nbytes) for t in self.last}
        self.copy_in = {t: costs.copy_in(t.nbytes) for t in self.last}
        self.again = {
            gap: self._seconds_again(gap) for gap in self.gaps if gap.maker is not None
        }

    def _find_gaps(self) -> list[Gap]:
        gaps: list[Gap] = []
        maker: dict[Tensor, int | None] = {}  # of the current value
        has_gap: set[Tensor] = set()  # the current value
        for i, run in enumerate(self.runs):
            for tensor in self.uses[i]:
                if tensor in self.reads[i] and i - self.last[tensor] > 1:
                    begin, first = self.last[tensor], tensor not in has_gap
                    gaps.append(Gap(tensor, begin, i, maker[tensor], first))
                    has_gap.add(tensor)
                self.last[tensor] = i
            for tensor in self.writes[i]:
                has_gap.discard(tensor)
                pure = run.phase == "forward" and tensor not in self.reads[i]
                maker[tensor] = i if pure else None
                if pure:
                    self.makers.setdefault(tensor, i)
        return gaps

    def _shared(self) -> set[Tensor]:
        forward = [i for i, run in enumerate(self.runs) if run.phase == "forward"]
        return {tensor for i in forward for tensor in self.updated[i]}

    def _checked(self, gap: Gap) -> Gap:
        """The gap, without a maker if the value cannot be computed again."""
        if gap.maker is None or self.shared.isdisjoint(self._missing(gap)[1]):
            return gap
        return replace(gap, maker=None)

    def _seconds_again(self, gap: Gap) -> float:
        """Seconds to compute the value again, and what no later run needs for it."""
        return sum(self.menus[run][-1][1] for run in self._missing(gap)[0])

    def _missing(self, gap: Gap) -> tuple[set[int], set[Tensor]]:
        """The runs that compute a gap's value again, and what they compute for it."""
        todo, runs, made = [gap.tensor], set[int](), set[Tensor]()
        while todo:
            run = self.makers[todo.pop()]
            if run not in runs:
                runs.add(run)
                needed = [x for x in self.reads[run] if self.last[x] < gap.end]
                made.update(needed)
                todo += needed
        return runs, made


def _menu(run: Run, costs: Costs, algorithms: Algorithms) -> Menu:
    """What a run takes with so many bytes of workspace."""
    parts = [
        [
            (
                aligned(algorithm.workspace),
                costs.algorithm(run.layer, choice.part, algorithm.name),
            )
            for algorithm in choice.algorithms
            if algorithm is choice.algorithms[0]
            or algorithms == "fastest"
            or (algorithms == "exact" and algorithm.order == choice.algorithms[0].order)
        ]
        for choice in run.choices
    ]
    fixed = costs.seconds(run) if not parts else costs.runs[run.layer, run.phase]
    menu: list[tuple[int, float]] = []
    for nbytes in sorted({0, *(b for part in parts for b, _ in part)}):
        seconds = fixed
        for part in parts:
            seconds += min(s for b, s in part if b <= nbytes)
        if not menu or seconds < menu[-1][1]:
            menu.append((nbytes, seconds))
    return tuple(menu)
