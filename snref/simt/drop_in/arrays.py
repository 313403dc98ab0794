"""Device arrays over NumPy: the host side of `numba.cuda` memory, without a GPU.

The device's memory is the host's, but a device array stays an object of its own:
whatever a program must copy on a GPU it must copy here.
"""

import ctypes
import math
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.cuda.cudadrv.devicearray import (
    _devicearray,
    check_array_compatibility,
    sentry_contiguous,
)
from numba.np import numpy_support

from .refusals import refuse

Array = np.ndarray[Any, np.dtype[Any]]
Shape = int | tuple[int, ...]

_FRESH = 0xFF  # every byte of new memory: NaN as a float, -1 as an integer
_allocations: "weakref.WeakValueDictionary[int, Array]" = weakref.WeakValueDictionary()


def _allocate(shape: Shape, dtype: npt.DTypeLike, strides: Any, order: Any) -> Array:
    if strides is None:
        return _undefined(np.empty(shape, dtype, order))
    item = np.dtype(dtype).itemsize
    axes = zip(np.atleast_1d(shape), np.atleast_1d(strides), strict=True)
    nbytes = sum((int(n) - 1) * int(stride) for n, stride in axes) + item
    memory = _undefined(np.empty(max(nbytes, 0), np.uint8))
    return np.ndarray(shape, dtype, memory, strides=strides)


def _undefined(memory: Array) -> Array:
    """CUDA leaves new memory undefined; here a forgotten write shows."""
    memory.ravel(order="K").view(np.uint8).fill(_FRESH)
    return _registered(memory)


def _registered(memory: Array) -> Array:
    _allocations[memory.ctypes.data] = memory
    return memory


@dataclass(frozen=True)
class Pointer:
    """A place in the device's memory, and what keeps that memory."""

    address: int
    owner: Any = field(compare=False, repr=False)

    def __int__(self) -> int:
        return self.address

    @property
    def device_ctypes_pointer(self) -> ctypes.c_void_p:
        """The address as C sees it."""
        return ctypes.c_void_p(self.address)


def _at(pointer: Pointer, shape: Shape, strides: Any, dtype: npt.DTypeLike) -> Array:
    """The array of this form that begins at a pointer."""
    kind = np.dtype(dtype)
    if strides is not None:
        strides = (strides,) if isinstance(strides, int) else tuple(strides)
    interface = {
        "shape": (shape,) if isinstance(shape, int) else tuple(shape),
        "strides": strides,
        "typestr": f"|V{kind.itemsize}",
        "data": (pointer.address, False),
        "version": 3,
    }
    holder = SimpleNamespace(__array_interface__=interface, owner=pointer)
    return np.asarray(holder).view(kind)


