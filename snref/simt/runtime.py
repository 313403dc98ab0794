"""What generated modules import: arrays in the frame of a block, CUDA's own functions.

Everything here is compiled by Numba into the generated code.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from math import prod
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, typing
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array, populate_array

from snref.simt import half  # noqa: F401 (float16 is known from here on)

u = numba.uintp  # an index that is never negative: Numba's test for it falls away


def wrap(i, n):
    """The place of element i of n, from the end if it is negative; compiled only."""
    raise NotImplementedError


@overload(wrap)
def _wrap(i, n):
    if isinstance(i, types.Array):  # without dimensions: the number in it
        return lambda i, n: wrap(i[()], n)
    if getattr(types.unliteral(i), "signed", True):
        return lambda i, n: i + n if i < 0 else i
    return lambda i, n: i


# ------------------------------------------------------------------ arrays of a block


def on_stack(shape: tuple[int, ...], dtype: Any) -> Any:
    """A function that makes an array in the caller's stack frame, uninitialised."""
    array = types.Array(dtype, len(shape), "C")

    @intrinsic
    def new(typing):
        def build(context, builder, signature, args):
            item = context.get_data_type(dtype)
            # not cgutils.alloca_once: it fills the array with zeros, element by
            # element, which takes LLVM seconds
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(item, max(prod(shape), 1)))
            memory.align = 64
            data = builder.bitcast(memory, item.as_pointer())
            return _array(context, builder, array, shape, data)

        return array(), build

    return new


def in_buffer(shape: tuple[int, ...], dtype: Any, offset: int) -> Any:
    """A function that makes an array at `offset` bytes of a uint8 array."""
    array = types.Array(dtype, len(shape), "C")

    @intrinsic
    def new(typing, buffer):
        def build(context, builder, signature, args):
            inside = make_array(signature.args[0])(context, builder, args[0])
            data = cgutils.pointer_add(builder, inside.data, offset)
            item = context.get_data_type(dtype).as_pointer()
            return _array(context, builder, array, shape, builder.bitcast(data, item))

        return array(buffer), build

    return new


@intrinsic
def borrowed(typing, a):
    """The array without its owner: handing it to a function counts no references."""

    def build(context, builder, signature, args):
        out = make_array(signature.args[0])(context, builder, args[0])
        for owner in ("meminfo", "parent"):
            setattr(out, owner, cgutils.get_null_value(getattr(out, owner).type))
        return out._getvalue()

    return a(a), build


def _array(context, builder, array, shape, data):
    size = context.get_abi_sizeof(context.get_data_type(array.dtype))
    strides = [size * prod(shape[i + 1 :]) for i in range(len(shape))]

    def pack(numbers):
        constants = [context.get_constant(types.intp, n) for n in numbers]
        return cgutils.pack_array(builder, constants)

    out = make_array(array)(context, builder)
    populate_array(
        out,
        data=data,
        shape=pack(shape),
        strides=pack(strides),
        itemsize=context.get_constant(types.intp, size),
        meminfo=None,  # nobody counts references to it
    )
    return out._getvalue()


# ------------------------------------------------------------------ signatures


def converter(called: str, signatures: list[str]) -> Any:
    """A function that converts a tuple as the signature says that fits it best.

    It returns those that are numbers, and a 0 of the type of the result, or None.
    """
    scope = {**vars(types), "bool": types.boolean}
    cases = [eval(text, scope) for text in signatures]
    cases = [typing.signature(result or types.none, *kinds) for kinds, result in cases]

    @intrinsic
    def convert(context, given):
        kinds = tuple(map(types.unliteral, given))
        case = context.resolve_overload(called, cases, kinds, {})
        if case is None:
            raise TypingError(f"{called} has no signature for {kinds}")
        scalar = types.Number, types.Boolean
        numbers = [i for i, kind in enumerate(case.args) if isinstance(kind, scalar)]
        like = case.return_type if isinstance(case.return_type, scalar) else types.none

        def build(context, builder, signature, args):
            every = cgutils.unpack_tuple(builder, args[0])
            values = [every[i] for i in numbers]
            values.append(context.get_constant_null(like))
            return context.make_tuple(builder, signature.return_type, values)

        kinds = [*(case.args[i] for i in numbers), like]
        return types.Tuple(kinds)(types.Tuple(case.args)), build

    return convert


