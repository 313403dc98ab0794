"""Placement (SuperNeurons, section 3.2.1): an address for every allocation.

Bytes are not addresses: what is freed leaves a hole, and the next tensor may not fit
it. The extent of a plan, its highest address, is its peak plus what holes cost.

arrival  the paper's pool: the first hole that fits, as allocations arrive
best     a plan is known to its end, so it can be packed ahead. First a sweep: stack
         what is there at the fullest moment, without a hole; from there go forward in
         time, then from there backward, first fit. Where that is not perfect, a
         search: allocations in an order, large and long-lived first, each at the
         lowest address that is free as long as it lives; one that comes to lie above
         the target complains and is put earlier in the order ("squeaky wheel"
         optimization: Joslin and Clements, JAIR 10, 1999)

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

from random import Random
from typing import Literal, TypeAlias

from snref.plans import Alloc, Free, Plan, Step
from snref.pool import Pool
from snref.tensor import ALIGNMENT, Tensor

Order: TypeAlias = Literal["arrival", "best"]

WEIGHTS = (0, 0.5, 0.7, 2)  # of bytes against lifetime, in the orders of the search
EFFORT = 1_000_000  # of a search, in pairs looked at: about 0.1 s
PATIENCE = 100_000  # pairs an attempt may look at beyond one pass
MAX_PAIRS = 1_000_000  # allocations that meet in time; with more there is no search
SLACK = 1000  # an extent of peak + peak / SLACK is good enough, if the peak is not met


def place(plan: Plan, slab: int | None = None, order: Order = "best") -> Plan:
    """Give every Alloc of an allocated plan its offset, in bytes.

    slab   bytes the plan should fit in. It ends the search; the caller looks at
           ``extent(plan)`` to see whether the plan does fit
    order  "arrival": the paper's pool, first fit in blocks of 1 KiB; "best": the
           tightest of several packings, at multiples of 256 bytes
    """
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
            sizes.append(step.tensor.room)
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
    beside = _meetings(sizes, events)
    if beside is None:
        return offsets
    target = low = peak  # no packing is known to be as tight as low
    effort = EFFORT
    while True:
        found = _search(sizes, events, beside, target, effort)
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


def _meetings(sizes: list[int], events: list[int]) -> list[list[int]] | None:
    """For every allocation, those it meets in time; None if that is too many."""
    beside: list[list[int]] = [[] for _ in sizes]
    standing: dict[int, None] = {}
    pairs = 0
    for event in events:
        if event < 0:
            del standing[~event]
            continue
        pairs += len(standing)
        if pairs > MAX_PAIRS:
            return None
        beside[event] += standing
        for other in standing:
            beside[other].append(event)
        standing[event] = None
    return beside


def _search(
    sizes: list[int],
    events: list[int],
    beside: list[list[int]],
    target: int,
    effort: int,
) -> list[int] | None:
    """The offsets of a packing of at most this extent, None if none is found.

    Many short attempts find more than a few long ones, which get stuck.
    """
    life = [0] * len(sizes)
    for time, event in enumerate(events):
        life[max(event, ~event)] += time if event < 0 else -time
    orders = []
    for weight in WEIGHTS:
        value = [size**weight * time for size, time in zip(sizes, life, strict=True)]
        orders.append(sorted(range(len(sizes)), key=value.__getitem__, reverse=True))
    patience = PATIENCE + len(sizes) + sum(map(len, beside))
    draw = Random(0)  # the same packing every time
    for attempt in range(max(len(orders), effort // patience)):
        order = list(orders[attempt % len(orders)])
        offsets = _pack(sizes, beside, order, target, patience, draw)
        if offsets is not None:
            return offsets
    return None


def _pack(
    sizes: list[int],
    beside: list[list[int]],
    order: list[int],
    target: int,
    patience: int,
    draw: Random,
) -> list[int] | None:
    """Each allocation in this order at the lowest address that is free all its life.

    One that would lie above the target goes to an earlier rank, rather a near one than
    a far one, and packing resumes there. None once patience is at an end.
    """
    spans: list[tuple[int, int] | None] = [None] * len(order)  # addresses, if packed
    rank = 0
    while rank < len(order):
        i = order[rank]
        patience -= 1 + len(beside[i])
        offset = 0
        for start, end in sorted(filter(None, map(spans.__getitem__, beside[i]))):
            if start - offset >= sizes[i]:
                break
            if end > offset:
                offset = end
        if offset + sizes[i] <= target:
            spans[i] = offset, offset + sizes[i]
            rank += 1
            continue
        if patience < 0:
            return None
        earlier = int(rank * draw.random() ** 0.5)
        order.insert(earlier, order.pop(rank))
        for j in order[earlier : rank + 1]:
            spans[j] = None
        rank = earlier
    return [span[0] for span in spans if span is not None]
