"""A GPU: one slab, a stream for kernels and one for copies each way.

Nothing here waits on the host. Three kinds of event give the overlap of the paper:
a copy waits for the kernels issued before it; a kernel waits for the copies of the
tensors it touches; and what comes after a release waits for the tensor's copy out.

Only this file touches streams, events, pinned and device arrays.
"""

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from snref.device.views import viewed
from snref.kernels import find
from snref.layer import Launch, View
from snref.tensor import Tensor

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

    Raises ``numba.cuda.CudaSupportError`` where there is none, and
    ``numba.cuda.cudadrv.driver.CudaAPIError`` where the slab does not fit.
    """

    def __init__(self, slab: int) -> None:
        self.slab = slab
        self.in_use = 0
        self._memory = cuda.device_array(max(1, slab // 4), np.float32)
        self._compute, self._out, self._in = (cuda.stream() for _ in range(3))
        self._buffers: dict[tuple[Tensor, int], Buffer] = {}
        self._hosts: dict[Tensor, Array] = {}
        self._leaving: dict[Tensor, Any] = {}  # events: when a copy out is done
        self._arriving: dict[Tensor, Any] = {}  # and a copy in
        self._kernels: dict[str, Any] = {}

    def resident(self, array: Array) -> Buffer:
        """A buffer outside the slab, for what the scheduler does not allocate."""
        return Buffer(cuda.to_device(np.ascontiguousarray(array)))

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

        Raises ValueError if they do not lie in the slab.
        """
        if offset < 0 or offset + tensor.room > self.slab:
            raise ValueError(
                f"{tensor.name}: {tensor.room} bytes at {offset} do not fit a slab of "
                f"{self.slab} bytes"
            )
        self.in_use += tensor.room
        key = tensor, offset
        if key not in self._buffers:
            words = self._memory[offset // 4 : (offset + tensor.nbytes) // 4]
            if tensor.dtype != "float32":
                words = words.view(np.dtype(tensor.dtype))
            self._buffers[key] = Buffer(words.reshape(tensor.shape))
        return self._buffers[key]

    def release(self, tensor: Tensor, buffer: Buffer) -> None:
        """Take the bytes back; later kernels and copies wait for the copy out."""
        self.in_use -= tensor.room
        self._await(self._leaving.get(tensor), self._compute)

    def launch(
        self,
        launch: Launch,
        buffers: Sequence[Buffer],
        scalars: Sequence[int | float],
    ) -> None:
        """Run a kernel on its outputs, then its inputs, then its scalars."""
        for tensor in launch.outputs + launch.inputs:
            self._await(self._arriving.pop(tensor, None), self._compute)
            if tensor in launch.outputs:
                self._await(self._leaving.get(tensor), self._compute)
        kernel = self._kernels.get(launch.kernel)
        if kernel is None:
            kernel = self._kernels[launch.kernel] = find(launch.kernel)
        kernel[launch.grid, launch.block, self._compute](
            *(buffer.seen_as(launch.view) for buffer in buffers),
            *(np.float32(s) if isinstance(s, float) else s for s in scalars),
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