@intrinsic
def as_type_of(typing, like, value):
    """The value, converted to the type of another one; as it is if that is None."""
    wanted = value if isinstance(like, types.NoneType) else like

    def build(context, builder, signature, args):
        return args[1]

    return wanted(like, wanted), build


# ------------------------------------------------------------------ atomics
# Blocks of a kernel with atomics run one after another, and so do the threads of a run:
# reading and writing is enough. The order of float sums is the order of the threads.


@njit
def atomic_add(a, i, value):
    old = a[i]
    a[i] = old + value
    return old


@njit
def atomic_sub(a, i, value):
    old = a[i]
    a[i] = old - value
    return old


@njit
def atomic_max(a, i, value):
    old = a[i]
    if value > old:  # a NaN on either side leaves it as it is
        a[i] = value
    return old


@njit
def atomic_min(a, i, value):
    old = a[i]
    if value < old:
        a[i] = value
    return old


@njit
def atomic_nanmax(a, i, value):
    old = a[i]
    if value > old or old != old:
        a[i] = value
    return old


@njit
def atomic_nanmin(a, i, value):
    old = a[i]
    if value < old or old != old:
        a[i] = value
    return old


@njit
def atomic_and(a, i, value):
    old = a[i]
    a[i] = old & value
    return old


@njit
def atomic_or(a, i, value):
    old = a[i]
    a[i] = old | value
    return old


@njit
def atomic_xor(a, i, value):
    old = a[i]
    a[i] = old ^ value
    return old


@njit
def atomic_inc(a, i, value):
    old = a[i]
    a[i] = 0 if old >= value else old + 1
    return old


@njit
def atomic_dec(a, i, value):
    old = a[i]
    a[i] = value if old == 0 or old > value else old - 1
    return old


@njit
def atomic_exch(a, i, value):
    old = a[i]
    a[i] = value
    return old


@njit
def atomic_cas(a, i, expected, value):
    old = a[i]
    if old == expected:
        a[i] = value
    return old


@njit
def atomic_compare_and_swap(a, expected, value):
    old = a[0]
    if old == expected:
        a[0] = value
    return old


# ------------------------------------------------------------------ warps
# Which thread's value a shuffle reads, given the number of the thread in its block.


@njit
def shuffle(thread, lane, threads):
    return min((thread & ~31) + (lane & 31), threads - 1)


@njit
def shuffle_up(thread, delta, threads):
    return thread - delta if (thread & 31) >= delta else thread


@njit
def shuffle_down(thread, delta, threads):
    source = thread + delta
    return source if (thread & 31) + delta < 32 and source < threads else thread


@njit
def shuffle_xor(thread, lanes, threads):
    source = thread ^ (lanes & 31)
    return source if source < threads else thread


@njit
def vote_ballot(held, here, mask, thread):
    bits = numba.uint32(0)
    first = thread & ~31
    for lane in range(min(32, held.size - first)):
        if here[first + lane] and held[first + lane] and (mask >> lane) & 1:
            bits |= numba.uint32(1) << numba.uint32(lane)
    return bits


@njit
def vote_any(held, here, mask, thread):
    return vote_ballot(held, here, mask, thread) != 0


@njit
def vote_all(held, here, mask, thread):
    return vote_ballot(held, here, mask, thread) == vote_ballot(
        here, here, mask, thread
    )


@njit
def vote_equal(held, here, mask, thread):
    some = vote_any(held, here, mask, thread)
    return not some or vote_all(held, here, mask, thread)


@njit
def match_any(held, here, mask, thread):
    bits = numba.uint32(0)
    first = thread & ~31
    for lane in range(min(32, held.size - first)):
        asked = here[first + lane] and (mask >> lane) & 1
        if asked and held[first + lane] == held[thread]:
            bits |= numba.uint32(1) << numba.uint32(lane)
    return bits


