"""float16 for Numba's CPU target, as on a GPU: every operation rounds to a half.

In memory a half is 16 bits; in a register it is a float32 that 11 bits suffice for. So
comparisons and casts to wider types are those of float32. Sums, products, quotients
and roots of float32 that are rounded again to a half are the nearest half, since
float32 has more than twice its digits (Figueroa 1995). What a mixed operation results
in follows Numba's rule for GPUs: float16 with float16, int8 or bool is float16.
"""

# mypy: ignore-errors

import math
import operator
from contextlib import suppress

import numpy as np
from llvmlite import ir
from numba import float64, njit, types
from numba.core import boxing, config, imputils, pythonapi
from numba.core.datamodel import default_manager, models
from numba.core.pythonapi import NativeValue
from numba.core.registry import cpu_target
from numba.core.typeconv import Conversion
from numba.core.typing import templates
from numba.core.typing.templates import AbstractTemplate, signature

float16 = types.float16

_F32, _F64 = ir.FloatType(), ir.DoubleType()
_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_MORE = 13  # digits of float32 behind those of a half
_WIDER = 2.0**112  # between the smallest normal numbers of the two
_INFINITY = 0x7F800000  # as bits of float32
_SIGN = 0x80000000


class _Model(models.PrimitiveModel):
    """A float32 in registers, 16 bits in memory. A copy keeps every bit of a NaN."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, _F32)

    def get_data_type(self):
        return _I16

    def as_data(self, builder, value):
        bits = builder.bitcast(value, _I32)
        size = builder.and_(bits, _I32(_SIGN - 1))
        # a subnormal half becomes a subnormal float32: the digits have their places
        scaled = builder.bitcast(builder.fmul(value, _F32(1 / _WIDER)), _I32)
        finite = builder.icmp_unsigned("<", size, _I32(_INFINITY))
        digits = builder.lshr(builder.select(finite, scaled, bits), _I32(_MORE))
        digits = builder.and_(digits, _I32(0x7FFF))
        sign = builder.and_(builder.lshr(bits, _I32(16)), _I32(0x8000))
        return builder.trunc(builder.or_(sign, digits), _I16)

    def from_data(self, builder, data):
        bits = builder.zext(data, _I32)
        size = builder.shl(builder.and_(bits, _I32(0x7FFF)), _I32(_MORE))
        scaled = builder.fmul(builder.bitcast(size, _F32), _F32(_WIDER))
        finite = builder.icmp_unsigned("<", size, _I32(0x1F << 23))
        special = builder.or_(size, _I32(_INFINITY))
        size = builder.select(finite, builder.bitcast(scaled, _I32), special)
        sign = builder.shl(builder.and_(bits, _I32(0x8000)), _I32(16))
        return builder.bitcast(builder.or_(sign, size), _F32)


def _rounded(builder, x):
    """The half next to a float32, the even one of two as near."""
    bits = builder.bitcast(x, _I32)
    sign = builder.and_(bits, _I32(_SIGN))
    size = builder.xor(bits, sign)
    odd = builder.and_(builder.lshr(size, _I32(_MORE)), _I32(1))
    below = (1 << _MORE) - 1
    up = builder.add(size, builder.add(odd, _I32(below >> 1)))
    near = builder.and_(up, _I32(~below))
    # below 2^-14 halves are 2^-24 apart, as float32 numbers from 0.5 to 1
    half = _F32(0.5)
    moved = builder.fsub(builder.fadd(builder.bitcast(size, _F32), half), half)
    small = builder.icmp_unsigned("<", size, _I32(_bits(2.0**-14)))
    near = builder.select(small, builder.bitcast(moved, _I32), near)
    over = builder.icmp_unsigned(">", near, _I32(_bits(65504)))
    near = builder.select(over, _I32(_INFINITY), near)
    number = builder.icmp_unsigned("<=", size, _I32(_INFINITY))
    nan = builder.or_(size, _I32(1 << 22))  # a digit that a half has, too
    near = builder.select(number, near, nan)
    return builder.bitcast(builder.or_(near, sign), _F32)


def _bits(x):
    return int(np.float32(x).view(np.uint32))


def _rounded_once(builder, x):
    """The half next to a float64: by way of a float32 whose last digit is 1 if digits
    were cut off, so that it lies on the same side of a tie."""
    bits = builder.bitcast(x, _I64)
    below = (1 << 29) - 1
    rest = builder.icmp_unsigned("!=", builder.and_(bits, _I64(below)), _I64(0))
    kept = builder.and_(bits, _I64(~below))
    kept = builder.or_(kept, builder.shl(builder.zext(rest, _I64), _I64(29)))
    return _rounded(builder, builder.fptrunc(builder.bitcast(kept, _F64), _F32))


# ------------------------------------------------------------------ for Numba
# Its handlers of types are found by the type's class, and float16's is that of float32.
# The rest goes into registries of the CPU target only.

_made = imputils.Registry("half")
_types = templates.Registry()


def _model(manager, kind):
    return (_Model if kind == float16 else models.FloatModel)(manager, kind)


def _box(kind, value, c):
    if kind != float16:
        return boxing.box_float(kind, value, c)
    return boxing.box_float(types.float32, value, c)


def _unbox(kind, value, c):
    if kind != float16:
        return boxing.unbox_float(kind, value, c)
    wide = boxing.unbox_float(float64, value, c)
    return NativeValue(_rounded_once(c.builder, wide.value), is_error=wide.is_error)


default_manager.register(types.Float, _model)
pythonapi._boxers.functions[types.Float] = _box
pythonapi._unboxers.functions[types.Float] = _unbox


@_made.lower_cast(float16, types.Float)
def _widen(context, builder, kind, wanted, value):
    return value if wanted == types.float32 else builder.fpext(value, _F64)


@_made.lower_cast(types.Float, float16)
def _narrow(context, builder, kind, wanted, value):
    return (_rounded if kind == types.float32 else _rounded_once)(builder, value)


@_made.lower_cast(types.Integer, float16)
@_made.lower_cast(types.IntegerLiteral, float16)
def _of_integer(context, builder, kind, wanted, value):
    convert = builder.sitofp if kind.signed else builder.uitofp
    return _rounded_once(builder, convert(value, _F64))  # from 2^53 on it is infinite


@_made.lower_cast(float16, types.Integer)
def _to_integer(context, builder, kind, wanted, value):
    """The nearest integer, as Numba has it for GPUs (it cuts the digits of wider floats
    off), or the least or largest one. A NaN is 0.
    """
    nearest = builder.module.declare_intrinsic("llvm.rint", [_F32])
    out = context.get_value_type(wanted)
    name = f"llvm.fpto{'s' if wanted.signed else 'u'}i.sat"
    convert = builder.module.declare_intrinsic(
        name, [out, _F32], ir.FunctionType(out, [_F32])
    )
    return builder.call(convert, [builder.call(nearest, [value])])


class _Operator(AbstractTemplate):
    """Two numbers of which one is float16 and the other no wider."""

    result = float16

    def generic(self, args, kws):
        if len(args) == 2 and float16 in args:
            other = args[1] if args[0] == float16 else args[0]
            wide = self.context.can_convert(other, float16)
            if wide is not None and wide <= Conversion.safe:
                return signature(self.result, float16, float16)


class _Comparison(_Operator):
    result = types.boolean


class _Unary(AbstractTemplate):
    """A function that has a result of float16 for a float16."""

    def generic(self, args, kws):
        if args == (float16,):
            return signature(float16, float16)


def _typed(template, *functions):
    """Add the typing rule to the functions, before those for all of Numba's targets."""
    for f in functions:
        own = {"key": f, "metadata": {"target": "cpu"}}
        _types.register_global(f)(type(template.__name__, (template,), own))


