"""A certified lower bound of the modelled time, by a linear relaxation.

The quickest plan in so much memory is not known, but a lower bound of its time is. So
it is known how far, at most, a plan is from it. Of each gap between two uses of a value
(``quickest/gaps.py``) a fraction is kept, a fraction copied, a fraction computed again.
Each run of the route has a start. Then hold, for every plan with the same route and the
same algorithms:

gaps      the three fractions of a gap add up to 1. One copy out serves all gaps of a
          value. A run runs again as often as the gaps of one of its outputs say
time      a run starts when the one before has ended; all runs and re-runs take the
          device one after the other
link      bytes copied each way since the start: not more than the link takes by then,
          nor than there was to copy; not less than runs so far have needed
memory    at the start and at the end of a run, what is not away, and the workspace of
          the algorithms (in fractions), fit. Away is only what has been copied out, and
          not yet in. Of a deep net, only some runs are looked at

Every quickest plan satisfies these linear conditions, so the smallest time that they
allow is a lower bound. SciPy's HiGHS finds it. What counts is not its answer, but the
certificate: any multipliers of the conditions, one for each, prove a bound by weak
duality, and ``certified`` computes that bound in exact fractions, and rounds it down.
It is not below the time that the runs alone take, which ``bound`` returns if HiGHS
fails, as for costs of extreme sizes.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.util import find_spec
from itertools import accumulate, pairwise
from math import fsum

from snref.planning.quickest.gaps import Gap, Menu, Problem
from snref.plans import Tensor

Terms = list[tuple[int, float]]  # (variable, coefficient)

MOST_RUNS = 4000  # of a net, all of which are watched; of deeper ones, so many are:
MOMENTS = 100
LARGE = 10_000  # conditions
ROUNDING = Fraction(1, 2**40)  # of a bound: the timeline's sums are rounded, too


def bound(problem: Problem, capacity: int, seconds: float) -> float:
    """Return a certified bound of the seconds of all plans in so many bytes.

    seconds  of some plan that fits: no quickest plan takes longer
    """
    linear = relaxation(problem, capacity, seconds)
    runs = sum(Fraction(menu[-1][1]) for menu in problem.menus)
    proven = certified(linear, multipliers(linear))
    return max(proven, float(runs * (1 - ROUNDING)))


@dataclass
class Relaxation:
    """Minimise the first variable where each row's terms add up to at most its bound.

    upper   of each variable the largest value; the smallest is 0
    rows    terms and bound; ``equal`` names the rows that must be equal to it
    """

    upper: list[float] = field(default_factory=list)
    rows: list[tuple[Terms, float]] = field(default_factory=list)
    equal: list[int] = field(default_factory=list)

    def variable(self, upper: float) -> int:
        self.upper.append(upper)
        return len(self.upper) - 1

    def at_most(self, terms: Terms, bound: float = 0.0) -> None:
        self.rows.append((terms, bound))

    def equals(self, terms: Terms, bound: float) -> None:
        self.equal.append(len(self.rows))
        self.rows.append((terms, bound))


def relaxation(problem: Problem, capacity: int, seconds: float) -> Relaxation:
    """Return the relaxation of a problem in so many bytes of device memory.

    seconds  of some plan that fits: no quickest plan takes longer
    """
    problem = copy(problem)
    # An update may run anywhere behind its gradient: what waits for it is not counted.
    problem.gaps = [g for g in problem.gaps if problem.runs[g.end].phase != "update"]
    linear = Relaxation()
    total, one = linear.variable(seconds), linear.variable(1.0)
    linear.equals([(one, 1.0)], 1.0)
    fractions = _gaps(linear, problem)
    again = _reruns(linear, problem, fractions)
    ways = [_ways(linear, menu, one) for menu in problem.menus]
    quickest = [(v, problem.menus[run][-1][1]) for run, v in again.items()]
    linear.at_most([(total, -1.0), *_added(ways, one), *quickest])
    watched = _watched(problem)
    starts = [linear.variable(seconds) for _ in watched]
    ends = [*watched, len(ways)]
    for start, now, after, next_start in zip(
        starts, watched, ends[1:], [*starts[1:], total], strict=True
    ):
        between = [i for i in range(now, after) if problem.runs[i].phase != "update"]
        way = _added([ways[i] for i in between], one)
        linear.at_most([(start, 1.0), (next_start, -1.0), *way])
    begin = [i for i in range(watched[0]) if problem.runs[i].phase != "update"]
    linear.at_most([(starts[0], -1.0), *_added([ways[i] for i in begin], one)])
    _memory(
        linear,
        problem,
        capacity,
        fractions,
        dict(zip(watched, starts, strict=True)),
        ways,
    )
    return linear


def _watched(problem: Problem) -> list[int]:
    """The runs at which memory is looked at: all, but of a deep net those with most.

    Fewer conditions prove a bound that is as valid, if not as high. The runs are
    divided into stretches, and the run of each that needs most memory is watched.
    """
    change = [0] * (len(problem.runs) + 1)
    for gap in problem.gaps:
        change[gap.begin + 1] += gap.nbytes
        change[gap.end] -= gap.nbytes
    need = [
        own + held for own, held in zip(problem.own, accumulate(change), strict=False)
    ]
    runs = [i for i, run in enumerate(problem.runs) if run.phase != "update"]
    count = min(len(runs), MOMENTS if len(runs) > MOST_RUNS else MOST_RUNS)
    ends = [len(runs) * part // count for part in range(count + 1)]
    stretches = [runs[start:end] for start, end in pairwise(ends)]
    return [max(stretch, key=need.__getitem__) for stretch in stretches]


@dataclass(frozen=True, slots=True)
class _Fractions:
    copied: dict[Gap, int]
    recomputed: dict[Gap, int]
    first: dict[Gap, Gap]  # the first gap of the same value
    out: dict[Gap, int]  # by the first gap: the fraction of the value that is copied


def _gaps(linear: Relaxation, problem: Problem) -> _Fractions:
    """Variables for what is not kept of each gap's value."""
    found = _Fractions({}, {}, {}, {})
    current: dict[Tensor, Gap] = {}
    for gap in problem.gaps:
        if gap.first:
            current[gap.tensor] = gap
            found.out[gap] = linear.variable(1.0)
        found.first[gap] = current[gap.tensor]
        found.copied[gap] = linear.variable(1.0)
        terms = [(found.copied[gap], 1.0)]
        if gap.maker is not None:
            found.recomputed[gap] = linear.variable(1.0)
            terms.append((found.recomputed[gap], 1.0))
            linear.at_most(terms, 1.0)
        out = found.out[current[gap.tensor]]
        linear.at_most([(found.copied[gap], 1.0), (out, -1.0)])
    return found


