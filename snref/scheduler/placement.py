"""Placement (SuperNeurons, section 3.2.1): an address for every allocation.

Bytes are not addresses: between two live tensors a hole is left that the next one may
not fit. The extent, the highest address in use, is the peak plus what is lost to holes.
The paper's pool gives the first address that fits, as allocations arrive. A plan is
known from end to end, so it can also be packed ahead of time.
"""

from typing import Literal, TypeAlias

from snref.plans import Alloc, Free, Plan, Step
from snref.pool import Pool
from snref.tensor import ALIGNMENT, Tensor

Order: TypeAlias = Literal["arrival", "best"]


def place(plan: Plan, slab: int | None = None, order: Order = "best") -> Plan:
    """Give every Alloc of an allocated plan its offset.

    order  "arrival": the paper's pool, first fit in blocks of 1 KiB; "best": the
           tightest of several packings, at multiples of 256 bytes
    """
    sizes, events = _allocations(plan)
    if order == "arrival":
        offsets = _arrival(sizes, events)
    else:
        offsets = _outward(sizes, events)
    places = iter(offsets)
    steps: list[Step] = [
        Alloc(step.tensor, next(places)) if isinstance(step, Alloc) else step
        for step in plan.steps
    ]
    return Plan(tuple(steps), (*plan.history, f"place {order}"))


def _allocations(plan: Plan) -> tuple[list[int], list[int]]:
    """The bytes of each Alloc, and what happens in time: i where it comes, ~i where
    it goes.
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
    return sizes, events


def _sweep(pool: Pool, sizes: list[int], events: list[int], offsets: list[int]) -> None:
    """Take the pool's addresses as the events come."""
    for event in events:
        if event >= 0:
            offset = pool.allocate(sizes[event])
            assert offset is not None  # the pool has no end
            offsets[event] = offset
        else:
            pool.free(offsets[~event])


def _arrival(sizes: list[int], events: list[int]) -> list[int]:
    offsets = [0] * len(sizes)
    _sweep(Pool(None), sizes, events, offsets)
    return offsets


def _outward(sizes: list[int], events: list[int]) -> list[int]:
    """Stack what stands at the fullest moment, then sweep away from it both ways."""
    standing: dict[int, None] = {}
    in_use = peak = turn = 0
    stack: list[int] = []
    for i, event in enumerate(events):
        if event >= 0:
            in_use += sizes[event]
            standing[event] = None
            if in_use > peak:
                peak, turn, stack = in_use, i + 1, []
        else:
            if not stack:
                stack = list(standing)
            in_use -= sizes[~event]
            del standing[~event]
    stack = stack or list(standing)
    offsets = [0] * len(sizes)
    for side in (events[turn:], [~event for event in reversed(events[:turn])]):
        pool = Pool(None, ALIGNMENT)
        _sweep(pool, sizes, stack, offsets)
        _sweep(pool, sizes, side, offsets)
    return offsets