def _arithmetic(name, *operators):
    _typed(_Operator, *operators)

    def build(context, builder, signature, args):
        return _rounded(builder, getattr(builder, name)(*args))

    for o in operators:
        _made.lower(o, float16, float16)(build)


_arithmetic("fadd", operator.add, operator.iadd)
_arithmetic("fsub", operator.sub, operator.isub)
_arithmetic("fmul", operator.mul, operator.imul)
_arithmetic("fdiv", operator.truediv, operator.itruediv)
_typed(_Comparison, operator.eq, operator.ne, operator.lt, operator.le)
_typed(_Comparison, operator.gt, operator.ge)
_typed(_Unary, operator.neg, abs, float)


@_made.lower(float, float16)
def _same(context, builder, signature, args):
    return args[0]


# ------------------------------------------------------------------ cuda.fp16
# They run as Python, too: for the reference interpreter.


def _of_one(function):
    """A function of float64, rounded to a half."""
    return njit(lambda x: float16(function(float64(float16(x)))))


def _of_two(function):
    return njit(lambda a, b: function(float16(a), float16(b)), error_model="numpy")


hneg = _of_one(np.negative)
habs = _of_one(np.fabs)
hsin = _of_one(np.sin)
hcos = _of_one(np.cos)
hlog = _of_one(np.log)
hlog2 = _of_one(np.log2)
hlog10 = _of_one(np.log10)
hexp = _of_one(np.exp)
hexp2 = _of_one(np.exp2)
hfloor = _of_one(np.floor)
hceil = _of_one(np.ceil)
hsqrt = _of_one(np.sqrt)
hrcp = _of_one(np.reciprocal)
hrint = _of_one(np.rint)
htrunc = _of_one(np.trunc)
hrsqrt = njit(lambda x: float16(np.reciprocal(np.sqrt(float64(float16(x))))))
hexp10 = njit(lambda x: float16(np.power(10.0, float64(float16(x)))))

