"""Placement (SuperNeurons, section 3.2.1): an address for every allocation.

Bytes are not addresses: what is freed leaves a hole, and the next tensor may not fit
it. The extent of a plan, its highest address, is its peak plus what holes cost.

arrival  the paper's pool: allocations get the first hole that fits, as they come
best     a plan is known to its end, so all its allocations are packed together
         (``packing.py``)

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

Packed together, a goes where c will be:

>>> print(place(plan))
alloc     a  1024 at 1024
alloc     b  1024 at 0
free      a
alloc     c  2048 at 1024
free      b
free      c
"""

from typing import Literal, TypeAlias, get_args

from snref.plans import Alloc, Free, Plan, Step, Tensor
from snref.scheduler.packing import pack
from snref.scheduler.slab import Event, Pool, first_fit
from snref.support.units import one_of

Order: TypeAlias = Literal["arrival", "best"]


def place(
    plan: Plan, slab: int | None = None, order: Order = "best", hurry: bool = False
) -> Plan:
    """Give every Alloc of an allocated plan its offset, in bytes.

    slab   bytes in which the plan should fit: the search for a tighter packing ends
           there. The caller compares ``extent(plan)``, since it may not fit
    order  "arrival": first fit in blocks of 1 KiB; "best": the tightest of several
           packings, at multiples of 256 bytes
    hurry  with "best": stop at the first packing that fits the slab
    """
    one_of("order", order, get_args(Order))
    sizes, events = allocations(plan)
    if order == "arrival":
        offsets = first_fit(Pool(None), sizes, events)
    else:
        offsets = pack(sizes, events, slab or 0, hurry)
    placed = iter(offsets)
    steps: list[Step] = [
        Alloc(step.tensor, next(placed)) if isinstance(step, Alloc) else step
        for step in plan.steps
    ]
    return Plan(tuple(steps))


def allocations(plan: Plan) -> tuple[list[int], list[Event]]:
    """Return the bytes of every Alloc, and when each begins and ends.

    A tensor that is allocated twice makes two allocations.
    """
    sizes: list[int] = []
    events: list[Event] = []
    current: dict[Tensor, int] = {}  # what is allocated now -> the allocation's number
    for step in plan.steps:
        if isinstance(step, Alloc):
            current[step.tensor] = len(sizes)
            events.append((len(sizes), True))
            sizes.append(step.tensor.aligned_bytes)
        elif isinstance(step, Free):
            events.append((current.pop(step.tensor), False))
    return sizes, events + [(i, False) for i in current.values()]
