"""The paper's memory pool: addresses in one slab of device memory, first fit.

cudaMalloc and cudaFree are slow enough to show in a training step, so SuperNeurons
asks for one slab up front and keeps its own address book: the holes in address order,
and a hash table of what is allocated. No memory is touched here, only numbers.
"""

from bisect import bisect
from collections.abc import Iterable
from typing import Literal, TypeAlias

Fit: TypeAlias = Literal["first", "last"]
Hole: TypeAlias = tuple[int, int]  # from an offset, up to another
Event: TypeAlias = tuple[int, bool]  # an allocation's number, and whether it begins

ENDLESS = 1 << 100  # bytes: no limit, to find how large a slab a plan needs


class Pool:
    """First-fit addresses in a slab, in whole blocks.

    slab   bytes of device memory; None stands for no limit, and is used to find how
           large a slab a plan needs
    block  every size is rounded up to a multiple of this; 1 KiB in the paper

    >>> pool = Pool(slab=4096)
    >>> pool.allocate(1000), pool.allocate(2048), pool.allocate(1025)
    (0, 1024, None)
    >>> pool.free(0)
    >>> pool.allocate(1), pool.largest_hole
    (0, 1024)
    """

    def __init__(self, slab: int | None, block: int = 1024) -> None:
        if block < 1 or (slab is not None and slab < 0):
            raise ValueError(f"a pool of {slab} bytes in blocks of {block}")
        size = ENDLESS if slab is None else slab // block * block
        self.block = block
        self.slab = slab
        self._holes: list[Hole] = [(0, size)] if size else []  # in address order
        self._allocated: dict[int, int] = {}  # offset -> size

    @property
    def largest_hole(self) -> int:
        """Bytes of the largest allocation that would succeed now."""
        return max((end - start for start, end in self._holes), default=0)

    def allocate(self, nbytes: int, fit: Fit = "first") -> int | None:
        """Allocate bytes and return their offset; None if no hole is large enough.

        fit  "first": the lowest address that fits, as in the paper; "last": the
             highest, which needs a slab with an end

        Raises ValueError for a number of bytes below 0.
        """
        if fit == "last" and self.slab is None:
            raise ValueError("fit 'last' needs a slab with an end")
        size = self._rounded(nbytes)
        holes = self._holes if fit == "first" else reversed(self._holes)
        for number, (start, end) in enumerate(holes):  # few: linear is fast enough
            if end - start >= size:
                if fit == "first":
                    self._take(number, start, size)
                    return start
                self._take(len(self._holes) - 1 - number, end - size, size)
                return end - size
        return None

    def take(self, offset: int, nbytes: int) -> bool:
        """Allocate at this offset. False, and no change, if not all of it is a hole.

        Raises ValueError if the offset is not a multiple of the block.
        """
        if offset % self.block:
            raise ValueError(f"offset {offset}: must be a multiple of {self.block}")
        size = self._rounded(nbytes)
        index = bisect(self._holes, (offset, ENDLESS)) - 1  # begins there or before
        if index < 0 or offset + size > self._holes[index][1]:
            return False
        self._take(index, offset, size)
        return True

    def _take(self, index: int, offset: int, size: int) -> None:
        """Allocate in the hole of this index."""
        start, end = self._holes[index]
        stop = offset + size
        if start == offset and stop == end:
            del self._holes[index]
        elif start == offset:
            self._holes[index] = stop, end
        elif stop == end:
            self._holes[index] = start, offset
        else:
            self._holes[index : index + 1] = (start, offset), (stop, end)
        self._allocated[offset] = size

    def free(self, offset: int) -> None:
        """Return an allocation to the holes, merged with those beside it.

        Raises ValueError if nothing is allocated at this offset.
        """
        size = self._allocated.pop(offset, 0)
        if not size:
            raise ValueError(f"nothing is allocated at offset {offset}")
        start, end, holes = offset, offset + size, self._holes
        index = bisect(holes, (offset,))
        if index < len(holes) and holes[index][0] == end:
            end = holes.pop(index)[1]
        if index > 0 and holes[index - 1][1] == start:
            index -= 1
            start = holes.pop(index)[0]
        holes.insert(index, (start, end))

    def _rounded(self, nbytes: int) -> int:
        """Bytes in whole blocks, at least one."""
        if nbytes < 0:
            raise ValueError(f"an allocation of {nbytes} bytes: must be >= 0")
        return (-(-nbytes // self.block) or 1) * self.block


def first_fit(pool: Pool, sizes: list[int], events: Iterable[Event]) -> list[int]:
    """Return the offset of every allocation, as the pool gives them event by event.

    sizes   bytes of every allocation
    events  in order of time; the pool has no end

    >>> begins, ends = True, False
    >>> a, b, c = range(3)
    >>> events = [(a, begins), (b, begins), (a, ends), (c, begins)]
    >>> first_fit(Pool(None), [1024, 1024, 2048], events)
    [0, 1024, 2048]
    """
    offsets = [0] * len(sizes)
    for allocation, begins in events:
        if begins:
            offset = pool.allocate(sizes[allocation])
            assert offset is not None
            offsets[allocation] = offset
        else:
            pool.free(offsets[allocation])
    return offsets
