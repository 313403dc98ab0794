"""The optimum for chains: which stages are computed again, by dynamic programming.

Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, Optimal Checkpointing for
Heterogeneous Chains, 2019, section 4; their tool is called rotor. A net is a chain of
stages, each of which reads the output of the one before. C(s, t, m) is the least time
to compute stages s to t and their backward in m bytes, beside the input of s:

    C(s, t, m) = the least of
        f(s) + C(s+1, t, m - all(s)) + b(s)             all of s is saved
        f(s) + ... + f(r-1) + C(r, t, m - out(r-1)) + C(s, r-1, m)
                                     only the input of r is saved, for s < r <= t

f and b are the seconds of forward and backward, out(s) the bytes of a stage's output,
all(s) those of all that its backward needs, the output included. An entry is infinite
if what runs at once needs more than m.

Where a stage has several layers, it may be saved in part, too: in several ways, each
with its own all(s) and b(s), as in Rockmate (Zhao et al., 2023). The ways drop the
outputs that cost the fewest seconds a byte, and compute them again in b(s).

Our reading: a stage ends where a single tensor leads from what comes before to what
comes after, and where backward goes back the same way. Stages are joined, the shortest
first, until there are at most 32. Bytes are rounded to slots. The table counts too
many: an output stays until its stage's backward, needed or not. So it may have more
bytes than there are, as long as the plan needs no more. A stage whose output is not
needed any more is saved without it. Within this, the plan is the quickest of those
that save and drop whole stages in these ways. It is not the quickest of all plans, nor
of those with copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from snref.plans import OutOfMemory, Plan, Run, Tensor, lower_bound, memory
from snref.policies.rebuilding import (
    first_backward,
    fitting,
    forward_cuts,
    rebuild,
    without_useless,
)
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.options import Options
from snref.timing.costs import Costs

STAGES = 32
SLOTS = 500
SHARES = (0.0, 0.34, 0.67, 1.0)  # of a stage's bytes that are dropped
FACTORS = (1.5, 1.4, 1.3, 1.2, 1.15, 1.1, 1.05, 1.0)  # of the bytes, for the table
NEVER = float("inf")


def rotor(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the quickest plan that computes stages of a chain again."""
    plan = overwrite(route, options.overwrite)
    most = max(memory(free_dead(plan), workspace=True))
    chain = _Chain(_stages(plan, costs), most)
    updates = tuple(run for run in plan.runs() if run.phase == "update")

    def make(capacity: int) -> Plan:
        for factor in FACTORS:
            # The table counts stages whole, so that it may need more than ``most``.
            runs = chain.runs(min(int(factor * capacity), 2 * most))
            made = Plan(without_useless(runs) + updates)
            if max(memory(free_dead(made), workspace=True)) <= capacity:
                break
        return made

    return fitting(make, lower_bound(plan), options, costs)


@dataclass(frozen=True)
class _Way:
    """A way to save a stage.

    backward           its backward runs, with those that compute again what was dropped
    seconds            of its forward
    backward_seconds   of those runs
    saved              bytes of what is saved for backward, the output included
    peak               most bytes in use in forward and backward, with what is saved
    """

    backward: tuple[Run, ...]
    seconds: float
    backward_seconds: float
    saved: int
    peak: int


@dataclass(frozen=True)
class _Stage:
    """A stage of the chain: its runs, their seconds, and the bytes that they need.

    out      bytes of the output
    peak     most bytes in use in forward, if nothing is saved but the output
    ways     to save it
    endings  to save it if the backward of the next stage is done: without its output
    """

    forward: tuple[Run, ...]
    seconds: float
    out: int
    peak: int
    ways: tuple[_Way, ...]
    endings: tuple[_Way, ...]


def _stages(plan: Plan, costs: Costs) -> list[_Stage]:
    """Cut a plan into at most STAGES stages."""
    runs = tuple(plan.runs())
    start = first_backward(runs)
    forward, backward = runs[:start], [r for r in runs[start:] if r.phase == "backward"]
    ends = [i for i, run in enumerate(forward) if run in forward_cuts(forward)]
    pieces: list[list[Run]] = [[]]
    for i, run in enumerate(forward):
        pieces[-1].append(run)
        if i in ends[:-1] and i < start - 1:
            pieces.append([])
    pieces = _in_backward_order(pieces, backward)
    seconds = {run.layer: costs.seconds(run) for run in forward}
    while len(pieces) > STAGES:
        weights = [sum(seconds[run.layer] for run in piece) for piece in pieces]
        i = min(range(len(pieces) - 1), key=lambda i: weights[i] + weights[i + 1])
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
    return [_stage(plan, piece, backward, costs) for piece in pieces]


def _in_backward_order(
    pieces: list[list[Run]], backward: Sequence[Run]
) -> list[list[Run]]:
    """Join pieces until the backward pass goes through them one by one."""
    number = {run.layer: i for i, piece in enumerate(pieces) for run in piece}
    joined: list[list[Run]] = []
    seen: list[int] = [number[run.layer] for run in backward]
    lowest = len(pieces)
    begins: set[int] = {0}
    for place, here in enumerate(seen):
        lowest = min(lowest, here)
        later = seen[place + 1 :]
        if not later or max(later) < lowest:
            begins.add(lowest)
    for i, piece in enumerate(pieces):
        if i in begins or not joined:
            joined.append([])
        joined[-1] += piece
    return joined


