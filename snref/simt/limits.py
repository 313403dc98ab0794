"""What a launch may be on every GPU (CUDA C++ Programming Guide, table "Technical
specifications per compute capability")."""

from math import prod
from typing import TypeAlias

Three: TypeAlias = tuple[int, int, int]

THREADS = 1024  # of a block
BLOCK: Three = (1024, 1024, 64)  # threads along x, y and z
GRID: Three = (2**31 - 1, 65535, 65535)  # blocks along x, y and z
SHARED = 227 << 10  # bytes of shared memory a block, on the GPUs that have most

LIMITS = (
    "1 to 1024 threads a block, at most 1024, 1024 and 64 of them along x, y and z; "
    "1 to 2**31 - 1, 65535 and 65535 blocks along x, y and z"
)


def within_limits(grid: Three, block: Three) -> bool:
    """Could a GPU have this grid of blocks?"""
    sizes = zip(grid + block, GRID + BLOCK, strict=True)
    return all(1 <= n <= most for n, most in sizes) and prod(block) <= THREADS
