"""A GPU: one slab, a stream for kernels and one for copies each way.

Nothing here waits on the host, except to read and to write. Each command is prepared
once, down to the words that the driver is given, so that running it again costs little
more than the driver's own call; ``order`` says which events streams wait for.

Only this file touches streams, events, pinned and device memory. It speaks to the
driver through NVIDIA's own binding; Numba only compiles (``machine_code``).
"""

import ctypes
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
from cuda.bindings import driver
from numpy.typing import NDArray

from snref.device import Command, Pieces, Values
from snref.device.machine_code import Code, Types, ahead
from snref.device.order import Stream
from snref.device.views import check_place, viewed
from snref.plans import Launch, Shape, Tensor

Array: TypeAlias = NDArray[Any]


class Buffer:
    """A tensor's bytes on the GPU: where they begin, and the tensor's shape."""

    __slots__ = ("address", "dtype", "shape")

    def __init__(self, address: int, shape: Shape, dtype: Any) -> None:
        self.address, self.shape, self.dtype = address, shape, np.dtype(dtype)

    @property
    def nbytes(self) -> int:
        return int(prod(self.shape) * self.dtype.itemsize)


class GPU:
    """A slab of device memory and pinned host memory, on the current CUDA device.

    Raises MemoryError where one of them is not to be had.
    """

    asynchronous = True

    def __init__(self, slab: int, host: int = 0) -> None:
        self.slab, self.host = slab, host
        self.in_use = self.resident_bytes = 0
        self._context, self._device = _current()
        self.capability = _capability(self._device)
        self._owned: list[tuple[Callable[[Any], Any], Any]] = []
        weakref.finalize(self, _give_back, self._context, self._owned).atexit = False
        self._memory = self._allocated(slab, "the plan needs")
        self._host = self._pinned(host)
        self._streams: dict[Stream, Any] = {
            name: self._own(
                driver.cuStreamDestroy,
                _call(driver.cuStreamCreate, _NON_BLOCKING),
            )
            for name in ("compute", "out", "in")
        }
        self._functions: dict[Code, Any] = {}

    @property
    def name(self) -> str:
        """What the driver calls the device."""
        name = _call(driver.cuDeviceGetName, 100, self._device)
        return str(name.partition(b"\0")[0].decode())

    @property
    def free_bytes(self) -> int:
        """Bytes of device memory that nobody uses."""
        return int(_call(driver.cuMemGetInfo)[0])

    def _own(self, free: Callable[[Any], Any], handle: Any) -> Any:
        """Free this when the device is no longer referred to."""
        self._owned.append((free, handle))
        return handle

    def _allocated(self, nbytes: int, who: str) -> int:
        """Return the address of so much device memory."""
        try:
            memory = _call(driver.cuMemAlloc, max(1, nbytes))
        except MemoryError:
            free, total = _call(driver.cuMemGetInfo)
            raise MemoryError(
                f"{who} {nbytes} bytes of the GPU, {free} of its {total} are free; "
                "--memory plans for fewer"
            ) from None
        return int(self._own(driver.cuMemFree, memory))

    def _pinned(self, nbytes: int) -> int:
        """Return the address of so much host memory that copies can run beside."""
        if not nbytes:
            return 0
        try:
            memory = _call(driver.cuMemHostAlloc, nbytes, 0)
        except MemoryError:
            raise MemoryError(
                f"the plan copies {nbytes} bytes to the host, which will not pin so "
                "many; --host-memory plans for fewer"
            ) from None
        return int(self._own(driver.cuMemFreeHost, memory))

    def resident(self, array: Array) -> Buffer:
        """Copy an array to memory outside the slab; return the buffer."""
        address = self._allocated(array.nbytes, f"{self.resident_bytes} bytes and")
        self.resident_bytes += array.nbytes
        buffer = Buffer(address, array.shape, array.dtype)
        self.write(buffer, array)
        return buffer

    def first(self, buffer: Buffer, shape: Shape) -> Buffer:
        """Return the first elements of a resident buffer, under another shape."""
        return Buffer(buffer.address, shape, buffer.dtype)

    def view(self, tensor: Tensor, offset: int) -> Buffer:
        """Return the tensor's bytes in the slab, which begin at this offset."""
        check_place(tensor, offset, self.slab)
        return Buffer(self._memory + offset, tensor.shape, tensor.dtype)

    def read(self, buffer: Buffer) -> Array:
        """Wait until everything issued is done; return a copy of a buffer's values."""
        self.synchronize()
        array = np.empty(buffer.shape, buffer.dtype)
        at = array.ctypes.data, buffer.address, array.nbytes
        # To memory that is not pinned: done when it returns.
        _call(driver.cuMemcpyDtoHAsync, *at, self._streams["compute"])
        return array

    def write(self, buffer: Buffer, array: Array) -> None:
        """Overwrite a buffer's values, after all that is computed before."""
        _call(driver.cuCtxSetCurrent, self._context)
        array = np.ascontiguousarray(np.broadcast_to(array, buffer.shape), buffer.dtype)
        stream = self._streams["compute"]
        at = buffer.address, array.ctypes.data, array.nbytes
        _call(driver.cuMemcpyHtoDAsync, *at, stream)
        _call(driver.cuStreamSynchronize, stream)

    def prepare(self, launches: Iterable[Launch], values: Values) -> None:
        """Begin to compile the kernels of launches to come, on other cores."""
        ahead([self._code(launch, values) for launch in launches])

    def _code(self, launch: Launch, values: Values) -> Code:
        """Return what machine code a launch needs."""
        tensors = launch.outputs + launch.inputs
        scalars = [values[s] if isinstance(s, str) else s for s in launch.scalars]
        types: Types = (
            *((t.dtype, len(viewed(t.shape, launch.view))) for t in tensors),
            *(("float32" if isinstance(s, float) else "int64", 0) for s in scalars),
        )
        return Code(launch.kernel, types, self.capability)

    def launch(self, launch: Launch, buffers: Sequence[Buffer]) -> Command:
        """Prepare the launch of a kernel on its outputs, inputs and scalars."""
        return _Launch(self, launch, buffers)

    def function(self, code: Code) -> Any:
        """Return a kernel's handle, compiled and loaded at its first use."""
        if code not in self._functions:
            module = _call(driver.cuModuleLoadData, code.image())
            self._own(driver.cuModuleUnload, module)
            handle = _call(driver.cuModuleGetFunction, module, code.stem.encode())
            self._functions[code] = handle
        return self._functions[code]

    def to_host(self, buffer: Buffer, pieces: Pieces) -> Command:
        """Prepare a copy of a buffer to pieces of the host's memory."""
        stream = self._streams["out"]
        return _issue(
            [
                (driver.cuMemcpyDtoHAsync, host, there, nbytes, stream)
                for there, host, nbytes in self._beside(buffer, pieces)
            ]
        )

    def to_device(self, buffer: Buffer, pieces: Pieces) -> Command:
        """Prepare a copy from pieces of the host's memory to a buffer."""
        stream = self._streams["in"]
        return _issue(
            [
                (driver.cuMemcpyHtoDAsync, there, host, nbytes, stream)
                for there, host, nbytes in self._beside(buffer, pieces)
            ]
        )

    def _beside(self, buffer: Buffer, pieces: Pieces) -> Iterator[tuple[int, int, int]]:
        """Yield the addresses of each piece here and on the host, and its bytes."""
        there = buffer.address
        for first, nbytes in pieces:
            yield there, self._host + first, nbytes
            there += nbytes

    def free(self, buffer: Buffer) -> Command:
        """Prepare nothing: ``order`` protects bytes that are still read."""
        return _issue([])

    def ordered(self, after: Stream, before: Stream) -> tuple[Command, Command]:
        """Prepare to record an event in one stream, and to wait for it in another."""
        event = _call(driver.cuEventCreate, _NO_TIMING)
        self._own(driver.cuEventDestroy, event)
        record = driver.cuEventRecord, event, self._streams[after]
        wait = driver.cuStreamWaitEvent, self._streams[before], event, 0
        return _issue([record]), _issue([wait])

    def synchronize(self) -> None:
        """Wait until everything issued is done."""
        _call(driver.cuCtxSetCurrent, self._context)
        for stream in self._streams.values():
            _call(driver.cuStreamSynchronize, stream)

    def now(self) -> float:
        """Return the host's clock: when work was issued, not when it was done."""
        return time.perf_counter()


