"""The frame of a block: its shared and local arrays, and its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from snref.simt import ir
from snref.simt.ir import Kernel
from snref.simt.style import slot

STACK_LIMIT = 256 * 1024  # bytes: a larger frame lives in the worker's arena


@dataclass(frozen=True)
class Frame:
    """The arrays of a block: shared, local (one copy a thread) and slots."""

    arrays: Mapping[str, tuple[tuple[int, ...], Any]]
    views: Mapping[str, tuple[tuple[int, ...], Any]]  # of the dynamic buffer
    dynamic: int

    @classmethod
    def of(cls, kernel: Kernel, dtypes: Mapping[str, Any]) -> Frame:
        arrays: dict[str, Any] = {}
        views: dict[str, Any] = {}
        for n, a in kernel.arrays.items():
            if a.space == "dynamic":
                views[n] = (a.shape, a.dtype)
            else:
                threads = (kernel.threads,) if a.space == "local" else ()
                arrays[n] = ((*a.shape, *threads), a.dtype)
        for v, dtype in dtypes.items():
            arrays[slot(v)] = ((kernel.threads,), dtype)
        return cls(arrays, views, kernel.dynamic if views else 0)

    def offsets(self) -> dict[str, int]:
        """Where each array lies in an arena, in bytes."""
        place, found = 0, {}
        for n, (shape, dtype) in self.arrays.items():
            found[n] = place
            place += -(-prod(shape) * ir.itemsize(dtype) // 64) * 64
        found[""] = place
        return found

    @property
    def bytes(self) -> int:
        return self.offsets()[""]

    @property
    def large(self) -> bool:
        """Too large for the stack of a thread?"""
        return self.bytes > STACK_LIMIT
