"""Functions of `numba.cuda.libdevice`: of float64, and with an f at the end of float32.

A CPU's libraries compute them: the last digits may differ from a GPU's, and `fast_sinf`
is as exact as `sinf`.
"""

# mypy: ignore-errors

import math
from collections.abc import Callable

import numpy as np
from numba import float32, float64, int32, njit
from numba.cuda import libdevice  # noqa: F401 (from here on there is cuda.libdevice)

from snref.simt.runtime import cbrt, fma

NUMBERS: dict[str, int] = {}  # how many arguments each function takes
FUNCTIONS: dict[str, Callable] = {}

_ONE = """sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt fabs floor
    ceil trunc rint"""
_ONE = {name: getattr(np, name) for name in _ONE.split()}
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    _ONE[f"a{_name}"] = getattr(np, f"arc{_name}")
_ONE |= {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma, "cbrt": cbrt}
_ONE["exp10"] = njit(lambda x: 10.0**x)
_ONE["rsqrt"] = njit(lambda x: 1 / np.sqrt(x), error_model="numpy")
_TWO = {"atan2": np.arctan2, "pow": np.power, "hypot": np.hypot, "fmod": np.fmod}
_TWO |= {"fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign}
_FAST = "sinf cosf tanf sincosf expf exp10f logf log2f log10f powf"


def _add(name, arguments, function):
    NUMBERS[name] = arguments
    FUNCTIONS[name] = njit(function, error_model="numpy")


def _of_one(name, function, kind):
    _add(name, 1, lambda x: kind(function(kind(x))))


def _of_two(name, function, kind):
    _add(name, 2, lambda x, y: kind(function(kind(x), kind(y))))


def _of_more(end, kind):
    """`fma`, and the functions that return two values."""

    def sincos(x):
        return kind(np.sin(kind(x))), kind(np.cos(kind(x)))

    def frexp(x):
        digits, power = math.frexp(kind(x))
        return kind(digits), int32(power)

    _add(f"sincos{end}", 1, sincos)
    _add(f"frexp{end}", 1, frexp)
    _add(f"fma{end}", 3, lambda x, y, z: fma(kind(x), kind(y), kind(z)))


for _end, _kind in (("", float64), ("f", float32)):
    for _name, _function in _ONE.items():
        _of_one(f"{_name}{_end}", _function, _kind)
    for _name, _function in _TWO.items():
        _of_two(f"{_name}{_end}", _function, _kind)
    _of_more(_end, _kind)
for _name in _FAST.split():
    NUMBERS[f"fast_{_name}"] = NUMBERS[_name]
    FUNCTIONS[f"fast_{_name}"] = FUNCTIONS[_name]
_of_two("fast_fdividef", np.divide, float32)
_add("abs", 1, lambda x: int32(abs(int32(x))))
_add("max", 2, lambda x, y: int32(max(int32(x), int32(y))))
_add("min", 2, lambda x, y: int32(min(int32(x), int32(y))))
_add("sad", 3, lambda x, y, z: int32(abs(int32(x) - int32(y)) + int32(z)))
