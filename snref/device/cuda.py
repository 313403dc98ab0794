"""A GPU: one slab, a stream for kernels and one for copies each way.

Nothing here waits on the host. Three kinds of event give the overlap of the paper:
a copy waits for the kernels issued before it; a kernel waits for the copies of the
tensors it touches; and whoever is given memory waits for the copies of what was there
before.

Only this file touches streams, events, pinned and device arrays. In a process where
Numba simulates CUDA it runs unchanged, on threads of Python.
"""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from snref.device.views import number, viewed
from snref.kernels import find
from snref.plans import Kernel, Launch, Shape, Tensor, View

Array: TypeAlias = NDArray[Any]


class Buffer:
    """A tensor's bytes on the GPU, as each kernel likes to see them."""

    __slots__ = ("array", "views")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.views: dict[View, Any] = {}

    def seen_as(self, view: View) -> Any:
        """The same bytes as "shape", "rows", "channels" or "flat" (``Launch.view``)."""
        if view not in self.views:
            self.views[view] = self.array.reshape(viewed(self.array.shape, view))
        return self.views[view]


class GPU:
    """A slab of so many bytes of the current CUDA device.

    Raises MemoryError where so many are not free.
    """

    def __init__(self, slab: int) -> None:
        free, total = cuda.current_context().get_memory_info()
        if slab > free:
            raise MemoryError(
                f"the plan needs {slab} bytes of the GPU, {free} of its {total} are "
                "free; --memory plans for fewer"
            )
        # Small nets launch few blocks; Numba would warn of each kernel once.
        warnings.filterwarnings("ignore", "Grid size")
        self.slab = slab
        self.in_use = self.resident_bytes = 0
        self._memory = cuda.device_array(max(1, slab), np.uint8)
        self._compute, self._out, self._in = (cuda.stream() for _ in range(3))
        self._buffers: dict[tuple[Tensor, int], Buffer] = {}
        self._offsets: dict[Tensor, int] = {}
        self._hosts: dict[Tensor, Array] = {}
        self._leaving: dict[Tensor, Any] = {}  # events: when a copy out is done
        self._arriving: dict[Tensor, Any] = {}  # and a copy in
        self._vacated: list[tuple[Any, int, int]] = []  # event, from and to offset
        self._kernels: dict[Kernel, Any] = {}

    def resident(self, array: Array) -> Buffer:
        """A buffer outside the slab, for what the scheduler does not allocate."""
        self.resident_bytes += array.nbytes
        return Buffer(cuda.to_device(np.ascontiguousarray(array)))

    def first(self, buffer: Buffer, shape: Shape) -> Buffer:
        """The first elements of a resident buffer, under another shape."""
        flat = buffer.array.reshape(buffer.array.size)
        return Buffer(flat[: prod(shape)].reshape(shape))

    def read(self, buffer: Buffer) -> Array:
        """A copy of what a buffer holds."""
        self.synchronize()
        return np.asarray(buffer.array.copy_to_host())

    def write(self, buffer: Buffer, array: Array) -> None:
        """Overwrite what a buffer holds."""
        self.synchronize()
        buffer.array.copy_to_device(np.ascontiguousarray(array))

    def view(self, tensor: Tensor, offset: int) -> Buffer:
        """The tensor's bytes, from this offset of the slab on.

        Kernels and copies wait until what was there before has left. Raises
        ValueError if the bytes do not lie in the slab.
        """
        if offset < 0 or offset + tensor.aligned_bytes > self.slab:
            raise ValueError(
                f"{tensor.name}: {tensor.aligned_bytes} bytes at {offset} do not fit "
                f"a slab of {self.slab} bytes"
            )
        self.in_use += tensor.aligned_bytes
        self._offsets[tensor] = offset
        for event, first, last in self._vacated:
            if first < offset + tensor.aligned_bytes and offset < last:
                self._await(event, self._compute)
        key = tensor, offset
        if key not in self._buffers:
            raw = self._memory[offset : offset + tensor.nbytes]
            typed = raw.view(np.dtype(tensor.dtype))
            self._buffers[key] = Buffer(typed.reshape(tensor.shape))
        return self._buffers[key]

    def release(self, tensor: Tensor, buffer: Buffer) -> None:
        """Take the bytes back; who gets them waits for the tensor's copies."""
        self.in_use -= tensor.aligned_bytes
        offset = self._offsets.pop(tensor)
        for event in (self._leaving.get(tensor), self._arriving.pop(tensor, None)):
            if event is not None:
                self._vacated.append((event, offset, offset + tensor.aligned_bytes))

    def prepare(
        self, launches: Iterable[Launch], values: Mapping[str, int | float]
    ) -> None:
        """Nothing: each kernel compiles at its first launch."""

    def launch(
        self,
        launch: Launch,
        buffers: Sequence[Buffer],
        scalars: Sequence[int | float],
    ) -> None:
        """Run a kernel on its outputs, then its inputs, then its scalars."""
        for tensor in launch.outputs + launch.inputs:
            self._await(self._arriving.pop(tensor, None), self._compute)
        for tensor in launch.outputs:
            self._await(self._leaving.get(tensor), self._compute)
        kernel = self._kernels.get(launch.kernel)
        if kernel is None:
            kernel = self._kernels[launch.kernel] = find(launch.kernel)
        kernel[launch.grid, launch.block, self._compute](
            *(buffer.seen_as(launch.view) for buffer in buffers),
            *map(number, scalars),
        )

    def to_host(self, tensor: Tensor, buffer: Buffer) -> Array:
        """Begin the copy to the host, into pinned memory kept for the tensor."""
        host = self._hosts.get(tensor)
        if host is None:
            host = cuda.pinned_array(tensor.shape, np.dtype(tensor.dtype))
            self._hosts[tensor] = host
        self._await(self._arriving.get(tensor), self._out)
        self._await(_done(self._compute), self._out)
        buffer.array.copy_to_host(host, stream=self._out)
        self._leaving[tensor] = _done(self._out)
        return host

    def to_device(self, host: Array, tensor: Tensor, buffer: Buffer) -> None:
        """Begin the copy back."""
        self._await(self._leaving.get(tensor), self._in)
        self._await(_done(self._compute), self._in)
        buffer.array.copy_to_device(host, stream=self._in)
        self._arriving[tensor] = _done(self._in)

    def synchronize(self) -> None:
        """Wait until everything issued is done."""
        for stream in (self._compute, self._out, self._in):
            stream.synchronize()
        self._vacated.clear()

    def now(self) -> float:
        """Seconds on the host's clock: when work was issued, not when it was done."""
        return time.perf_counter()

    @staticmethod
    def _await(event: Any, stream: Any) -> None:
        """Let the stream go on only after the event."""
        if event is not None:
            event.wait(stream)


def _done(stream: Any) -> Any:
    """An event that is there once all that was issued to the stream so far is done."""
    event = cuda.event(timing=False)
    event.record(stream)
    return event
