"""Spans: from when to when each value is on the device."""

from dataclasses import dataclass

from snref.planning.quickest.gaps import Decisions, Problem
from snref.planning.quickest.order import Order
from snref.plans import Tensor


@dataclass(slots=True, eq=False)
class Span:
    """A value on the device, from its first to its last use in one go.

    first, last  the runs that use it, as places in the order
    made         the run that gave it its value; None if it is copied in
    leaves       whether the host gets a copy, behind ``made``
    earliest     the run before which a copy in may begin at the earliest; None if the
                 value is not copied in
    """

    tensor: Tensor
    first: int
    last: int
    made: int | None
    leaves: bool = False
    earliest: int | None = None


def spans(problem: Problem, order: Order, decisions: Decisions) -> list[Span]:
    """The spans of all tensors, in the order in which they begin."""
    found: list[Span] = []
    current: dict[Tensor, Span] = {}
    maker: dict[Tensor, Span] = {}  # the span in which the value of now was computed
    copied: dict[int, list[Tensor]] = {}  # behind which run of the route
    for gap, decision in decisions.items():
        if decision == "copy":
            copied.setdefault(gap.begin, []).append(gap.tensor)
    away: set[Tensor] = set()  # may be on the host until the route's next use
    for place, (i, again) in enumerate(order):
        if not problem.uses[i]:
            continue
        for tensor in problem.reads[i]:
            span = current[tensor]
            if place - span.last > 1 and tensor in away:
                maker[tensor].leaves = True
                span = Span(tensor, place, place, None, earliest=span.last + 1)
                found.append(span)
                current[tensor] = span
            span.last = place
        for tensor in problem.updated[i]:  # in place: what the host has is stale
            current[tensor].made = place
            maker[tensor] = current[tensor]
        for tensor in problem.fresh[i]:  # another value begins
            span = Span(tensor, place, place, place)
            found.append(span)
            current[tensor] = span
            if not (again and tensor in maker and maker[tensor].leaves):
                maker[tensor] = span  # else the host has this very value
        if not again:
            if away:
                away.difference_update(problem.uses[i])
            if i in copied:
                away.update(copied[i])
    return found


def in_use(spans: list[Span], count: int) -> list[int]:
    """Bytes of all spans during each of so many runs."""
    change = [0] * (count + 1)
    for span in spans:
        change[span.first] += span.tensor.aligned_bytes
        change[span.last + 1] -= span.tensor.aligned_bytes
    total, usage = 0, []
    for nbytes in change[:count]:
        total += nbytes
        usage.append(total)
    return usage
