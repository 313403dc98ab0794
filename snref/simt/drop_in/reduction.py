"""`cuda.reduce`. (`vectorize` and `guvectorize` for `target="cuda"` are Numba's own:
they make kernels and launch them.)
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from .arrays import on_host


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
