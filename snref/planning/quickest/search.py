"""Search: which decision for which gap.

priced     a first set of decisions. While too many bytes are in use, the value leaves
           that frees the most bytes, for the longest, at the lowest cost. A copy may be
           hidden behind kernels or be what they wait for. So several exchange rates
           between seconds of copies and seconds of kernels (prices) are tried
repaired   looks at the bytes in use, runs that run again and all, and lets more leave
refilled   keeps what is worth most where bytes are left
swept      changes the decisions that cost time, in groups and then each alone, the
           most expensive first, and keeps what is quicker
improved   changes single decisions at random and keeps what is not slower: a hill
           climb, which gives the same result for the same problem
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from snref.planning.quickest.forecast import Forecast, forecast
from snref.planning.quickest.gaps import Decision, Decisions, Gap, Problem
from snref.plans import Tensor

BATCH = 25  # in a step of ``priced`` at most one gap in so many is decided
GROUPS = 16  # of the decisions, for the first sweep


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes on the device and on the host, and which decisions are allowed at all."""

    device: int = 0
    host: int | None = None
    copies: bool = True
    reruns: bool = True

    def with_device(self, nbytes: int) -> "Limits":
        return replace(self, device=nbytes)

    def allow(self, found: Forecast) -> bool:
        return found.over <= 0 and (self.host is None or found.host <= self.host)


def all_leave(problem: Problem, limits: Limits) -> Decisions:
    """Return the decisions that leave the fewest bytes on the device."""
    decisions: Decisions = {}
    for gap in problem.gaps:
        if limits.copies:
            decisions[gap] = "copy"
        elif limits.reruns and gap.maker is not None:
            decisions[gap] = "recompute each"
    return decisions


