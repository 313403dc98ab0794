"""`cuda.reduce`, and `vectorize` and `guvectorize` for `target="cuda"`.

Element-wise functions need no thread indices, so Numba's own CPU compiler makes them;
what is added is what CUDA's have besides: device arrays, streams, `reduce`.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from .arrays import DeviceNDArray, on_host, to_device


class Ufunc:
    """An element-wise function: `f(*arrays, out=None, stream=0)`.

    Gives a device array if any argument is one, else a host array; `out` is returned
    where given. `max_blocksize` may be set and has no effect.
    """

    max_blocksize = 1024

    def __init__(self, ufunc: Callable[..., Any], name: str) -> None:
        self.__name__ = name
        self._ufunc = ufunc

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        on_device = any(isinstance(a, DeviceNDArray) for a in args)
        options = {} if out is None else {"out": on_host(out)}
        result = self._ufunc(*(on_host(a) for a in args), **options)
        if out is not None:
            return out
        return to_device(result) if on_device else result

    def reduce(self, arg: Any, stream: Any = 0) -> Any:
        """One value of a one-dimensional array, of a function of two arguments."""
        if arg.ndim != 1:
            raise TypeError("only one-dimensional arrays are reduced")
        if not arg.size:
            raise TypeError("Reduction on an empty array.")
        return functools.reduce(self._ufunc, on_host(arg))


class Vectorize:
    """What `@vectorize(signatures, target="cuda")` collects and builds."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._function = function
        self._signatures: list[Any] = []

    def add(self, signature: Any) -> None:
        """One more signature."""
        self._signatures.append(signature)

    def disable_compile(self) -> None:
        """All signatures are known."""

    def build_ufunc(self) -> Ufunc:
        """The function of all signatures."""
        make = numba.vectorize(self._signatures)
        return Ufunc(make(self._function), self._function.__name__)


class GUVectorize(Vectorize):
    """What `@guvectorize(signatures, layout, target="cuda")` collects and builds."""

    def __init__(
        self, function: Callable[..., Any], layout: str, **options: Any
    ) -> None:
        super().__init__(function)
        self._layout = layout

    def build_ufunc(self) -> Ufunc:
        """The function of all signatures."""
        make = numba.guvectorize(self._signatures, self._layout)
        return Ufunc(make(self._function), self._function.__name__)


class Reduce:
    """A reduction by a function of two arguments, from left to right.

    A GPU combines in another order: where rounding matters, so do results.
    """

    def __init__(self, functor: Callable[[Any, Any], Any]) -> None:
        combine = numba.njit(functor)

        @numba.njit
        def fold(array, value):  # type: ignore[no-untyped-def]
            for x in array:
                value = combine(value, x)
            return value

        self._fold = fold

    def __call__(
        self,
        arr: Any,
        size: int | None = None,
        res: Any = None,
        init: Any = 0,
        stream: Any = 0,
    ) -> Any:
        """The value of the first `size` elements; into `res[0]` if it is given.

        `init`, of the array's dtype, comes first; an empty array gives it alone.
        """
        if arr.ndim != 1:
            raise TypeError("only support 1D array")
        array = np.asarray(on_host(arr))[:size]
        value = array.dtype.type(self._fold(array, array.dtype.type(init)))
        if res is None:
            return value
        res[0] = value
        return None
