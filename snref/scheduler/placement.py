"""Placement (SuperNeurons, section 3.2.1): an address for every allocation.

Bytes are not addresses: what is freed leaves a hole, and the next tensor may not fit
it. The extent of a plan, its highest address, is its peak plus what holes cost.

arrival  the paper's pool: the first hole that fits, as allocations arrive
best     a plan is known to its end, so it can be packed ahead. First a sweep: stack
         what is there at the fullest moment, without a hole; from there go forward in
         time, then from there backward, first fit. Where that is not perfect, the
         search of ``packing.py``

Either way a tensor that is allocated again may get another address. Where c does not
fit the hole of a, 3072 bytes in use become an extent of 4096:

>>> a, b, c = Tensor("a", (256,)), Tensor("b", (256,)), Tensor("c", (512,))
>>> plan = Plan((Alloc(a), Alloc(b), Free(a), Alloc(c), Free(b), Free(c)))
>>> print(place(plan, order="arrival"))
alloc     a  1024 at 0
alloc     b  1024 at 1024
free      a
alloc     c  2048 at 2048
free      b
free      c

Packed ahead, a goes where c will be:

>>> print(place(plan))
alloc     a  1024 at 1024
alloc     b  1024 at 0
free      a
alloc     c  2048 at 1024
free      b
free      c
"""

from typing import Literal, TypeAlias, get_args

from snref.plans import ALIGNMENT, Alloc, Free, Plan, Step, Tensor
from snref.scheduler.packing import meetings, search
from snref.scheduler.slab import Pool
from snref.support.units import one_of

Order: TypeAlias = Literal["arrival", "best"]

EFFORT = 1_000_000  # of a search, in pairs looked at: about 0.1 s
SLACK = 1000  # an extent of peak + peak / SLACK is good enough, if the peak is not met


def place(plan: Plan, slab: int | None = None, order: Order = "best") -> Plan:
    """Give every Alloc of an allocated plan its offset, in bytes.

    slab   bytes the plan should fit in. It ends the search; the caller looks at
           ``extent(plan)`` to see whether the plan does fit
    order  "arrival": the paper's pool, first fit in blocks of 1 KiB; "best": the
           tightest of several packings, at multiples of 256 bytes
    """
    one_of("order", order, get_args(Order))
    sizes, events = _allocations(plan)
    if order == "arrival":
        offsets = _arrival(sizes, events)
    else:
        offsets = _best(sizes, events, slab or 0)
    places = iter(offsets)
    steps: list[Step] = [
        Alloc(step.tensor, next(places)) if isinstance(step, Alloc) else step
        for step in plan.steps
    ]
    return Plan(tuple(steps), (*plan.history, f"place {order}"))


def _allocations(plan: Plan) -> tuple[list[int], list[int]]:
    """The bytes of every Alloc, and the events in time: i when it comes, ~i when it
    goes. A tensor that is allocated twice makes two.
    """
    sizes: list[int] = []
    events: list[int] = []
    standing: dict[Tensor, int] = {}
    for step in plan.steps:
        if isinstance(step, Alloc):
            standing[step.tensor] = len(sizes)
            events.append(len(sizes))
            sizes.append(step.tensor.aligned_bytes)
        elif isinstance(step, Free):
            events.append(~standing.pop(step.tensor))
    return sizes, events + [~i for i in standing.values()]


def _first_fit(
    pool: Pool, sizes: list[int], events: list[int], offsets: list[int]
) -> None:
    """Note the addresses of a pool without end, as the events come."""
    for event in events:
        if event >= 0:
            offset = pool.allocate(sizes[event])
            assert offset is not None
            offsets[event] = offset
        else:
            pool.free(offsets[~event])


def _arrival(sizes: list[int], events: list[int]) -> list[int]:
    """The offsets that the paper's pool gives."""
    offsets = [0] * len(sizes)
    _first_fit(Pool(None), sizes, events, offsets)
    return offsets


def _best(sizes: list[int], events: list[int], slab: int) -> list[int]:
    """The offsets of the tightest packing found."""

    def extent(offsets: list[int]) -> int:
        return max(map(int.__add__, offsets, sizes), default=0)

    offsets = _outward(sizes, events)
    peak = _fullest(sizes, events)[0]
    if extent(offsets) > peak:
        from_the_end = _outward(sizes, _backward(events))
        offsets = min(offsets, from_the_end, _arrival(sizes, events), key=extent)
    if extent(offsets) == peak:
        return offsets
    beside = meetings(sizes, events)
    if beside is None:
        return offsets
    target = low = peak  # no packing is known to be as tight as low
    effort = EFFORT
    while True:
        found = search(sizes, events, beside, target, effort)
        if found is None:
            low = target
        else:
            offsets = found
        reached = extent(offsets)
        if reached - low <= max(peak // SLACK, ALIGNMENT) or reached <= slab:
            return offsets
        target = (low + reached) // 2
        effort = EFFORT // 8  # second best is worth less


def _backward(events: list[int]) -> list[int]:
    """The events as seen when time runs backward: what goes comes."""
    return [~event for event in reversed(events)]


def _fullest(sizes: list[int], events: list[int]) -> tuple[int, int]:
    """The peak in bytes, and how many events lead to it."""
    in_use = peak = turn = 0
    for i, event in enumerate(events, 1):
        in_use += sizes[event] if event >= 0 else -sizes[~event]
        if in_use > peak:
            peak, turn = in_use, i
    return peak, turn


def _outward(sizes: list[int], events: list[int]) -> list[int]:
    """Stack what is there at the fullest moment, the oldest first, and sweep from it
    forward in time, then backward, first fit.
    """
    turn = _fullest(sizes, events)[1]
    before, after = events[:turn], events[turn:]
    gone = {~event for event in before if event < 0}
    stack = [event for event in before if event >= 0 and event not in gone]
    offsets = [0] * len(sizes)
    for side in (after, _backward(before)):
        _first_fit(Pool(None, ALIGNMENT), sizes, stack + side, offsets)
    return offsets
