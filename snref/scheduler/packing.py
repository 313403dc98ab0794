"""A search for a tighter packing, where the sweep of ``placement.py`` leaves holes.

Allocations in an order, large and long-lived first, each at the lowest address that is
free as long as it lives. One that comes to lie above the target complains and is put
earlier in the order ("squeaky wheel" optimization: Joslin and Clements, JAIR 10, 1999).

Time is a list of events, as in ``placement.py``: i when allocation i comes, ~i when it
goes. Three allocations, of which the last meets only the second, in 1,024 bytes:

>>> sizes, events = [256, 512, 512], [0, 1, ~0, 2, ~1, ~2]
>>> beside = meetings(sizes, events)
>>> beside
[[1], [0, 2], [1]]
>>> search(sizes, events, beside, target=1024, effort=1000)
[512, 0, 512]
"""

from random import Random

WEIGHTS = (0, 0.5, 0.7, 2)  # of bytes against lifetime, in the orders of the search
PATIENCE = 100_000  # pairs an attempt may look at beyond one pass
MAX_PAIRS = 1_000_000  # allocations that meet in time; with more there is no search


def meetings(sizes: list[int], events: list[int]) -> list[list[int]] | None:
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


def search(
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
