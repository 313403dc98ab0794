"""Where copies lie in the memory of the host.

A copy may lie in pieces, so that memory does not fragment: as many bytes are enough
as are in use at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from snref.device import Pieces
from snref.plans import Offload, Prefetch, Step, Tensor, last_prefetches


@dataclass(frozen=True)
class HostPlacement:
    """For each copy, the pieces of host memory that it writes or reads.

    in_use  bytes in use during each step
    """

    pieces: dict[Step, Pieces]
    in_use: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The host memory that is needed, in bytes."""
        return max(self.in_use, default=0)


def place_on_host(steps: Sequence[Step]) -> HostPlacement:
    """Place each copy in the lowest free bytes, from a copy out to the last copy back.

    >>> x, y, z = (Tensor(name, (n,)) for name, n in (("x", 1), ("y", 2), ("z", 3)))
    >>> steps = (Offload(x), Offload(y), Prefetch(x), Offload(z), Prefetch(y))
    >>> placement = place_on_host((*steps, Prefetch(z)))
    >>> placement.pieces[steps[3]], placement.in_use
    (((0, 4), (12, 8)), (4, 12, 12, 20, 20, 12))
    """
    last = last_prefetches(steps)
    free: list[tuple[int, int]] = []  # sorted: first byte, bytes; all end before top
    top = 0
    kept: dict[Tensor, Pieces] = {}
    pieces: dict[Step, Pieces] = {}
    total, in_use = 0, []
    for step in steps:
        if isinstance(step, Offload):
            if step.tensor not in kept:
                taken = []
                needed = step.tensor.nbytes
                total += needed
                while needed:
                    first, n = free.pop(0) if free else (top, needed)
                    used = min(n, needed)
                    if used < n:
                        free.insert(0, (first + used, n - used))
                    taken.append((first, used))
                    top = max(top, first + used)
                    needed -= used
                kept[step.tensor] = tuple(taken)
            pieces[step] = kept[step.tensor]
        elif isinstance(step, Prefetch):
            pieces[step] = kept[step.tensor]
        in_use.append(total)
        if isinstance(step, Prefetch) and step in last:
            total -= step.tensor.nbytes
            free = _merged([*free, *kept.pop(step.tensor)])
    return HostPlacement(pieces, tuple(in_use))


def _merged(free: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort free pieces, and make one of those that border each other."""
    merged: list[tuple[int, int]] = []
    for first, n in sorted(free):
        if merged and sum(merged[-1]) == first:
            merged[-1] = merged[-1][0], merged[-1][1] + n
        else:
            merged.append((first, n))
    return merged