class _Launch:
    """A launch with all that the driver is given, written down once.

    Numba passes an array as a row of words: two null pointers, the number of elements,
    the bytes of one, the address, the shape and the strides.
    """

    def __init__(self, gpu: GPU, launch: Launch, buffers: Sequence[Buffer]) -> None:
        self.launch, self.function = launch, None
        self.gpu, self.stream = gpu, gpu._streams["compute"]
        self.shape = (*_three(launch.grid), *_three(launch.block), 0)
        words: list[Any] = []
        for buffer in buffers:
            shape = viewed(buffer.shape, launch.view)
            itemsize = buffer.dtype.itemsize
            strides = [prod(shape[i + 1 :]) * itemsize for i in range(len(shape))]
            numbers = 0, 0, prod(shape), itemsize, buffer.address, *shape, *strides
            words += map(ctypes.c_int64, numbers)
        self.named: list[tuple[Any, str]] = []
        for scalar in launch.scalars:
            words.append(ctypes.c_int64(0))  # room for a float32, too
            if isinstance(scalar, str):
                self.named.append((words[-1], scalar))
            else:
                _set(words[-1], scalar)
        self.words = words  # kept, since the driver is given addresses of them
        self.array = (ctypes.c_void_p * len(words))(*map(ctypes.addressof, words))
        self.arguments = ctypes.addressof(self.array)

    def __call__(self, values: Values) -> None:
        if self.function is None:
            self.function = self.gpu.function(self.gpu._code(self.launch, values))
        for word, name in self.named:
            _set(word, values[name])
        (result,) = driver.cuLaunchKernel(
            self.function, *self.shape, self.stream, self.arguments, 0
        )
        if result:
            _raise("cuLaunchKernel", result)


