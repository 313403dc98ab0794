"""The frontier: with more memory, quicker plans.

A search can be unlucky, and find a slower plan where it has more memory. So memory is
used in levels, which depend on the net alone: coarse ones from the least memory in
which there is a plan to the most that any plan can use, and fine ones in between.

Each level begins with the decisions of the one before. Its plan is taken if it is not
slower and its peak is not lower; and a plan of a fine level must be no quicker than
that of the next coarse level, nor have a higher peak. So more memory never gives a
slower plan, and less memory never a higher peak, though only the coarse levels up to
the capacity, the next above it, and the fine ones just below it are searched.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import get_args

from snref.planning.quickest.forecast import Forecast, forecast
from snref.planning.quickest.gaps import Decisions, Problem
from snref.planning.quickest.search import (
    Limits,
    all_leave,
    improved,
    priced,
    refilled,
    repaired,
    swept,
)
from snref.planning.quickest.writing import written
from snref.plans import (
    ALIGNMENT,
    Plan,
    aligned,
    extent,
    host_peak,
    lower_bound,
    memory,
)
from snref.scheduler.cache_refinements import refined_cache
from snref.scheduler.options import Strategy
from snref.scheduler.placement import place
from snref.scheduler.recomputation import recompute
from snref.scheduler.slab import ENDLESS
from snref.timing.timeline import simulate

WORK = 100_000  # runs that are looked at on a coarse level, if effort is 1
MOST_TRIES = 400  # changes that are tried there, for small nets
LEAST_TRIES = 4
HURRY = 10  # tries: if there are fewer, fewer starts are tried, too
# Of the link; and of the capacity for tensors: 0.8 leaves some for workspaces.
PRICES: tuple[float, ...] = (0.0, 0.04, 0.06, 0.08, 0.1, 0.13, 0.18, 0.25, 1.0)
SHARES: tuple[float, ...] = (1.0, 0.8)
IMPROVED = 4  # starts that are improved before the best of them is chosen
ATTEMPTS = 10  # to find addresses
DEEP = 5_000  # runs of a route for which a search must be short


@dataclass(frozen=True, slots=True)
class Point:
    """A plan of the frontier. peak: bytes in use, workspaces included."""

    plan: Plan = field(repr=False)
    seconds: float
    peak: int
    decisions: Decisions = field(repr=False)
    price: float = PRICES[0]  # of the link, for the start that led here


class Frontier:
    """The plans of a problem, level by level.

    effort  how long to search: 1 tries some hundred changes a level
    """

    def __init__(self, problem: Problem, limits: Limits, effort: float = 1.0) -> None:
        self.problem, self.limits = problem, limits
        tries = effort * min(MOST_TRIES, WORK / len(problem.runs))
        self.tries = max(LEAST_TRIES, int(tries))
        self.deep = deep = len(problem.runs) > DEEP
        self.coarse, self.fine = (4, 2) if deep else (8, 8)
        self.prices, self.shares = PRICES, SHARES
        if tries < HURRY:
            self.prices, self.shares = PRICES[1::3], SHARES[:1]
        if deep:
            self.prices = PRICES[3:4]
        kept = written(problem, forecast(problem, {}, ENDLESS), ENDLESS)
        self.top = self._point(place(kept), {})
        self.least = lower_bound(Plan(problem.runs))
        self.most = extent(self.top.plan)
        self._found: list[Point | None] = []  # on the coarse levels, from the lowest up

    def best(self, capacity: int) -> Point | None:
        """Return the plan for so many bytes of device memory, None if there is none."""
        if capacity >= self.most:
            return self.top
        point: Point | None = None
        for coarse in range(self.coarse):
            above = self._on_coarse_level(coarse)
            if self._level(coarse, 0) > capacity:
                break
            point = above
        else:
            above, coarse = self.top, self.coarse
        if point is None or above is None:  # the plan of a higher level may fit
            return self._below_the_levels(capacity)
        for fine in range(1, self.fine):
            level = self._level(coarse - 1, fine)
            if level > capacity:
                break
            point = self._next(point, level, above, self.tries // 2) or point
        return point

    @cached_property
    def lowest(self) -> Point:
        """The plan of the fewest bytes that is found."""
        *_, point = self._descent()
        return point

    def _descent(self) -> Iterator[Point]:
        """Plans of fewer and fewer bytes."""
        low = self.least
        for coarse in range(self.coarse):
            point = self._on_coarse_level(coarse)
            if point is not None:
                break
            low = self._level(coarse, 0)
        else:
            point = self.top
        yield point
        # Between two coarse levels: halve the range until it is narrow.
        while extent(point.plan) - low > max(ALIGNMENT, low // 1000):
            middle = (low + extent(point.plan)) // 2
            other = self._next(None, middle, point, self.tries)
            if other is None:
                low = middle
            else:
                yield (point := other)

    def _below_the_levels(self, capacity: int) -> Point | None:
        """The first plan of the descent that fits, None if none does."""
        return next((p for p in self._descent() if extent(p.plan) <= capacity), None)

    def _on_coarse_level(self, coarse: int) -> Point | None:
        """The plan of a coarse level; found once, and those below it before."""
        while len(self._found) <= coarse:
            before = self._found[-1] if self._found else None
            level = self._level(len(self._found), 0)
            self._found.append(self._next(before, level, self.top, self.tries))
        return self._found[coarse]

    def _level(self, coarse: int, fine: int) -> int:
        """Bytes of a level, in equal ratios from the least to the most."""
        share = (coarse + fine / self.fine) / self.coarse
        return aligned(int(self.least * (self.most / self.least) ** share))

    def _next(
        self, point: Point | None, level: int, above: Point, tries: int
    ) -> Point | None:
        """The plan of a level, or that of the one before if no other may follow."""
        other = self._placed(point, level, tries)
        if other and _may_follow(other, point) and _may_follow(above, other):
            return other
        return point

    def _placed(self, before: Point | None, level: int, tries: int) -> Point | None:
        """The best plan that is found for a level.

        Addresses may need more bytes than are in use. Then fewer are used.
        """
        problem, left = self.problem, level
        if self.deep and before is None:  # its many tensors leave many holes
            left //= 2
        decisions, price = self._search(before, left, tries)
        for attempt in range(ATTEMPTS):
            if decisions is None:
                break
            limits = self.limits.with_device(left)
            result = repaired(problem, limits, decisions)
            excess = level
            if result is not None:
                if attempt:
                    result = swept(problem, limits, *result, tries // 4)[:2]
                decisions, found = result
                plan = place(written(problem, found, left), level, hurry=True)
                excess = extent(plan) - level
                if excess <= 0:
                    return self._point(plan, decisions, price)
            if excess > level // 20:
                left -= left // 8
                if not self.deep:  # where a repair must do
                    decisions, price = self._search(before, left, tries)
            else:
                left -= max(excess, ALIGNMENT)
        if before is None and self.limits.copies and self.limits.reruns:
            cached = self._of_the_cache(level)
            if cached is not None:
                return self._point(cached, all_leave(problem, self.limits))
        return None

    def _of_the_cache(self, level: int) -> Plan | None:
        """A plan of the tensor cache: there is one for every level, if not a quick one.

        Recomputation makes it need less of the host, if that has a limit.
        """
        for strategy in (None, *get_args(Strategy)):
            runs = recompute(Plan(self.problem.runs), strategy)
            if lower_bound(runs) > level:
                continue
            plan = refined_cache(runs, level)
            host = self.limits.host
            if host is None or host_peak(plan) <= host:
                return plan
        return None

    def _search(
        self, before: Point | None, capacity: int, tries: int
    ) -> tuple[Decisions | None, float]:
        """The best decisions that are found for so many bytes, and their price."""
        problem, limits = self.problem, self.limits.with_device(capacity)
        starts = self._starts(before, limits)
        if not starts:
            return None, 0.0
        starts.sort(key=lambda start: start[1].seconds)
        few = tries // (2 * IMPROVED)
        best: tuple[Decisions, Forecast, float] | None = None
        for decisions, found, price in starts[:IMPROVED]:
            decisions, found, _ = swept(problem, limits, decisions, found, few)
            if best is None or found.seconds < best[1].seconds:
                best = decisions, found, price
        assert best is not None
        decisions, found, price = best
        decisions, found, left = swept(problem, limits, decisions, found, tries)
        draw = Random(capacity)
        decisions, _ = improved(problem, limits, decisions, found, left, draw)
        return decisions, price

    def _starts(
        self, before: Point | None, limits: Limits
    ) -> list[tuple[Decisions, Forecast, float]]:
        """Decisions to begin with: those of the level before, and one for each price.

        They are unlike each other: the quickest may be the one that gains least from
        a search.
        """
        problem = self.problem
        starts: list[tuple[Decisions, Forecast, float]] = []

        def start(price: float, firsts: list[Decisions]) -> None:
            found = []
            for first in firsts:
                result = repaired(problem, limits, first)
                if result is not None:
                    found.append(refilled(problem, limits, *result, price))
            if found:
                quickest = min(found, key=lambda entry: entry[1].seconds)
                if all(quickest[0] != decisions for decisions, _, _ in starts):
                    starts.append((*quickest, price))

        if before is not None:
            start(before.price, [before.decisions])
        for price in self.prices:
            sizes = [int(share * limits.device) for share in self.shares]
            start(price, [priced(problem, limits, size, price) for size in sizes])
        if not starts:
            for price in PRICES[1::2]:
                start(price, [all_leave(problem, limits)])
        return starts

    def _point(
        self, plan: Plan, decisions: Decisions, price: float = PRICES[0]
    ) -> Point:
        seconds = simulate(plan, self.problem.costs).seconds
        peak = max(memory(plan, workspace=True))
        return Point(plan, seconds, peak, decisions, price)


def _may_follow(higher: Point, lower: Point | None) -> bool:
    """Whether a plan may be taken where there is more memory than for the other."""
    if lower is None:
        return True
    return higher.seconds <= lower.seconds and higher.peak >= lower.peak
