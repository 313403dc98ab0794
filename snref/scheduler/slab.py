"""The paper's memory pool: addresses in one slab of device memory, first fit.

cudaMalloc and cudaFree are slow enough to show in a training step, so SuperNeurons
asks for one slab up front and keeps its own address book: the holes in address order,
and a hash table of what is allocated. No memory is touched here, only numbers.
"""

from bisect import bisect
from typing import Literal, TypeAlias

Fit: TypeAlias = Literal["first", "best", "last"]

ENDLESS = 1 << 100  # bytes: the slab of a pool that is asked what it would need


class Pool:
    """First-fit addresses in a slab, in whole blocks.

    slab   bytes of device memory there are; None: as many as it takes
    block  bytes, the granule: every size is rounded up to it. 1 KiB in the paper

    >>> pool = Pool(slab=4096)
    >>> pool.allocate(1000), pool.allocate(2048), pool.allocate(1025)
    (0, 1024, None)
    >>> pool.free(0)
    >>> pool.in_use, pool.largest_hole, pool.extent
    (2048, 1024, 3072)
    """

    def __init__(self, slab: int | None, block: int = 1024) -> None:
        if block < 1 or (slab is not None and slab < 0):
            raise ValueError(f"a pool of {slab} bytes in blocks of {block}")
        size = ENDLESS if slab is None else slab // block * block
        self.block = block
        self.slab = slab
        self.in_use = 0  # bytes, in whole blocks
        self.extent = 0  # bytes: the highest address ever in use
        self._starts = [0] if size else []  # of the holes, in address order
        self._sizes = [size] if size else []
        self._allocated: dict[int, int] = {}  # offset -> size

    @property
    def largest_hole(self) -> int:
        """Bytes of the largest allocation that would succeed now."""
        return max(self._sizes, default=0)

    def allocate(self, nbytes: int, fit: Fit = "first") -> int | None:
        """The offset of a new allocation, or None where no hole is large enough.

        fit  "first": the lowest address that fits, as in the paper; "best": the
             smallest hole that fits, the lowest of these; "last": the highest address
             that fits, which needs a slab with an end

        Raises ValueError for a number of bytes below 0.
        """
        if nbytes < 0:
            raise ValueError(f"an allocation of {nbytes} bytes: must be >= 0")
        if fit == "last" and self.slab is None:
            raise ValueError("fit 'last' needs a slab with an end")
        size = max(1, -(-nbytes // self.block)) * self.block
        hole = self._find(size, fit)
        if hole is None:
            return None
        self._sizes[hole] -= size
        offset = self._starts[hole]
        if fit == "last":
            offset += self._sizes[hole]
        else:
            self._starts[hole] += size
        if not self._sizes[hole]:
            del self._starts[hole], self._sizes[hole]
        self._allocated[offset] = size
        self.in_use += size
        self.extent = max(self.extent, offset + size)
        return offset

    def _find(self, size: int, fit: Fit) -> int | None:
        """The index of the hole to use. Linear in the holes, which are few."""
        if fit == "best":
            fitting = [s for s in self._sizes if s >= size]
            return self._sizes.index(min(fitting)) if fitting else None
        if fit == "last":
            for hole in range(len(self._sizes) - 1, -1, -1):
                if self._sizes[hole] >= size:
                    return hole
            return None
        for hole, room in enumerate(self._sizes):
            if room >= size:
                return hole
        return None

    def take(self, offset: int, nbytes: int) -> bool:
        """Allocate at this offset; False, and no change, if not all of it is a hole.

        Raises ValueError if the offset is not a multiple of the block.
        """
        if offset % self.block:
            raise ValueError(f"offset {offset}: must be a multiple of {self.block}")
        size = max(1, -(-nbytes // self.block)) * self.block
        hole = bisect(self._starts, offset) - 1
        start = self._starts[hole] if hole >= 0 else offset + 1
        end = start + self._sizes[hole] if hole >= 0 else offset
        if not start <= offset or offset + size > end:
            return False
        pieces = [(start, offset - start), (offset + size, end - offset - size)]
        self._starts[hole : hole + 1] = [at for at, rest in pieces if rest]
        self._sizes[hole : hole + 1] = [rest for _, rest in pieces if rest]
        self._allocated[offset] = size
        self.in_use += size
        self.extent = max(self.extent, offset + size)
        return True

    def free(self, offset: int) -> None:
        """Return an allocation to the holes, merged with those beside it.

        Raises ValueError if nothing is allocated at this offset.
        """
        size = self._allocated.pop(offset, None)
        if size is None:
            raise ValueError(f"nothing is allocated at offset {offset}")
        self.in_use -= size
        starts, sizes = self._starts, self._sizes
        after = bisect(starts, offset)
        before = after - 1
        if after < len(starts) and starts[after] == offset + size:
            starts[after] = offset
            sizes[after] += size
        else:
            starts.insert(after, offset)
            sizes.insert(after, size)
        if before >= 0 and starts[before] + sizes[before] == offset:
            sizes[before] += sizes[after]
            del starts[after], sizes[after]