def _reruns(
    linear: Relaxation, problem: Problem, fractions: _Fractions
) -> dict[int, int]:
    """How often each forward run runs again: variables by the run."""
    outputs: dict[tuple[int, Tensor], list[int]] = {}
    for gap, fraction in fractions.recomputed.items():
        assert gap.maker is not None
        outputs.setdefault((gap.maker, gap.tensor), []).append(fraction)
    often: dict[int, int] = {}
    for (run, _), parts in outputs.items():
        if run not in often:
            often[run] = linear.variable(float(len(problem.gaps)))
        linear.at_most([*((v, 1.0) for v in parts), (often[run], -1.0)])
    return often


def _ways(linear: Relaxation, menu: Menu, one: int) -> Terms:
    """Seconds of a run: for each algorithm a fraction of the run."""
    if len(menu) == 1:
        return [(one, menu[0][1])]
    terms = [(linear.variable(1.0), seconds) for _, seconds in menu]
    linear.equals([(variable, 1.0) for variable, _ in terms], 1.0)
    return terms


def _added(ways: Iterable[Terms], one: int) -> Terms:
    """The terms of several runs, with those that are constant in one."""
    terms = [term for way in ways for term in way]
    constant = fsum(seconds for variable, seconds in terms if variable == one)
    return [(one, constant), *(term for term in terms if term[0] != one)]