hadd = _of_two(operator.add)
hsub = _of_two(operator.sub)
hmul = _of_two(operator.mul)
hdiv = _of_two(operator.truediv)
heq = _of_two(operator.eq)
hne = _of_two(operator.ne)
hlt = _of_two(operator.lt)
hle = _of_two(operator.le)
hgt = _of_two(operator.gt)
hge = _of_two(operator.ge)
hmax = njit(lambda a, b: float16(a) if float16(a) > float16(b) else float16(b))
hmin = njit(lambda a, b: float16(a) if float16(a) < float16(b) else float16(b))


@njit
def hfma(a, b, c):
    """a * b + c with one rounding: float64 holds what decides it."""
    return float16(float64(float16(a)) * float64(float16(b)) + float64(float16(c)))


def _in_math(function, of_half):
    """Make `math`'s function of a float16 the one of `cuda.fp16`."""
    _typed(_Unary, function)

    @_made.lower(function, float16)
    def build(context, builder, signature, args):
        return context.compile_internal(builder, of_half.py_func, signature, args)


_in_math(math.sin, hsin)
_in_math(math.cos, hcos)
_in_math(math.log, hlog)
_in_math(math.log2, hlog2)
_in_math(math.log10, hlog10)
_in_math(math.exp, hexp)
_in_math(math.floor, hfloor)
_in_math(math.ceil, hceil)
_in_math(math.sqrt, hsqrt)
_in_math(math.fabs, habs)
_in_math(math.trunc, htrunc)

# Numba registers what GPUs do with float16 for all targets: have it come before.
# Numba's simulator does not have it.
with suppress(ImportError):
    if not config.ENABLE_CUDASIM:
        import numba.cuda.cudaimpl  # noqa: F401
cpu_target.target_context.refresh()
cpu_target.target_context.install_registry(_made)
cpu_target.typing_context.install_registry(_types)
