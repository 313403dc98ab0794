"""Launches by the reference interpreter, which a debugger can follow: `simt.debug`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from snref.simt.limits import Three
from snref.simt.meaning import with_fields
from snref.simt.reference import interpret
from snref.simt.run import Compiled

Place: TypeAlias = int | tuple[int, ...]


class Debug(Compiled):
    """A kernel run as Python, thread by thread: `debug(kernel)[grid, block](*args)`."""

    def __init__(self, kernel: Any, thread: Place = 0, block: Place = 0):
        super().__init__(kernel)
        self.thread, self.block = thread, block

    def launch(
        self, grid: Three, block: Three, dynamic: int, arguments: Sequence[Any]
    ) -> None:
        first = _number("block", self.block, grid) * prod(block)
        first += _number("thread", self.thread, block)
        given = [with_fields(a) if isinstance(a, np.ndarray) else a for a in arguments]
        interpret(self.function, grid, block, given, dynamic, first)


def _number(what: str, place: Place, size: Three) -> int:
    """The number of the thread in its block, or of the block in the grid."""
    x, y, z = (*(place if isinstance(place, tuple) else (place,)), 0, 0)[:3]
    if not all(0 <= i < n for i, n in zip((x, y, z), size, strict=True)):
        raise ValueError(f"there is no {what} {place} among {size}")
    return x + size[0] * (y + size[1] * z)