class _Sums:
    """Sums of fractions times bytes, to which later moments add: a variable a moment.

    So the conditions of a moment have few terms, however many gaps are begun.
    """

    def __init__(self, linear: Relaxation, most: float) -> None:
        self.linear, self.most = linear, most
        self.now: dict[str, int] = {}
        self.more: dict[str, Terms] = {}

    def add(self, name: str, variable: int, nbytes: float) -> None:
        self.more.setdefault(name, []).append((variable, -nbytes))

    def terms(self, name: str, factor: float) -> Terms:
        """The sum of now, times a factor."""
        if name in self.more:
            before = self.now.get(name)
            self.now[name] = variable = self.linear.variable(self.most)
            terms = [(variable, 1.0), *self.more.pop(name)]
            self.linear.equals(terms if before is None else [(before, -1.0), *terms], 0)
        return [(self.now[name], factor)] if name in self.now else []


def _memory(
    linear: Relaxation,
    problem: Problem,
    capacity: int,
    fractions: _Fractions,
    start_of: dict[int, int],
    ways: list[Terms],
) -> None:
    """Bytes on the device and over the link, at the start and end of watched runs."""
    unit = float(capacity)  # bytes, so that numbers are near 1
    copied, out, first = fractions.copied, fractions.out, fractions.first
    # The link moves bytes, memory is taken in multiples of 256 of them.
    rounding = max((g.nbytes / g.tensor.nbytes for g in problem.gaps), default=1.0)
    speed_out = rounding * problem.costs.to_host / unit
    speed_in = rounding * problem.costs.to_device / unit
    most = sum(gap.nbytes for gap in problem.gaps) / unit
    begins, ends, computed = _events(problem, first)
    sums, held = _Sums(linear, most), 0
    before: tuple[int, Terms] | None = None  # the start and the ways of the last one
    gone = came = linear.variable(0.0)  # bytes copied out, and in, at the moment before
    for i in sorted({*begins, *ends, *computed, *start_of}):
        for gap in ends.get(i, ()):
            held -= gap.nbytes
            size = gap.nbytes / unit
            sums.add("ended", copied[gap], size)
            if first[gap] is gap:
                sums.add("ended first", copied[gap], size)
            else:
                sums.add("later", copied[gap], -size)
            if gap in fractions.recomputed:
                sums.add("recomputed", fractions.recomputed[gap], -size)
        for late in (False, True) if i in start_of else ():
            # The time since the moment before: the run itself, or what was before it.
            passed = ways[i] if late else [(start_of[i], 1.0)]
            if before is not None and not late:
                passed = [*passed, (before[0], -1.0)]
                passed += [(v, -seconds) for v, seconds in before[1]]
            moment = linear.variable(most), linear.variable(most)
            for now, then, speed in zip(
                moment, (gone, came), (speed_out, speed_in), strict=True
            ):
                linear.at_most([(then, 1.0), (now, -1.0)])
                waited = [(v, -speed * factor) for v, factor in passed]
                linear.at_most([(now, 1.0), (then, -1.0), *waited])
            gone, came = moment
            begun, ended = sums.terms("begun", -1.0), sums.terms("ended", 1.0)
            linear.at_most([(gone, 1.0), *sums.terms("made", -1.0)])
            linear.at_most([(came, 1.0), *begun])
            linear.at_most([(came, -1.0), *ended])
            away = linear.variable(most)
            linear.at_most([(away, 1.0), *begun, *ended])
            linear.at_most([(away, 1.0), (came, 1.0), *begun])
            stay = [*sums.terms("later", -1.0), *sums.terms("ended first", 1.0)]
            linear.at_most([(away, 1.0), (gone, -1.0), *stay])
            taken = [(away, -1.0), *sums.terms("recomputed", -1.0)]
            if len(problem.menus[i]) > 1:
                for (v, _), (nbytes, _) in zip(ways[i], problem.menus[i], strict=True):
                    taken.append((v, nbytes / unit))
            room = max(capacity, problem.own[i]) - problem.own[i]
            linear.at_most(taken, (room - held) / unit)
        if i in start_of:
            before = start_of[i], ways[i]
        for gap in begins.get(i, ()):
            held += gap.nbytes
            size = gap.nbytes / unit
            sums.add("begun", copied[gap], size)
            if first[gap] is not gap:
                sums.add("later", copied[gap], size)
            if gap in fractions.recomputed:
                sums.add("recomputed", fractions.recomputed[gap], size)
        for gap in computed.get(i, ()):
            sums.add("made", out[gap], gap.nbytes / unit)


