"""The CPU as a device: the same CUDA kernels, compiled for it by ``snref.simt``.

It is stricter than a GPU. The slab has exactly the size the plan was placed in, and
freed memory is filled with NaN, so a plan that reads what it has freed trains to NaN
rather than to something that looks right.
"""

import time
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from snref import simt
from snref.device import Command, Pieces, Values
from snref.device.order import Stream
from snref.device.views import check_place, number, viewed
from snref.kernels import find, importable
from snref.plans import ALIGNMENT, Launch, Shape, Tensor, View
from snref.simt.ahead import Job, compile_ahead

Array: TypeAlias = NDArray[Any]

POISON = {"float32": np.float32("nan"), "float16": np.float16("nan"), "int32": -1}


class Buffer:
    """A tensor's bytes, as each kernel likes to see them."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    @property
    def shape(self) -> Shape:
        return self.array.shape

    def seen_as(self, view: View) -> Array:
        """The same bytes as "shape", "rows", "channels" or "flat" (``Launch.view``)."""
        return self.array.reshape(viewed(self.array.shape, view))


@cache
def _compiled(kernel: Any, threads: int | None) -> Any:
    """Compile a kernel, once a process."""
    return simt.compile(kernel, threads=threads)


def _job(launch: Launch, values: Values) -> Job:
    """Return what another process needs to compile the kernel of a launch."""
    assert isinstance(launch.kernel, str)
    module, name = importable(launch.kernel)
    arrays = (
        np.empty((0,) * len(viewed(tensor.shape, launch.view)), tensor.dtype)
        for tensor in launch.outputs + launch.inputs
    )
    numbers = (number(values[s] if isinstance(s, str) else s) for s in launch.scalars)
    x, y, z = (*launch.block, 1, 1)[:3]
    types = tuple(map(numba.typeof, (*arrays, *numbers)))
    return Job(module, name, (x, y, z), types)


class CPU:
    """A slab of ordinary memory, and compiled kernels.

    slab, host  bytes of each memory
    threads     over which the blocks of a launch are spread; None: all cores. The
                results are the same bits with any number
    poison      fill freed memory with NaN
    """

    asynchronous = False

    def __init__(
        self,
        slab: int,
        host: int = 0,
        threads: int | None = None,
        poison: bool = True,
    ) -> None:
        self.slab, self.host, self.threads, self.poison = slab, host, threads, poison
        self.in_use = self.resident_bytes = 0
        memory = np.empty(slab + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self._memory = memory[start : start + slab]
        self._host = np.empty(host, np.uint8)

    def resident(self, array: Array) -> Buffer:
        """Copy an array to memory outside the slab; return the buffer."""
        self.resident_bytes += array.nbytes
        return Buffer(np.array(array, order="C"))

    def first(self, buffer: Buffer, shape: Shape) -> Buffer:
        """Return the first elements of a resident buffer, under another shape."""
        return Buffer(buffer.array.reshape(-1)[: prod(shape)].reshape(shape))

    def view(self, tensor: Tensor, offset: int) -> Buffer:
        """Return the tensor's bytes in the slab, which begin at this offset."""
        check_place(tensor, offset, self.slab)
        raw = self._memory[offset : offset + tensor.nbytes]
        return Buffer(raw.view(tensor.dtype).reshape(tensor.shape))

    def read(self, buffer: Buffer) -> Array:
        """Return a copy of a buffer's values."""
        return buffer.array.copy()

    def write(self, buffer: Buffer, array: Array) -> None:
        """Overwrite a buffer's values."""
        np.copyto(buffer.array, array)

    def prepare(self, launches: Iterable[Launch], values: Values) -> None:
        """Begin to compile the kernels of launches to come, on other cores.

        A kernel that was given as an object cannot be named to another process: it
        compiles here, at its first launch.
        """
        named = (launch for launch in launches if isinstance(launch.kernel, str))
        jobs = dict.fromkeys(_job(launch, values) for launch in named)
        compile_ahead(list(jobs), self.threads)

    def launch(self, launch: Launch, buffers: Sequence[Buffer]) -> Command:
        """Prepare the launch of a kernel on its outputs, inputs and scalars."""
        kernel = _compiled(find(launch.kernel), self.threads)[launch.grid, launch.block]
        arrays = [buffer.seen_as(launch.view) for buffer in buffers]

        def run(values: Values) -> None:
            scalars = (values[s] if isinstance(s, str) else s for s in launch.scalars)
            kernel(*arrays, *map(number, scalars))

        return run

    def to_host(self, buffer: Buffer, pieces: Pieces) -> Command:
        """Prepare a copy of a buffer to pieces of the host's memory."""
        return _copy([(host, there) for there, host in self._beside(buffer, pieces)])

    def to_device(self, buffer: Buffer, pieces: Pieces) -> Command:
        """Prepare a copy from pieces of the host's memory to a buffer."""
        return _copy(self._beside(buffer, pieces))

    def _beside(self, buffer: Buffer, pieces: Pieces) -> list[tuple[Array, Array]]:
        """Pair the bytes of a buffer with those of the host, a pair a piece."""
        raw, pairs, at = buffer.array.reshape(-1).view(np.uint8), [], 0
        for first, nbytes in pieces:
            host = self._host[first : first + nbytes]
            pairs.append((raw[at : at + nbytes], host))
            at += nbytes
        return pairs

    def free(self, buffer: Buffer) -> Command:
        """Prepare to leave nothing readable in the tensor's bytes."""
        array, value = buffer.array, POISON[str(buffer.array.dtype)]
        return lambda values: array.fill(value) if self.poison else None

    def ordered(self, after: Stream, before: Stream) -> tuple[Command, Command]:
        """Never called: every command is done when it returns."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    def now(self) -> float:
        """Return seconds on the clock of this machine."""
        return time.perf_counter()


def _copy(pairs: Sequence[tuple[Array, Array]]) -> Command:
    """Return a command that copies, for each pair, the second array to the first."""

    def copy(values: Values) -> None:
        for target, source in pairs:
            target[:] = source

    return copy