class DeviceNDArray(_devicearray.DeviceArray):  # type: ignore[misc]
    """An array on the device: shape, strides (bytes), dtype, and its copies.

    Indexing with integers reads one element, with slices gives a view; arithmetic is
    the kernels' business. `stream` is the default of its copies, as in Numba; copies
    are done when the call returns.
    """

    __cuda_memory__ = True
    __cuda_ndarray__ = True

    def __init__(
        self,
        shape: Shape,
        strides: Any,
        dtype: npt.DTypeLike,
        stream: Any = 0,
        gpu_data: Pointer | None = None,
    ) -> None:
        """New memory, or what lies at `gpu_data`, as other arrays have it."""
        if gpu_data is None:
            self._data = _allocate(shape, dtype, strides, "C")
        else:
            self._data = _at(gpu_data, shape, strides, dtype)
        self.stream = stream

    @classmethod
    def over(cls, data: Array, stream: Any = 0) -> "DeviceNDArray":
        """The device array of this memory."""
        new = cls.__new__(cls)
        new._data, new.stream = data, stream
        return new

    shape = property(lambda self: self._data.shape)
    strides = property(lambda self: self._data.strides)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    nbytes = property(lambda self: self._data.nbytes)
    alloc_size = property(lambda self: self._data.nbytes)
    gpu_data = property(lambda self: Pointer(self._data.ctypes.data, self._data))
    device_ctypes_pointer = property(lambda self: self.gpu_data.device_ctypes_pointer)
    _numba_type_ = property(lambda self: numba.typeof(self._data))

    @property
    def flags(self) -> dict[str, bool]:
        """Contiguity, by NumPy's names."""
        flags = self._data.flags
        return {"C_CONTIGUOUS": flags.c_contiguous, "F_CONTIGUOUS": flags.f_contiguous}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = dict(self._data.__array_interface__)
        pointer = interface["data"][0] if self.size else 0
        return {
            "shape": interface["shape"],
            "strides": interface["strides"],
            "data": (pointer, False),
            "typestr": interface["typestr"],
            "stream": int(self.stream) if self.stream else None,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"<DeviceNDArray shape={self.shape} dtype={self.dtype}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._data, dtype=dtype)

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, item: Any) -> Any:
        value = self._data[_basic(item)]
        return self._view(value) if isinstance(value, np.ndarray) else value

    def __setitem__(self, item: Any, value: Any) -> None:
        self._data[_basic(item)] = on_host(value)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """The element or view at an index."""
        return self[item]

    def setitem(self, item: Any, value: Any, stream: Any = 0) -> None:
        """Write an element or a slice."""
        self[item] = value

    def copy_to_host(self, ary: Array | None = None, stream: Any = 0) -> Array:
        """A new host array, or `ary` overwritten (its dtype and shape must be equal).

        Raises TypeError for another dtype and ValueError for another shape.
        """
        if min(self.strides, default=0) < 0:
            raise NotImplementedError(
                f"D->H copy not implemented for negative strides: {self.strides}"
            )
        if ary is None:
            return self._data.copy(order="K")
        check_array_compatibility(self._data, ary)
        if isinstance(ary, np.void):
            for name in self.dtype.names or ():
                ary[name] = self._data[name]
        else:
            np.copyto(ary, self._data.reshape(ary.shape))
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Overwrite with a host or device array of the same dtype and shape.

        Raises TypeError for another dtype and ValueError for another shape, for arrays
        with gaps, and for a device array with another order of axes.
        """
        source = np.asarray(on_host(ary))
        if not source.size:
            return
        sentry_contiguous(self._data)
        target, source = _core(self._data), _core(source)
        if is_cuda_array(ary):
            sentry_contiguous(source)
        else:
            source = np.array(source, order="C" if target.flags.c_contiguous else "F")
        check_array_compatibility(target, source)
        np.copyto(target, source.reshape(target.shape))

    def is_c_contiguous(self) -> bool:
        """Whether the last axis varies fastest, without gaps."""
        return self.flags["C_CONTIGUOUS"]

    def is_f_contiguous(self) -> bool:
        """Whether the first axis varies fastest, without gaps."""
        return self.flags["F_CONTIGUOUS"]

    def reshape(self, *shape: Any, order: Any = "C") -> "DeviceNDArray":
        """A view of another shape; NotImplementedError where that needs a copy."""
        if len(shape) == 1 and isinstance(shape[0], tuple | list):
            shape = tuple(shape[0])
        view = self._data.reshape(shape, order=order)
        if self.size and not np.may_share_memory(view, self._data):
            raise NotImplementedError("operation requires copying")
        return self._view(view)

    def ravel(self, order: Any = "C", stream: Any = 0) -> "DeviceNDArray":
        """A one-dimensional view; NotImplementedError where that needs a copy."""
        if not (self.is_c_contiguous() or self.is_f_contiguous()):
            raise NotImplementedError("operation requires copying")
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> "DeviceNDArray":
        """A view without axes of length one."""
        return self._view(self._data.squeeze(axis))

    def view(self, dtype: npt.DTypeLike) -> "DeviceNDArray":
        """The same bytes as another dtype."""
        return self._view(self._data.view(dtype))

    @property
    def T(self) -> "DeviceNDArray":
        """A transposed copy."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> "DeviceNDArray":
        """A transposed copy of a matrix, as Numba's transpose kernel makes it."""
        if axes and tuple(axes) == tuple(range(self.ndim)):
            return self
        if self.ndim != 2:
            raise NotImplementedError("only matrices are transposed")
        return DeviceNDArray.over(np.ascontiguousarray(self._data.transpose(axes)))

    def split(self, section: int, stream: Any = 0) -> Iterator["DeviceNDArray"]:
        """Views of `section` elements each, the last one shorter."""
        if self.ndim != 1:
            raise ValueError("only support 1d array")
        for i in range(math.ceil(self.size / section)):
            yield self[i * section : (i + 1) * section]

    def bind(self, stream: Any = 0) -> "DeviceNDArray":
        """The same memory with another default stream."""
        return DeviceNDArray.over(self._data, stream)

    def get_ipc_handle(self) -> Any:
        """Refused: memory of another process."""
        refuse("get_ipc_handle", "foreign-memory")

    def _view(self, data: Array) -> "DeviceNDArray":
        return DeviceNDArray.over(data, self.stream)


