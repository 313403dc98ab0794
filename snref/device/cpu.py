"""The CPU as a device: the same CUDA kernels, compiled for it by ``snref.simt``.

It is stricter than a GPU. The slab has exactly the size the plan was placed in, and
freed memory is filled with NaN, so a plan that reads what it has freed trains to NaN
rather than to something that looks right.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from snref import simt
from snref.device.views import number, viewed
from snref.kernels import find, importable
from snref.plans import ALIGNMENT, Kernel, Launch, Shape, Tensor, View
from snref.simt.ahead import Job, compile_ahead

Array: TypeAlias = NDArray[Any]

POISON = {"float32": np.float32("nan"), "float16": np.float16("nan"), "int32": -1}


class Buffer:
    """A tensor's bytes, as each kernel likes to see them."""

    __slots__ = ("array", "views")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.views: dict[View, Array] = {}

    def seen_as(self, view: View) -> Array:
        """The same bytes as "shape", "rows", "channels" or "flat" (``Launch.view``)."""
        if view not in self.views:
            self.views[view] = self.array.reshape(viewed(self.array.shape, view))
        return self.views[view]


@cache
def _compiled(kernel: Any, threads: int | None) -> Any:
    """Compile a kernel, once a process."""
    return simt.compile(kernel, threads=threads)


def _job(launch: Launch, values: Mapping[str, int | float]) -> Job:
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
    """A slab of so many bytes of ordinary memory, and compiled kernels.

    threads  over which the blocks of a launch are spread; None: all cores. The
             results are the same bits with any number
    poison   fill freed memory with NaN
    """

    def __init__(
        self, slab: int, threads: int | None = None, poison: bool = True
    ) -> None:
        self.slab, self.threads, self.poison = slab, threads, poison
        self.in_use = self.resident_bytes = 0
        memory = np.empty(slab + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self._memory = memory[start : start + slab]
        self._buffers: dict[tuple[Tensor, int], Buffer] = {}
        self._hosts: dict[Tensor, Array] = {}
        self._kernels: dict[Kernel, Any] = {}  # compiled

    def resident(self, array: Array) -> Buffer:
        """A buffer outside the slab, for what the scheduler does not allocate."""
        self.resident_bytes += array.nbytes
        return Buffer(np.array(array, order="C"))

    def first(self, buffer: Buffer, shape: Shape) -> Buffer:
        """The first elements of a resident buffer, under another shape."""
        return Buffer(buffer.array.reshape(-1)[: prod(shape)].reshape(shape))

    def read(self, buffer: Buffer) -> Array:
        """A copy of what a buffer holds."""
        return buffer.array.copy()

    def write(self, buffer: Buffer, array: Array) -> None:
        """Overwrite what a buffer holds."""
        np.copyto(buffer.array, array)

    def view(self, tensor: Tensor, offset: int) -> Buffer:
        """The tensor's bytes, from this offset of the slab on.

        Raises ValueError if they do not lie in the slab.
        """
        if offset < 0 or offset + tensor.aligned_bytes > self.slab:
            raise ValueError(
                f"{tensor.name}: {tensor.aligned_bytes} bytes at {offset} do not fit "
                f"a slab of {self.slab} bytes"
            )
        self.in_use += tensor.aligned_bytes
        key = tensor, offset
        if key not in self._buffers:
            raw = self._memory[offset : offset + tensor.nbytes]
            self._buffers[key] = Buffer(raw.view(tensor.dtype).reshape(tensor.shape))
        return self._buffers[key]

    def release(self, tensor: Tensor, buffer: Buffer) -> None:
        """Take the tensor's bytes back, and leave nothing readable in them."""
        self.in_use -= tensor.aligned_bytes
        if self.poison:
            buffer.array.fill(POISON[tensor.dtype])

    def launch(
        self,
        launch: Launch,
        buffers: Sequence[Buffer],
        scalars: Sequence[int | float],
    ) -> None:
        """Run a kernel on its outputs, then its inputs, then its scalars."""
        kernel = self._kernels.get(launch.kernel)
        if kernel is None:
            kernel = _compiled(find(launch.kernel), self.threads)
            self._kernels[launch.kernel] = kernel
        kernel[launch.grid, launch.block](
            *(buffer.seen_as(launch.view) for buffer in buffers),
            *map(number, scalars),
        )

    def prepare(
        self, launches: Iterable[Launch], values: Mapping[str, int | float]
    ) -> None:
        """Begin to compile the kernels of launches to come, on other cores.

        A kernel that was given as an object cannot be named to another process: it
        compiles here, at its first launch.
        """
        named = (launch for launch in launches if isinstance(launch.kernel, str))
        jobs = dict.fromkeys(_job(launch, values) for launch in named)
        compile_ahead(list(jobs), self.threads)

    def to_host(self, tensor: Tensor, buffer: Buffer) -> Array:
        """Copy to the host, into the memory of the tensor's last copy there."""
        host = self._hosts.get(tensor)
        if host is None:
            host = self._hosts[tensor] = np.empty_like(buffer.array)
        np.copyto(host, buffer.array)
        return host

    def to_device(self, host: Array, tensor: Tensor, buffer: Buffer) -> None:
        """Copy back."""
        np.copyto(buffer.array, host)

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    def now(self) -> float:
        return time.perf_counter()