def priced(problem: Problem, limits: Limits, capacity: int, price: float) -> Decisions:
    """Return a first set of decisions for so many bytes.

    price  seconds of compute that a second on the link is worth
    """
    costs = _cheapest(problem, limits, price)
    # By how many bytes each run has more in use than the one before, if all is kept.
    change = [after - before for before, after in pairwise([0, *problem.own, 0])]
    for gap in problem.gaps:
        change[gap.begin + 1] += gap.nbytes
        change[gap.end] -= gap.nbytes
    quickest = [menu[-1][1] for menu in problem.menus]
    allowed = [max(capacity, own) for own in problem.own]
    decisions: Decisions = {}
    host: dict[Tensor, None] = {}
    while True:
        in_all = excess = 0
        seconds_over = 0.0
        crowded = [0.0]  # seconds of all runs before each in which bytes are over
        for more, limit, seconds in zip(change, allowed, quickest, strict=False):
            in_all += more
            if in_all > limit:
                seconds_over += seconds
                excess = max(excess, in_all - limit)
            crowded.append(seconds_over)
        worth = {
            gap: relief * gap.nbytes / (seconds + 1e-12)
            for gap, (seconds, _) in costs.items()
            if (relief := crowded[gap.end] - crowded[gap.begin + 1]) > 0
        }
        if excess <= 0 or not worth:
            return decisions
        freed = 0
        ranked = sorted(worth, key=worth.__getitem__, reverse=True)
        for gap in ranked[: max(1, len(costs) // BATCH)]:
            _, decision = costs.pop(gap)
            if decision == "copy":
                host[gap.tensor] = None
                if (
                    limits.host is not None
                    and sum(t.nbytes for t in host) > limits.host
                ):
                    del host[gap.tensor]
                    if not limits.reruns or gap.maker is None:
                        continue
                    decision = "recompute"
            decisions[gap] = decision
            change[gap.begin + 1] -= gap.nbytes
            change[gap.end] += gap.nbytes
            freed += gap.nbytes
            if freed >= excess / 4:
                break


def _cheapest(
    problem: Problem, limits: Limits, price: float
) -> dict[Gap, tuple[float, Decision]]:
    """The cheapest decision for each gap that may leave, and its cost in seconds."""
    costs: dict[Gap, tuple[float, Decision]] = {}
    for gap in problem.gaps:
        offers: list[tuple[float, Decision]] = []
        if limits.copies:
            offers.append((price * _link_seconds(problem, gap), "copy"))
        if limits.reruns and gap.maker is not None:
            offers.append((problem.again[gap], "recompute"))
        if offers:
            costs[gap] = min(offers)
    return costs


def _link_seconds(problem: Problem, gap: Gap) -> float:
    """Seconds on the link, both ways. One copy out serves all gaps of a value."""
    out = problem.copy_out[gap.tensor] if gap.first else 0
    return out + problem.copy_in[gap.tensor]


def repaired(
    problem: Problem,
    limits: Limits,
    decisions: Decisions,
    tries: int = 20,
    enough: float = float("inf"),
) -> tuple[Decisions, Forecast] | None:
    """Let more values leave where bytes are over; return None if that fails.

    enough  seconds; if it is certain to take longer, the forecast says infinity
    """
    decisions = dict(decisions)
    for _ in range(tries):
        found = forecast(problem, decisions, limits.device, enough)
        if limits.allow(found):
            return decisions, found
        changes = _relief(problem, limits, decisions, found)
        if not changes:
            return None
        decisions.update(changes)
    return None


def _relief(
    problem: Problem, limits: Limits, decisions: Decisions, found: Forecast
) -> Decisions:
    """Changes that free enough bytes at the fullest place; none if only the host is.

    First what is kept leaves, the largest and longest first; then what was computed
    again too early.
    """
    if found.over <= 0:
        return {}
    place = found.fullest
    using = set(problem.uses[found.order[place][0]])
    idle = {
        span.tensor
        for span in found.spans
        if span.first <= place <= span.last and span.tensor not in using
    }
    while found.order[place][1]:  # the run of the route that follows
        place += 1
    here = found.order[place][0]
    offers: list[tuple[int, int, Gap, Decision]] = []
    for gap in problem.gaps:
        if gap.tensor in idle and gap.begin <= here <= gap.end:
            size = gap.nbytes * (gap.end - gap.begin)
            decision = decisions.get(gap)
            if decision is None and limits.copies:
                offers.append((3, size, gap, "copy"))
            elif decision is None and limits.reruns and gap.maker is not None:
                offers.append((3, size, gap, "recompute"))
            elif decision == "recompute":
                offers.append((2, size, gap, "recompute each"))
            elif decision == "recompute each" and limits.copies:
                offers.append((1, size, gap, "copy"))
    offers.sort(key=lambda offer: offer[:2], reverse=True)
    changes: Decisions = {}
    freed = 0
    for rank, _, gap, decision in offers:
        if freed >= found.over or rank < offers[0][0]:
            break
        changes[gap] = decision
        freed += gap.nbytes
    return changes


def refilled(
    problem: Problem,
    limits: Limits,
    decisions: Decisions,
    found: Forecast,
    price: float,
) -> tuple[Decisions, Forecast]:
    """Keep the values whose leaving costs most, as far as bytes are left for them."""
    place = {i: at for at, (i, again) in enumerate(found.order) if not again}
    used = list(found.used)
    worth: list[tuple[float, int, Gap]] = []
    for number, (gap, decision) in enumerate(decisions.items()):
        if decision == "copy":
            seconds = price * _link_seconds(problem, gap)
        else:
            seconds = problem.again[gap]
        size = gap.nbytes * (place[gap.end] - place[gap.begin])
        worth.append((seconds / size, number, gap))
    kept = dict(decisions)
    for _, _, gap in sorted(worth, reverse=True):
        begin, end = place[gap.begin] + 1, place[gap.end]
        if max(used[begin:end]) + gap.nbytes <= limits.device:
            used[begin:end] = [nbytes + gap.nbytes for nbytes in used[begin:end]]
            del kept[gap]
    other = forecast(problem, kept, limits.device)
    if limits.allow(other) and other.seconds <= found.seconds:
        return kept, other
    return decisions, found


def swept(
    problem: Problem,
    limits: Limits,
    decisions: Decisions,
    found: Forecast,
    tries: int,
) -> tuple[Decisions, Forecast, int]:
    """Change the decisions that cost time, the most expensive first; keep gains.

    First groups of them are changed together, then smaller groups, in the end each
    alone. Returns the number of tries that are left, too.
    """
    size = max(1, len(decisions) // GROUPS)
    while True:
        gained = False
        costly = _costly(problem, decisions, found)
        for place in range(0, len(costly), size):
            group = costly[place : place + size]
            for decision in _offers(limits):
                changed = _all_changed(decisions, group, decision)
                if changed == decisions:
                    continue
                if not tries:
                    return decisions, found, 0
                tries -= 1
                result = repaired(problem, limits, changed, 4, found.seconds)
                if result is not None and result[1].seconds < found.seconds:
                    decisions, found = result
                    gained = True
                    break
        if not gained:
            if size == 1:
                return decisions, found, tries
            size //= 2


def _costly(problem: Problem, decisions: Decisions, found: Forecast) -> list[Gap]:
    """The gaps whose decisions cost time, the most expensive first."""
    cost = {
        gap: found.waits.get(gap.tensor, 0.0)
        + (0.0 if decision == "copy" else problem.again[gap])
        for gap, decision in decisions.items()
    }
    ranked = sorted(cost, key=cost.__getitem__, reverse=True)
    return [gap for gap in ranked if cost[gap] > 0]


def _offers(limits: Limits) -> list[Decision | None]:
    """What may be decided for a gap; None: the value is kept."""
    offers: list[Decision | None] = ["copy"] if limits.copies else []
    if limits.reruns:
        offers += ["recompute", "recompute each"]
    return [*offers, None]


def _all_changed(
    decisions: Decisions, group: list[Gap], decision: Decision | None
) -> Decisions:
    """The decisions, with those for a group changed where that is possible."""
    changed = dict(decisions)
    for gap in group:
        if decision is None:
            changed.pop(gap, None)
        elif decision == "copy" or gap.maker is not None:
            changed[gap] = decision
    return changed


def improved(
    problem: Problem,
    limits: Limits,
    decisions: Decisions,
    found: Forecast,
    tries: int,
    draw: Random,
) -> tuple[Decisions, Forecast]:
    """Try so many random changes; keep each that is not slower."""
    if not problem.gaps:
        return decisions, found
    for _ in range(tries):
        changed = _changed(problem, limits, decisions, found, draw)
        result = repaired(problem, limits, changed, 4, found.seconds)
        if result is not None and result[1].seconds <= found.seconds:
            decisions, found = result
    return decisions, found


def _changed(
    problem: Problem,
    limits: Limits,
    decisions: Decisions,
    found: Forecast,
    draw: Random,
) -> Decisions:
    """The decisions with one to three of them changed.

    Half of the time one that costs something: a copy that is waited for, or a run that
    runs again.
    """
    changed = dict(decisions)
    leaving = list(decisions)
    costly = [
        gap
        for gap, decision in decisions.items()
        if decision != "copy" or gap.tensor in found.waits
    ]
    for _ in range(draw.choice((1, 1, 2, 3))):
        chance = draw.random()
        if costly and chance < 0.5:
            gap = draw.choice(costly)
        elif leaving and chance < 0.75:
            gap = draw.choice(leaving)
        else:
            gap = draw.choice(problem.gaps)
        before = changed.pop(gap, None)
        offers = [
            other
            for other in _offers(limits)
            if other not in (None, before)
            and (other == "copy" or gap.maker is not None)
        ]
        if offers and (before is None or draw.random() < 0.5):
            changed[gap] = draw.choice(offers)
    return changed
