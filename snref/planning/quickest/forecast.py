"""Forecast: how long decisions take, and when their copies begin and end.

The clocks are those of ``timing/timeline.py``, but go by runs in place of steps and by
bytes in place of addresses, so that hundreds of decisions can be compared. In the end
the timeline judges the plan that is written.

Memory limits when copies run. A copy out begins as soon as its value is computed. The
value stays until the copy is complete, or until its bytes are needed: then the run
waits. A copy in begins as late as possible without making a run wait; if it must be
earlier, as early as memory allows.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate

from snref.planning.quickest.gaps import Decisions, Problem
from snref.planning.quickest.order import Order, order
from snref.planning.quickest.spans import Span, in_use, spans
from snref.plans import Tensor

CAUTION = 1.01  # a copy in is planned as if it took this much longer


@dataclass(slots=True)
class Forecast:
    """What decisions come to.

    over      bytes by which they exceed the capacity; if above 0, nothing is timed
    fullest   the place in the order where that is
    used      bytes in use during each run, copies under way not counted
    host      the most bytes that are on the host at once, or somewhat more
    seconds   of an iteration
    begins    for each span that is copied in, the run before which its copy begins
    releases  for each span that is copied out, the run before which it is freed
    waits     for each tensor, the seconds that runs wait for its copies
    """

    order: Order
    spans: list[Span]
    used: list[int]
    over: int
    fullest: int
    host: int
    seconds: float = float("inf")
    begins: dict[Span, int] = field(default_factory=dict)
    releases: dict[Span, int] = field(default_factory=dict)
    waits: dict[Tensor, float] = field(default_factory=dict)


def forecast(
    problem: Problem,
    decisions: Decisions,
    capacity: int,
    enough: float = float("inf"),
) -> Forecast:
    """Return what the decisions come to with so many bytes of device memory.

    enough  seconds; if the runs alone take longer, nothing is timed

    A run whose own tensors need more than the capacity may have what they need: so a
    search can leave addresses some slack, and yet allow for the largest run.
    """
    runs = order(problem, decisions)
    lives = spans(problem, runs, decisions)
    used = in_use(lives, len(runs))
    limits = [max(capacity, problem.own[i]) for i, _ in runs]
    excess = [nbytes - limit for nbytes, limit in zip(used, limits, strict=True)]
    over = max(excess)
    fullest, host = excess.index(over), _host_bytes(lives, len(runs))
    found = Forecast(runs, lives, used, over, fullest, host)
    if over > 0:
        return found
    durations = []
    for place, (i, _) in enumerate(runs):
        menu = problem.menus[i]
        workspace, seconds = menu[0]
        if len(menu) > 1:
            for more, quicker in menu[1:]:
                if more <= -excess[place]:
                    workspace, seconds = more, quicker
            limits[place] -= workspace
        durations.append(seconds)
    clock = [0.0, *accumulate(durations)]
    if clock[-1] > enough:
        return found
    for _ in range(2):  # the second time knowing who waited the first time
        begins = _begin_copies_in(problem, lives, clock, used, limits)
        waited = _play(problem, found, durations, limits, begins)
        if waited[-1] <= clock[-1]:
            break
        clock = waited
    return found


def _begin_copies_in(
    problem: Problem,
    lives: list[Span],
    clock: list[float],
    used: list[int],
    limits: list[int],
) -> dict[Span, int]:
    """The run before which each copy in begins. The last copy is fitted in first."""
    used = list(used)
    begins: dict[Span, int] = {}
    link = float("inf")  # from here on the link is taken
    for span in reversed(lives):
        if span.earliest is None:
            continue
        place, nbytes = span.first, span.tensor.aligned_bytes
        link = min(link, clock[place]) - CAUTION * problem.copy_in[span.tensor]
        while (
            place > span.earliest
            and clock[place] > link
            and used[place - 1] + nbytes <= limits[place - 1]
        ):
            place -= 1
            used[place] += nbytes
        begins[span] = place
    return begins


def _play(
    problem: Problem,
    found: Forecast,
    durations: list[float],
    limits: list[int],
    begins: dict[Span, int],
) -> list[float]:
    """Run the three clocks. Note the result if it is the quickest so far.

    Returns when each run starts, and when the last one ends.
    """
    used = list(found.used)
    begin: dict[int, list[Span]] = {}  # copies in
    needed: dict[int, list[Span]] = {}
    leave: dict[int, list[Span]] = {}  # copies out
    end: dict[int, list[Span]] = {}
    for span in found.spans:
        if span in begins:
            begin.setdefault(begins[span], []).append(span)
            needed.setdefault(span.first, []).append(span)
            for place in range(begins[span], span.first):
                used[place] += span.tensor.aligned_bytes
        if span.leaves:
            assert span.made is not None
            leave.setdefault(span.made, []).append(span)
            end.setdefault(span.last, []).append(span)
    compute = out = into = 0.0
    arrival: dict[Span, float] = {}
    copied: dict[Span, float] = {}
    on_host: dict[Tensor, float] = {}
    staying: list[tuple[float, int, Span]] = []  # until they are copied
    pending = number = 0  # bytes of those
    releases: dict[Span, int] = {}
    waits: dict[Tensor, float] = {}
    clock: list[float] = []

    def wait(tensor: Tensor, start: float, until: float) -> float:
        if until > start:
            waits[tensor] = waits.get(tensor, 0.0) + until - start
        return max(start, until)

    for place, seconds in enumerate(durations):
        start = compute
        free = limits[place] - used[place]
        while staying and (staying[0][0] <= compute or pending > free):
            done, _, span = heappop(staying)
            pending -= span.tensor.aligned_bytes
            releases[span] = place
            start = wait(span.tensor, start, done)
        for span in begin.get(place, ()):
            into = max(into, compute, on_host[span.tensor])
            into += problem.copy_in[span.tensor]
            arrival[span] = into
        for span in needed.get(place, ()):
            start = wait(span.tensor, start, arrival[span])
        clock.append(start)
        compute = start + seconds
        for span in leave.get(place, ()):
            out = max(out, compute) + problem.copy_out[span.tensor]
            copied[span] = on_host[span.tensor] = out
        for span in end.get(place, ()):
            if copied[span] > compute:
                number += 1
                heappush(staying, (copied[span], number, span))
                pending += span.tensor.aligned_bytes
    clock.append(compute)
    total = max(compute, out, into)
    if total < found.seconds:
        found.seconds, found.begins = total, begins
        found.releases, found.waits = releases, waits
    return clock


def _host_bytes(lives: list[Span], count: int) -> int:
    """The most bytes on the host: each copy from when it is made to its last use."""
    change = [0] * (count + 1)
    copy: dict[Tensor, Span] = {}
    until: dict[Span, int] = {}
    for span in lives:
        if span.earliest is not None:
            until[copy[span.tensor]] = span.first
        if span.leaves:
            copy[span.tensor] = span
    for span, place in until.items():
        assert span.made is not None
        change[span.made] += span.tensor.nbytes
        change[place + 1] -= span.tensor.nbytes
    return max(accumulate(change))