def _stage(
    plan: Plan, forward: Sequence[Run], backward: Sequence[Run], costs: Costs
) -> _Stage:
    """Measure a stage by what liveness says of its runs alone."""
    layers = {run.layer for run in forward}
    back = tuple(run for run in backward if run.layer in layers)
    made = {t: run for run in forward for t in run.writes if t.scheduled}
    others = [run for run in plan.runs() if run.layer not in layers]
    read_elsewhere = {t for run in others for t in run.reads}
    outside = {t for run in forward for t in run.working_set} - made.keys()
    gradients = {t for run in back for t in run.working_set} - made.keys() - outside
    after = gradients & read_elsewhere

    def way(output: set[Tensor], needed: set[Tensor], share: float) -> _Way:
        """Drop this share of what is needed and is no output."""
        inner = sorted(
            needed - output, key=lambda t: costs.seconds(made[t]) / t.aligned_bytes
        )
        dropped: set[Tensor] = set()
        for tensor in inner:
            if _bytes({*dropped, tensor}) <= share * _bytes({*inner}):
                dropped.add(tensor)
        saved = output | (needed - dropped)
        first = without_useless(forward, saved)
        runs = back
        if dropped:
            again = rebuild(Plan((*forward, *back)), dropped, kept=saved)
            runs = tuple(again.runs())[len(forward) :]
        return _Way(
            runs,
            sum(map(costs.seconds, first)),
            sum(map(costs.seconds, runs)),
            _bytes(saved),
            max(_peak(first, saved, outside), _peak(runs, after, outside)),
        )

    output = made.keys() & read_elsewhere
    in_backward = made.keys() & {t for run in backward for t in run.reads}
    in_own = made.keys() & {t for run in back for t in run.reads}
    shares = SHARES if in_backward - output and back else SHARES[:1]
    return _Stage(
        tuple(forward),
        sum(map(costs.seconds, forward)),
        _bytes(output),
        _peak(forward, output, outside),
        tuple(way(output, in_backward, share) for share in shares),
        tuple(way(set(), in_own, share) for share in SHARES) if in_own else (),
    )


def _peak(runs: Sequence[Run], after: set[Tensor], outside: set[Tensor]) -> int:
    """Return the most bytes in use while these runs run, without those outside.

    after  tensors that stay behind the last run
    """
    live = set(after)
    peak = 0
    for run in reversed(runs):
        peak = max(peak, _bytes((live | {*run.working_set}) - outside))
        live = (live - {*run.writes}) | {t for t in run.reads if t.scheduled}
    return max(peak, _bytes(live - outside))


def _bytes(tensors: set[Tensor]) -> int:
    return sum(tensor.aligned_bytes for tensor in tensors)


class _Chain:
    """The table C, and the runs that it leads to.

    most  bytes that all stages together need at most: the size of a slot follows
    """

    def __init__(self, stages: Sequence[_Stage], most: int) -> None:
        self.stages = stages
        self.unit = max(1, most // SLOTS)
        self.out = [self.slots(stage.out) for stage in stages]
        self.passing = [self.slots(stage.peak) for stage in stages]
        self.table: dict[tuple[int, int, int], tuple[float, int, int]] = {}

    def slots(self, nbytes: int) -> int:
        return round(nbytes / self.unit)

    def ways(self, s: int, t: int) -> tuple[_Way, ...]:
        """Return how stage s can be saved if backward begins with stage t."""
        stage = self.stages[s]
        return stage.endings if s == t < len(self.stages) - 1 else stage.ways

    def best(self, s: int, t: int, m: int) -> tuple[float, int, int]:
        """Return C(s, t, m), the r that gives it, or s, and then the way to save s."""
        if s > t:
            return 0.0, s, 0
        key = s, t, m
        if key in self.table:
            return self.table[key]
        found = NEVER, s, 0
        for number, way in enumerate(self.ways(s, t)):
            if self.slots(way.peak) <= m:
                rest = self.best(s + 1, t, m - self.slots(way.saved))[0]
                seconds = way.seconds + rest + way.backward_seconds
                found = min(found, (seconds, s, number))
        seconds, before = 0.0, 0
        for r in range(s + 1, t + 1):
            if before + self.passing[r - 1] > m or self.out[r - 1] > m:
                break
            seconds += self.stages[r - 1].seconds
            before = self.out[r - 1]
            rest = self.best(r, t, m - before)[0]
            if seconds + rest < found[0]:
                again = self.best(s, r - 1, m)[0]
                found = min(found, (seconds + rest + again, r, 0))
        self.table[key] = found
        return found

    def runs(self, capacity: int) -> list[Run]:
        """Return the runs in the order of the best entry for so many bytes."""
        last, slots = len(self.stages) - 1, capacity // self.unit
        if self.best(0, last, slots)[0] == NEVER:
            enough = capacity + 1
            raise OutOfMemory("the chain", enough, capacity, enough)
        runs: list[Run] = []

        def go(s: int, t: int, m: int) -> None:
            if s > t:
                return
            _, r, number = self.best(s, t, m)
            if r == s:
                way = self.ways(s, t)[number]
                runs.extend(self.stages[s].forward)
                go(s + 1, t, m - self.slots(way.saved))
                runs.extend(way.backward)
                return
            for stage in self.stages[s:r]:
                runs.extend(stage.forward)
            go(r, t, m - self.out[r - 1])
            go(s, r - 1, m)

        go(0, last, slots)
        return runs