def _core(array: Array) -> Array:
    """Each element of a broadcast array once."""
    if not array.size:
        return array
    axes = (slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)
    core: Array = array[(*axes, ...)]
    return core


class DeviceRecord(DeviceNDArray):
    """A record on the device: `record["field"]` reads and writes."""

    def __init__(
        self, dtype: npt.DTypeLike, stream: Any = 0, gpu_data: Pointer | None = None
    ) -> None:
        """New memory, or what lies at `gpu_data`."""
        super().__init__((), (), dtype, stream, gpu_data)

    _numba_type_ = property(lambda self: numpy_support.from_dtype(self.dtype))

    def __getitem__(self, item: Any) -> Any:
        value = self._data[item]
        return self._view(value) if value.ndim else value[()]

    def __setitem__(self, item: Any, value: Any) -> None:
        self._data[item] = on_host(value)


class MappedNDArray(np.ndarray[Any, np.dtype[Any]]):
    """A host array that the device shares: mapped or managed memory."""

    stream: Any = 0

    @property
    def on_device(self) -> DeviceNDArray:
        """The same memory as a device array."""
        return DeviceNDArray.over(self.view(np.ndarray), self.stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.on_device.__cuda_array_interface__

    @property
    def device_ctypes_pointer(self) -> ctypes.c_void_p:
        """The address as C sees it."""
        return Pointer(self.ctypes.data, self).device_ctypes_pointer

    def copy_to_host(self, ary: Array | None = None, stream: Any = 0) -> Array:
        """As for a device array."""
        return self.on_device.copy_to_host(ary, stream)

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """As for a device array."""
        self.on_device.copy_to_device(ary, stream)


def _basic(item: Any) -> Any:
    parts = item if isinstance(item, tuple) else (item,)
    if not all(isinstance(i, int | np.integer | slice) or i is ... for i in parts):
        refuse("indexing of a device array", "basic-indexing")
    return item


def on_host(value: Any) -> Any:
    """The NumPy array behind a device array; anything else as it is."""
    if isinstance(value, DeviceRecord):
        return value._data[()]
    if isinstance(value, DeviceNDArray):
        return value._data
    if isinstance(value, MappedNDArray):
        return value.view(np.ndarray)
    if not isinstance(value, np.ndarray) and is_cuda_array(value):
        return as_cuda_array(value)._data
    return value


def to_device(
    obj: Any, stream: Any = 0, copy: bool = True, to: DeviceNDArray | None = None
) -> Any:
    """A device copy of a host array, list or number; into `to` if it is given."""
    if to is not None:
        if copy:
            to.copy_to_device(obj, stream)
        return to
    if isinstance(obj, DeviceNDArray) or is_cuda_array(obj):
        return as_cuda_array(obj)
    return auto_device(obj, stream, copy)[0]


def auto_device(
    obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False
) -> tuple[DeviceNDArray, bool]:
    """A device array, record or copy of host data, and whether it is new."""
    if is_cuda_array(obj):
        return as_cuda_array(obj), False
    if isinstance(obj, np.void):
        new: DeviceNDArray = from_record_like(obj, stream)
    else:
        obj = np.asarray(obj)
        sentry_contiguous(obj)
        new = from_array_like(obj, stream)
    if copy:
        new.copy_to_device(obj, stream)
    return new, True


def from_array_like(
    ary: Any, stream: Any = 0, gpu_data: Pointer | None = None
) -> DeviceNDArray:
    """New device memory, or what lies at `gpu_data`, of an array's form."""
    return DeviceNDArray(ary.shape, ary.strides, ary.dtype, stream, gpu_data)


def from_record_like(
    rec: Any, stream: Any = 0, gpu_data: Pointer | None = None
) -> DeviceRecord:
    """New device memory, or what lies at `gpu_data`, for a record."""
    return DeviceRecord(rec.dtype, stream, gpu_data)


def device_array(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    strides: Any = None,
    order: Any = "C",
    stream: Any = 0,
) -> DeviceNDArray:
    """New device memory, its contents undefined (here: NaN, or -1)."""
    return DeviceNDArray.over(_allocate(shape, dtype, strides, order), stream)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """New device memory of an array's shape, dtype and order of axes."""
    return DeviceNDArray.over(host_array_like(ary), stream)


def host_array(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    strides: Any = None,
    order: Any = "C",
    **options: Any,
) -> Array:
    """Pinned memory: here it is an ordinary NumPy array."""
    return _allocate(shape, dtype, strides, order)


def mapped_array(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    strides: Any = None,
    order: Any = "C",
    stream: Any = 0,
    **options: Any,
) -> MappedNDArray:
    """Mapped or managed memory: a NumPy array that is a device array, too."""
    new = _allocate(shape, dtype, strides, order).view(MappedNDArray)
    new.stream = stream
    return new


def mapped_array_like(ary: Any, stream: Any = 0, **options: Any) -> MappedNDArray:
    """As `mapped_array`, of an array's shape, dtype and order of axes."""
    new = host_array_like(ary).view(MappedNDArray)
    new.stream = stream
    return new


def host_array_like(ary: Any, **options: Any) -> Array:
    """As `host_array`, of an array's shape, dtype and order of axes."""
    return _undefined(np.empty_like(on_host(ary), subok=False))


@contextmanager
def pinned(*arrays: Array) -> Iterator[None]:
    """Nothing to pin."""
    yield


@contextmanager
def mapped(*arrays: Array, stream: Any = 0) -> Iterator[Any]:
    """Device arrays over the memory of host arrays; one, or a list of several."""
    views = [DeviceNDArray.over(a, stream) for a in arrays]
    yield views[0] if len(views) == 1 else views


def is_cuda_array(obj: Any) -> bool:
    """Whether an object has a CUDA array interface."""
    return hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """The device array behind an object with a CUDA array interface, not copied."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if not is_cuda_array(obj):
        raise TypeError("*obj* doesn't implement the cuda array interface.")
    return from_cuda_array_interface(obj.__cuda_array_interface__, owner=obj)


def from_cuda_array_interface(
    desc: dict[str, Any], owner: Any = None, sync: bool = True
) -> DeviceNDArray:
    """A device array over memory of this device, by its CUDA array interface.

    Only pointers into memory that came from here are followed; KernelError for others.
    """
    if desc.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    pointer = desc["data"][0]
    memory = _owner(pointer) if pointer else np.empty(0, np.uint8)
    keys = "shape", "typestr", "data", "strides"
    interface = {key: desc.get(key) for key in keys} | {"version": 3}
    holder = SimpleNamespace(__array_interface__=interface, memory=memory, owner=owner)
    return DeviceNDArray.over(np.asarray(holder))


def array_at(pointer: int, dtype: npt.DTypeLike) -> Array:
    """The device memory from a pointer on, to the end of its allocation."""
    memory = _owner(pointer)
    raw = memory.ravel(order="K").view(np.uint8)[pointer - memory.ctypes.data :]
    return raw[: raw.size - raw.size % np.dtype(dtype).itemsize].view(dtype)


def _owner(pointer: int) -> Array:
    for start, memory in list(_allocations.items()):
        if start <= pointer < start + memory.nbytes:
            return memory
    refuse(f"pointer {pointer:#x}", "foreign-memory")
