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
          not yet in

Every quickest plan satisfies these linear conditions, so the smallest time that they
allow is a lower bound. SciPy's HiGHS finds it. What counts is not its answer, but the
certificate: any multipliers of the conditions, one for each, prove a bound by weak
duality, and ``certified`` computes that bound in exact fractions, and rounds it down.
It is not below the time that the runs alone take, which ``bound`` returns if HiGHS
fails, as for costs of extreme sizes.
"""

from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.util import find_spec

from snref.planning.quickest.gaps import Gap, Problem
from snref.plans import Tensor

Terms = list[tuple[int, float]]  # (variable, coefficient)

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
    total = linear.variable(seconds)
    fractions = _gaps(linear, problem)
    again = _reruns(linear, problem, fractions)
    runs = [i for i, run in enumerate(problem.runs) if run.phase != "update"]
    ways = [_ways(linear, problem.menus[i]) for i in range(len(problem.runs))]
    busy: Terms = [(total, -1.0)]
    for way in ways:
        busy += way
    busy += [(v, problem.menus[run][-1][1]) for run, v in again.items()]
    linear.at_most(busy)
    starts = [linear.variable(seconds) for _ in runs]
    for i, start, after in zip(runs, starts, [*starts[1:], total], strict=True):
        linear.at_most([(start, 1.0), (after, -1.0), *ways[i]])
    _memory(linear, problem, capacity, fractions, runs, starts, ways)
    return linear


@dataclass(frozen=True, slots=True)
class _Fractions:
    kept: dict[Gap, int]
    copied: dict[Gap, int]
    recomputed: dict[Gap, int]
    first: dict[Gap, Gap]  # the first gap of the same value
    out: dict[Gap, int]  # by the first gap: the fraction of the value that is copied


def _gaps(linear: Relaxation, problem: Problem) -> _Fractions:
    found = _Fractions({}, {}, {}, {}, {})
    current: dict[Tensor, Gap] = {}
    for gap in problem.gaps:
        if gap.first:
            current[gap.tensor] = gap
            found.out[gap] = linear.variable(1.0)
        found.first[gap] = current[gap.tensor]
        found.kept[gap] = linear.variable(1.0)
        found.copied[gap] = linear.variable(1.0)
        terms = [(found.kept[gap], 1.0), (found.copied[gap], 1.0)]
        if gap.maker is not None:
            found.recomputed[gap] = linear.variable(1.0)
            terms.append((found.recomputed[gap], 1.0))
        linear.equals(terms, 1.0)
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


def _ways(linear: Relaxation, menu: tuple[tuple[int, float], ...]) -> Terms:
    """Seconds of a run: for each algorithm a fraction of the run."""
    terms = [(linear.variable(1.0), seconds) for _, seconds in menu]
    linear.equals([(variable, 1.0) for variable, _ in terms], 1.0)
    return terms


def _memory(
    linear: Relaxation,
    problem: Problem,
    capacity: int,
    fractions: _Fractions,
    runs: list[int],
    starts: list[int],
    ways: list[Terms],
) -> None:
    """Bytes on the device and over the link, at the start and the end of every run."""
    unit = float(capacity)  # bytes, so that numbers are near 1
    copied, out, first = fractions.copied, fractions.out, fractions.first
    # The link moves bytes, memory is taken in multiples of 256 of them.
    rounding = max((g.nbytes / g.tensor.nbytes for g in problem.gaps), default=1.0)
    speed_out = rounding * problem.costs.to_host / unit
    speed_in = rounding * problem.costs.to_device / unit
    most = sum(gap.nbytes for gap in problem.gaps) / unit
    begins: dict[int, list[Gap]] = {}
    ends: dict[int, list[Gap]] = {}
    for gap in problem.gaps:
        begins.setdefault(gap.begin, []).append(gap)
        ends.setdefault(gap.end, []).append(gap)
    # A value can be copied once it is computed, which may be before its first gap.
    computed: dict[int, list[Gap]] = {}  # by a run: the first gaps of its values
    writer: dict[Tensor, int] = {}
    for i in runs:
        writer.update(dict.fromkeys(problem.writes[i], i))
        for gap in begins.get(i, ()):
            if first[gap] is gap:
                computed.setdefault(writer[gap.tensor], []).append(gap)
    made: list[Gap] = []  # first gaps of values that are there
    begun: list[Gap] = []
    ended: list[Gap] = []
    open_: dict[Gap, None] = {}
    gone: int | None = None  # bytes copied out, and in, at the moment before
    came: int | None = None
    for index, i in enumerate(runs):
        for gap in ends.get(i, ()):
            del open_[gap]
            ended.append(gap)
        for late in False, True:  # the start of the run, and its end
            out_now, in_now = linear.variable(most), linear.variable(most)
            # The time since the moment before: the run itself, or what was before it.
            if gone is None or came is None:
                linear.upper[out_now] = linear.upper[in_now] = 0.0
            else:
                if late:
                    passed = ways[i]
                else:
                    before = runs[index - 1]
                    passed = [(starts[index], 1.0), (starts[index - 1], -1.0)]
                    passed += [(v, -seconds) for v, seconds in ways[before]]
                for now, then, speed in (
                    (out_now, gone, speed_out),
                    (in_now, came, speed_in),
                ):
                    linear.at_most([(then, 1.0), (now, -1.0)])
                    waited = [(v, -speed * factor) for v, factor in passed]
                    linear.at_most([(now, 1.0), (then, -1.0), *waited])
            gone, came = out_now, in_now
            size = {gap: gap.nbytes / unit for gap in (*begun, *made)}
            linear.at_most([(gone, 1.0), *((out[g], -size[g]) for g in made)])
            begun_terms = [(copied[g], -size[g]) for g in begun]
            linear.at_most([(came, 1.0), *begun_terms])
            linear.at_most([(came, -1.0), *((copied[g], size[g]) for g in ended)])
            away = linear.variable(most if open_ else 0.0)
            linear.at_most([(away, 1.0), *((copied[g], -size[g]) for g in open_)])
            linear.at_most([(away, 1.0), (came, 1.0), *begun_terms])
            later = [(copied[g], -size[g]) for g in open_ if first[g] is not g]
            done = [(copied[g], size[g]) for g in ended if first[g] is g]
            linear.at_most([(away, 1.0), (gone, -1.0), *later, *done])
            taken: Terms = [(away, -1.0)]
            menu = problem.menus[i]
            for (variable, _), (nbytes, _) in zip(ways[i], menu, strict=True):
                taken.append((variable, nbytes / unit))
            for gap in open_:
                if gap in fractions.recomputed:
                    taken.append((fractions.recomputed[gap], -size[gap]))
            room = max(capacity, problem.own[i]) - problem.own[i]
            linear.at_most(taken, (room - sum(gap.nbytes for gap in open_)) / unit)
        for gap in begins.get(i, ()):
            open_[gap] = None
            begun.append(gap)
        made += computed.get(i, ())


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
        method="highs",
    )
    found = [0.0] * len(linear.rows)
    if result.success:
        for row, value in zip(rows[False], result.ineqlin.marginals, strict=True):
            found[row] = min(0.0, float(value))
        for row, value in zip(rows[True], result.eqlin.marginals, strict=True):
            found[row] = float(value)
    return found
