"""exp, log and integer division that a loop over threads can do for many at once.

A library's functions take one number at a time. These are arithmetic only: exp and log
of float32 to within 2 units in the last place, as CUDA's own, and division exact.
"""

# mypy: ignore-errors

import math

from llvmlite import ir
from numba import float32, float64, int32, int64, njit, types
from numba.extending import intrinsic, overload

LOG2_E = 1 / math.log(2)
# log 2 in two parts: a small whole number times the first is exact in float32
LOG_2_HIGH = 0.693359375
LOG_2_LOW = math.log(2) - LOG_2_HIGH
ROUND = 1.5 * 2.0**23  # adding it and taking it away rounds to a whole number


def exp(x):
    """The exponential; in compiled code only."""
    raise NotImplementedError


def log(x):
    """The natural logarithm; in compiled code only."""
    raise NotImplementedError


@overload(exp)
def _exp(x):
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: math.exp(x)


@overload(log)
def _log(x):
    if x == types.float32:
        return lambda x: _log32(x)
    return lambda x: math.log(x)


def _reinterpreted(kind, of, pattern):
    """A function that takes the bits of a number of type `of` for one of `kind`."""

    @intrinsic
    def function(typing, x):
        if types.unliteral(x) != of:
            return None
        return kind(of), lambda context, builder, signature, args: builder.bitcast(
            args[0], pattern
        )

    return function


_float_of = _reinterpreted(types.float32, types.int32, ir.FloatType())
_bits_of = _reinterpreted(types.int32, types.float32, ir.IntType(32))


@njit(forceinline=True)
def _power_of_2(n):
    return _float_of(int32((n + 127) << 23))


@njit(forceinline=True, fastmath={"contract"})
def _exp32(x):
    """exp(x) = 2^n exp(r) with n whole and r = x - n log 2 at most half of log 2.

    The Taylor series to degree 7 leaves r^8 / 8! < 6e-9 (Cody and Waite 1980,
    chapter 6).
    """
    inside = x if x < float32(89) else float32(89)  # from there on it is infinite
    inside = inside if inside > float32(-104) else float32(-104)  # or 0
    n = (inside * float32(LOG2_E) + float32(ROUND)) - float32(ROUND)
    r = inside - n * float32(LOG_2_HIGH)
    r = r - n * float32(LOG_2_LOW)
    p = float32(1 / 5040)
    p = p * r + float32(1 / 720)
    p = p * r + float32(1 / 120)
    p = p * r + float32(1 / 24)
    p = p * r + float32(1 / 6)
    p = p * r + float32(1 / 2)
    p = p * r * r + r + float32(1)
    whole = int32(n)
    half = whole >> 1  # 2^n in two factors: n = 128 and subnormal results need it
    y = p * _power_of_2(half) * _power_of_2(whole - half)
    return y if x == x else x


@njit(forceinline=True, fastmath={"contract"})
def _log32(x):
    """log(x) = e log 2 + 2 atanh(s) with x = 2^e m, s = (m - 1) / (m + 1).

    m is within a factor sqrt 2 of 1, so s^2 < 0.03, and the series to s^11 suffices.
    """
    tiny = x < float32(2.0**-126)
    scaled = x * float32(2.0**23) if tiny else x
    bits = _bits_of(scaled)
    e = (bits >> 23) - 127 - (23 if tiny else 0)
    m = _float_of(int32((bits & 0x7FFFFF) | 0x3F800000))
    large = m > float32(math.sqrt(2))
    m = m * float32(0.5) if large else m
    e = float32(e + 1 if large else e)
    s = (m - float32(1)) / (m + float32(1))
    z = s * s
    p = float32(2 / 11)
    p = p * z + float32(2 / 9)
    p = p * z + float32(2 / 7)
    p = p * z + float32(2 / 5)
    p = p * z + float32(2 / 3)
    p = s * float32(2) + s * z * p
    y = e * float32(LOG_2_HIGH) + (p + e * float32(LOG_2_LOW))
    y = y if x < float32(math.inf) else x  # infinity, and what is no number
    y = y if x > float32(0) or x != x else float32(math.nan)
    return float32(-math.inf) if x == float32(0) else y


# ------------------------------------------------------------------ integer division
# Processors divide integers one at a time, float64 numbers eight at a time. The
# quotient of two rounded numbers is off by at most 2^11 for 64-bit integers, which the
# quotient of what is left sets right, up to the rounding towards minus infinity.


def divide(a, b):
    """a // b; in compiled code only."""
    raise NotImplementedError


def modulo(a, b):
    """a % b; in compiled code only."""
    raise NotImplementedError


def _signed(a, b):
    kinds = types.unliteral(a), types.unliteral(b)
    return all(isinstance(k, types.Integer) and k.signed for k in kinds)


@overload(divide)
def _divide(a, b):
    if _signed(a, b):
        return lambda a, b: _quotient_and_rest(int64(a), int64(b))[0]
    return lambda a, b: a // b


@overload(modulo)
def _modulo(a, b):
    if _signed(a, b):
        return lambda a, b: _quotient_and_rest(int64(a), int64(b))[1]
    return lambda a, b: a % b


@njit(forceinline=True)
def _quotient_and_rest(a, b):
    divisor = float64(
        b if b != 0 else 1
    )  # by zero: zero, as Numba's with NumPy's rules
    quotient = int64(float64(a) / divisor)
    rest = a - quotient * b
    more = int64(float64(rest) / divisor)
    quotient += more
    rest -= more * b
    below = int64((rest != 0) & ((rest ^ b) < 0))
    quotient -= below
    rest += below * b
    return (quotient, rest) if b != 0 else (int64(0), int64(0))