Events = dict[int, list[Gap]]


def _events(problem: Problem, first: dict[Gap, Gap]) -> tuple[Events, Events, Events]:
    """By a run: the gaps that begin there and end there, and whose value it computes.

    A value can be copied once it is computed, which may be before its first gap.
    """
    begins: Events = {}
    ends: Events = {}
    computed: Events = {}  # only the first gaps of the values
    for gap in problem.gaps:
        begins.setdefault(gap.begin, []).append(gap)
        ends.setdefault(gap.end, []).append(gap)
    writer: dict[Tensor, int] = {}
    for i, run in enumerate(problem.runs):
        if run.phase != "update":
            writer.update(dict.fromkeys(problem.writes[i], i))
            for gap in begins.get(i, ()):
                if first[gap] is gap:
                    computed.setdefault(writer[gap.tensor], []).append(gap)
    return begins, ends, computed


def certified(linear: Relaxation, multipliers: list[float]) -> float:
    """Return the bound that multipliers of the rows prove, in seconds, rounded down.

    With multipliers y <= 0 of the rows "at most" and any of the rows "equal", every
    solution x has  x0 >= sum_i y_i b_i + sum_j min(0, (c - y A)_j upper_j)  (weak
    duality). Multipliers of the wrong sign count as 0.
    """
    equal = set(linear.equal)
    bound = Fraction(0)
    reduced = [Fraction(0)] * len(linear.upper)
    reduced[0] = Fraction(1)
    for row, ((terms, limit), multiplier) in enumerate(
        zip(linear.rows, multipliers, strict=True)
    ):
        if multiplier > 0 and row not in equal:
            continue
        factor = Fraction(multiplier)
        if factor:
            bound += factor * Fraction(limit)
            for variable, coefficient in terms:
                reduced[variable] -= factor * Fraction(coefficient)
    for cost, upper in zip(reduced, linear.upper, strict=True):
        if cost < 0:
            bound += cost * Fraction(upper)
    return max(0.0, float(bound * (1 - ROUNDING)))


def needs_scipy() -> None:
    """Raise ValueError, which says how to install it, if SciPy is not there."""
    if find_spec("scipy") is None:
        raise ValueError("the bound needs SciPy: pip install 'snref[optimal]'")


def multipliers(linear: Relaxation) -> list[float]:
    """Return good multipliers, found by SciPy's HiGHS; zeros if it finds none.

    Raises ValueError without SciPy.
    """
    needs_scipy()
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    equal = set(linear.equal)
    rows = {
        kind: [row for row in range(len(linear.rows)) if (row in equal) == kind]
        for kind in (False, True)
    }

    def matrix(kind: bool) -> object:
        places, columns, values = [], [], []
        for place, row in enumerate(rows[kind]):
            for variable, coefficient in linear.rows[row][0]:
                places.append(place)
                columns.append(variable)
                values.append(coefficient)
        shape = (len(rows[kind]), len(linear.upper))
        return csr_array((values, (places, columns)), shape=shape)

    result = linprog(
        [1.0] + [0.0] * (len(linear.upper) - 1),
        A_ub=matrix(False),
        b_ub=[linear.rows[row][1] for row in rows[False]],
        A_eq=matrix(True),
        b_eq=[linear.rows[row][1] for row in rows[True]],
        bounds=[(0, upper) for upper in linear.upper],
        # Of large programs the interior point method is several times as fast.
        method="highs-ipm" if len(linear.rows) > LARGE else "highs",
    )
    found = [0.0] * len(linear.rows)
    if result.success:
        for row, value in zip(rows[False], result.ineqlin.marginals, strict=True):
            found[row] = min(0.0, float(value))
        for row, value in zip(rows[True], result.eqlin.marginals, strict=True):
            found[row] = float(value)
    return found