@njit
def match_all(held, here, mask, thread):
    same = match_any(held, here, mask, thread)
    return same if same == vote_ballot(here, here, mask, thread) else numba.uint32(0)


# ------------------------------------------------------------------ bits and numbers


def _of_bits(operation: str, flags: tuple[bool, ...] = (), same: bool = False) -> Any:
    """A function of an integer's bits by LLVM's name; its result is a 32-bit number,
    or of the integer's own type."""

    @intrinsic
    def bits(typing, x):
        kind = types.unliteral(x)
        if not isinstance(kind, types.Integer):
            return None
        out = kind if same else types.int32

        def build(context, builder, signature, args):
            undefined = [ir.Constant(ir.IntType(1), int(f)) for f in flags]
            value = getattr(builder, operation)(args[0], *undefined)
            return context.cast(builder, value, kind, out)

        return out(kind), build

    return bits


popc = _of_bits("ctpop")
clz = _of_bits("ctlz", (False,))
brev = _of_bits("bitreverse", same=True)
_trailing_zeros = _of_bits("cttz", (False,))


@njit
def ffs(x):
    return _trailing_zeros(x) + 1 if x != 0 else 0


@intrinsic
def fma(typing, a, b, c):
    """a * b + c with one rounding."""
    kind = typing.unify_types(a, b, c)

    def build(context, builder, signature, args):
        return builder.fma(*args)

    return kind(kind, kind, kind), build


@intrinsic
def fmod(typing, x, y):
    """The rest of x / y with the sign of x, which Numba has for GPUs only."""
    single = types.float32 in (x, y) and types.float64 not in (x, y)
    kind = types.float32 if single else types.float64

    def build(context, builder, signature, args):
        return builder.frem(*args)

    return kind(kind, kind), build


def modf(x):
    """The fraction and the whole part of x, both with its sign; compiled only."""
    raise NotImplementedError


@overload(modf)
def _modf(x):
    kind = x if isinstance(x, types.Float) else types.float64

    def parts(x):
        size = np.floor(abs(kind(x)))
        rest = abs(kind(x)) - size if size != math.inf else kind(0)
        return math.copysign(rest, kind(x)), math.copysign(size, kind(x))

    return parts


@njit
def remainder(x, y):
    """x - n y, for the whole number n next to x / y; the even one of two as near."""
    size, by = abs(x), abs(y)
    rest = fmod(size, by)
    other = by - rest
    odd = fmod(size, 2 * by) >= by
    if rest > other or (rest == other and odd):
        rest = -other
    return rest if math.copysign(1.0, x) > 0 else -rest


@intrinsic(prefer_literal=True)
def say(typing, form, values):
    """Print a text with values, as `print(form.format(*values))` does."""

    def build(context, builder, signature, args):
        python = context.get_python_api(builder)
        lock = python.gil_ensure()
        text = python.unserialize(python.serialize_object(form.literal_value + "\n"))
        given = python.from_native_value(
            values, args[1], context.get_env_manager(builder)
        )
        method = python.object_getattr_string(text, "format")
        line = python.call(method, given)
        python.print_object(line)
        for each in (line, method, given, text):
            python.decref(each)
        python.gil_release(lock)
        return context.get_dummy_value()

    return types.none(form, values), build


def round_to(x, digits):
    """round(x, digits) of a float32 computed in float64; in compiled code only."""
    raise NotImplementedError


@overload(round_to)
def _round_to(x, digits):
    if x == types.float32:
        return lambda x, digits: numba.float32(round(numba.float64(x), digits))
    return lambda x, digits: round(x, digits)


@njit
def cbrt(x):
    root = abs(x) ** (1.0 / 3.0)
    if root > 0 and root < math.inf:  # one Newton step: 1 / 3 has been rounded
        root -= (root * root * root - abs(x)) / (3.0 * root * root)
    return math.copysign(root, x)