def _set(word: ctypes.c_int64, scalar: int | float) -> None:
    """Write a scalar: a fraction is a float32, as everything is."""
    if isinstance(scalar, float):
        ctypes.c_float.from_buffer(word).value = scalar
    else:
        word.value = scalar


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*shape, 1, 1)[:3]
    return x, y, z


def _issue(calls: Sequence[tuple[Any, ...]]) -> Command:
    """Return a command that makes these calls of the driver."""

    def issue(values: Values) -> None:
        for function, *arguments in calls:
            (result,) = function(*arguments)
            if result:
                _raise(function.__name__, result)

    return issue


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the driver; return what it returns. Raises MemoryError, RuntimeError."""
    result, *found = function(*arguments)
    if result:
        _raise(function.__name__, result)
    return found[0] if len(found) == 1 else tuple(found)


def _raise(name: str, result: Any) -> None:
    if result == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise MemoryError(f"{name}: the GPU is out of memory")
    raise RuntimeError(f"{name}: {result.name}")


_NON_BLOCKING = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
_NO_TIMING = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING


def _current() -> tuple[Any, Any]:
    """Return this thread's CUDA context, and its device.

    The context is the one that is current, or else the primary one of device 0.
    """
    _call(driver.cuInit, 0)
    context = _call(driver.cuCtxGetCurrent)
    if not int(context):
        context = _primary(0)
    _call(driver.cuCtxSetCurrent, context)
    return context, _call(driver.cuCtxGetDevice)


def _capability(device: Any) -> tuple[int, int]:
    """Return a device's compute capability."""
    kinds = driver.CUdevice_attribute
    major = kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    minor = kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
    ask = driver.cuDeviceGetAttribute
    return _call(ask, major, device), _call(ask, minor, device)


@cache
def _primary(number: int) -> Any:
    """Return a device's primary context, which libraries share. Kept to the end."""
    return _call(driver.cuDevicePrimaryCtxRetain, _call(driver.cuDeviceGet, number))


def _give_back(context: Any, owned: list[tuple[Callable[[Any], Any], Any]]) -> None:
    """Free what a device owned, in whatever thread its last reference went."""
    driver.cuCtxPushCurrent(context)
    for free, handle in reversed(owned):
        free(handle)
    driver.cuCtxPopCurrent()
