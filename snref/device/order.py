"""Which steps run side by side: the stream of each step, and what it waits for.

A device has three streams: one computes, one copies to the host, one copies back. A
stream does what it is given in order. Across streams one rule holds: a step waits for
each earlier step that uses the same bytes, of the slab or of the host's memory, if one
of the two writes them. A copy also waits for everything computed before it, which is
the rule of ``timing.timeline``. Waits that other waits imply are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from snref.plans import Alloc, Free, Offload, Prefetch, Run, Step, Tensor

Stream: TypeAlias = Literal["compute", "out", "in"]
Range: TypeAlias = tuple[int, int]  # first byte, and the first one behind

_STREAMS: tuple[Stream, ...] = ("compute", "out", "in")


@dataclass(frozen=True)
class Order:
    """What each step waits for before it begins, as positions of earlier steps.

    waits  for each step
    last   the copies that no computation waits for. Whoever computes next waits for
           them, so that plans on one device run as if one after the other
    """

    waits: tuple[tuple[int, ...], ...]
    last: tuple[int, ...]


@dataclass(frozen=True)
class _Copy:
    """A copy that the computing stream has not waited for."""

    stream: Stream
    slab: Range
    host: Sequence[Range]


def stream_of(step: Step) -> Stream:
    """Return the stream that a step is issued to."""
    return {Offload: "out", Prefetch: "in"}.get(type(step), "compute")  # type: ignore


def ordered(
    steps: Sequence[Step], on_host: Mapping[Step, Sequence[tuple[int, int]]]
) -> Order:
    """Return what each step of a placed plan waits for.

    on_host  for each copy, the pieces of the host's memory (offset, bytes) it uses

    >>> x, y = Tensor("x", (64,)), Tensor("y", (64,))
    >>> steps = Alloc(x, 0), Offload(x), Free(x), Alloc(y, 0), Prefetch(y)
    >>> ordered(steps, {steps[1]: ((0, 256),), steps[4]: ((256, 256),)})
    Order(waits=((), (), (), (), (1,)), last=(4,))
    """
    places: dict[Tensor, Range] = {}
    pending: dict[int, _Copy] = {}
    # The latest position of each stream that each stream's next step comes after.
    clocks = {of: dict.fromkeys(_STREAMS, -1) for of in _STREAMS}
    ends: dict[int, dict[Stream, int]] = {}  # the clock at the end of a step
    waits: list[tuple[int, ...]] = []

    def needed(stream: Stream, earlier: Sequence[tuple[int, Stream]]) -> list[int]:
        """Return those of the earlier steps that have to be waited for."""
        clock = clocks[stream]
        ahead = [(i, of) for i, of in earlier if i > clock[of]]
        chosen = [
            i
            for i, of in ahead
            if not any(j != i and ends[j][of] >= i for j, _ in ahead)
        ]
        for i in chosen:
            for of in _STREAMS:
                clock[of] = max(clock[of], ends[i][of])
        return chosen

    for position, step in enumerate(steps):
        stream = stream_of(step)
        conflicts: list[tuple[int, Stream]] = []
        match step:
            case Alloc(tensor, offset):
                assert offset is not None
                places[tensor] = offset, offset + tensor.aligned_bytes
            case Run():
                written = {*step.writes, *step.workspaces}
                conflicts = [
                    (i, copy.stream)
                    for i, copy in pending.items()
                    if any(
                        (copy.stream == "in" or tensor in written)
                        and _overlap(places[tensor], copy.slab)
                        for tensor in step.touched
                    )
                ]
            case Offload(tensor) | Prefetch(tensor):
                host = [(first, first + n) for first, n in on_host[step]]
                this = _Copy(stream, places[tensor], host)
                conflicts = [(clocks["compute"]["compute"], "compute")]
                conflicts += [
                    (i, copy.stream)
                    for i, copy in pending.items()
                    if _overlap(copy.slab, this.slab)
                    or any(_overlap(a, b) for a in copy.host for b in this.host)
                ]
                pending[position] = this
            case Free():
                pass
        waits.append(tuple(needed(stream, conflicts)))
        if isinstance(step, (Run, Offload, Prefetch)):
            clocks[stream][stream] = position
            ends[position] = dict(clocks[stream])
        if waits[-1] and isinstance(step, Run):
            known = clocks["compute"]
            for i in [i for i, copy in pending.items() if i <= known[copy.stream]]:
                del pending[i]
    last = needed("compute", [(i, copy.stream) for i, copy in pending.items()])
    return Order(tuple(waits), tuple(last))


def _overlap(a: Range, b: Range) -> bool:
    return a[0] < b[1] and b[0] < a[1]
