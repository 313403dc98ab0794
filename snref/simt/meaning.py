"""What each name of `numba.cuda` is in a thread of the reference interpreter."""

# mypy: ignore-errors

import sys
from collections import namedtuple
from functools import cache
from math import prod
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda, njit
from numba.core.types import Type
from numba.np.numpy_support import as_dtype

from snref.simt import half, libdevice, runtime
from snref.simt.front.vectors import layout
from snref.simt.front.warps import ATOMICS, HALF, PLAIN

Index = namedtuple("Index", "x y z")


def index(number, size):
    """The place of thread `number` in a block of this size, or of a block in a grid."""
    x, y, _ = size
    return Index(number % x, number // x % y, number // (x * y))


_KNOWN = {id(getattr(cuda, n)): n for n in dir(cuda)}
_LIBDEVICE = {f"libdevice.{n}": f for n, f in libdevice.FUNCTIONS.items()}
_KNOWN |= {id(getattr(cuda.libdevice, n[10:])): n for n in _LIBDEVICE}


def with_names(function, thread, grid, block):
    """The function, and those it calls, with the names as they are in this thread."""
    names, made = names_of(thread, grid, block), {}

    def translated(value):
        name = _KNOWN.get(id(value))
        if name in names:
            return names[name]
        if isinstance(value, ModuleType) and value is not np:
            attribute = {"__getattr__": lambda _, n: translated(getattr(value, n))}
            return type(value.__name__, (), attribute)()
        called = getattr(value, "py_func", value)
        return again(called) if isinstance(called, FunctionType) else value

    def again(f):
        if f not in made:
            scope = dict(f.__globals__)
            cells = tuple(CellType() for _ in f.__closure__ or ())
            made[f] = new = FunctionType(f.__code__, scope, f.__name__, None, cells)
            new.__defaults__ = tuple(map(translated, f.__defaults__ or ()))
            named = (f.__kwdefaults__ or {}).items()
            new.__kwdefaults__ = {n: translated(value) for n, value in named}
            used = names_in(f.__code__) & scope.keys()
            scope |= {n: translated(scope[n]) for n in used}
            for cell, old in zip(cells, f.__closure__ or (), strict=True):
                cell.cell_contents = translated(old.cell_contents)
        return made[f]

    return again(function)


def names_in(code):
    """The global names and attributes that the code uses, and the functions in it."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*map(names_in, inner))


def caller():
    """Where the kernel called what called this: code, instruction and line."""
    frame, here = sys._getframe(2), sys._getframe().f_code.co_filename
    while frame.f_code.co_filename == here:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti, frame.f_lineno


def names_of(thread, grid, block):
    """The names of `numba.cuda`, and what they are in this thread."""
    size = prod(block)
    here = thread.number % size
    warp = thread.number - here % 32  # its first thread
    lane, everyone = here % 32, range(thread.number - here, thread.number - here + size)
    inside, outside = thread.inside, thread.outside
    position = [b * n + t for b, n, t in zip(outside, block, inside, strict=True)]
    lengths = [b * n for b, n in zip(grid, block, strict=True)]

    def barrier(value=None):
        return thread.wait(everyone, value).values()

    def lanes(mask=-1, value=None):
        """Wait for the lanes of the mask; what each of them brings."""
        named = tuple(warp + i for i in range(32) if int(mask) >> i & 1)
        given = thread.wait(tuple(n for n in named if n in everyone), value)
        return {n - warp: value for n, value in given.items()}

    def bits(given, value):
        return sum(1 << i for i, other in given.items() if other == value)

    def active():
        given = thread.wait((), True)
        here = {n - warp: True for n in given if 0 <= n - warp < 32}
        return bits(here, True)

    def match_all(mask, value):
        given = lanes(mask, value)
        same = len(set(given.values())) == 1
        return (bits(given, value), True) if same else (0, False)

    def let_others_run(*_):
        thread.wait((thread.number,))

    def atomic(operation):
        def run(*given):
            let_others_run()
            return operation.py_func(*given)

        return run

    def shared(shape, dtype):
        if shape in (0, (0,)):
            dtype, memory = _dtype(dtype), thread.memory["dynamic"]
            return memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)
        where = caller()
        if where not in thread.memory:
            thread.memory[where] = _array(shape, dtype)
        return thread.memory[where]

    def sync_grid():
        thread.wait(range(prod(grid) * size))

    return {
        "threadIdx": inside,
        "blockIdx": outside,
        "blockDim": Index(*block),
        "gridDim": Index(*grid),
        "grid": lambda n: position[0] if n == 1 else tuple(position[:n]),
        "gridsize": lambda n: lengths[0] if n == 1 else tuple(lengths[:n]),
        "laneid": lane,
        "warpsize": 32,
        "activemask": active,
        "lanemask_lt": lambda: (1 << lane) - 1,
        "shared": SimpleNamespace(array=shared),
        "local": SimpleNamespace(array=_array),
        "const": SimpleNamespace(array_like=lambda values: values),
        "syncthreads": lambda: barrier() and None,
        "syncthreads_and": lambda p: all(barrier(p)),
        "syncthreads_or": lambda p: any(barrier(p)),
        "syncthreads_count": lambda p: sum(map(bool, barrier(p))),
        "syncwarp": lambda mask=-1: lanes(mask) and None,
        "shfl_sync": lambda mask, v, n: lanes(mask, v).get(n & 31, v),
        "shfl_up_sync": lambda mask, v, n: lanes(mask, v).get(lane - n, v),
        "shfl_down_sync": lambda mask, v, n: lanes(mask, v).get(lane + n, v),
        "shfl_xor_sync": lambda mask, v, n: lanes(mask, v).get(lane ^ n, v),
        "all_sync": lambda mask, p: all(lanes(mask, p).values()),
        "any_sync": lambda mask, p: any(lanes(mask, p).values()),
        "eq_sync": lambda mask, p: len(set(map(bool, lanes(mask, p).values()))) == 1,
        "ballot_sync": lambda mask, p: bits(lanes(mask, bool(p)), True),
        "match_any_sync": lambda mask, v: bits(lanes(mask, v), v),
        "match_all_sync": match_all,
        "atomic": SimpleNamespace(
            **{n: atomic(getattr(runtime, f"atomic_{n.strip('_')}")) for n in ATOMICS}
        ),
        "threadfence": let_others_run,
        "threadfence_block": let_others_run,
        "threadfence_system": let_others_run,
        "nanosleep": let_others_run,
        "cg": SimpleNamespace(this_grid=lambda: SimpleNamespace(sync=sync_grid)),
        "fp16": SimpleNamespace(**{n: getattr(half, n).py_func for n in HALF}),
        "libdevice": SimpleNamespace(**libdevice.FUNCTIONS),
        **_LIBDEVICE,
        "selp": lambda choice, a, b: a if choice else b,
        **{n: _compiled(n) for n in PLAIN},
        **_VECTORS,
    }


def _dtype(dtype):
    return as_dtype(dtype) if isinstance(dtype, Type) else np.dtype(dtype)


def _array(shape, dtype):
    """A new array. Each byte is 255, so floats are NaN and signed integers -1."""
    size = prod(np.atleast_1d(shape).tolist()) * _dtype(dtype).itemsize
    array = np.full(size, 255, np.uint8).view(_dtype(dtype)).reshape(shape)
    return with_fields(array)


def with_fields(array: Any) -> Any:
    """The array; its elements have attributes if they have fields."""
    return array.view(np.recarray) if array.dtype.fields else array


def _vector(name, kind, size):
    """A vector type: of numbers, and of vectors by their components."""
    fields = namedtuple(name, tuple("xyzw"[:size]))

    def make(*parts):
        each = [p if isinstance(p, tuple) else (p,) for p in parts]
        return fields(*(np.dtype(kind).type(v) for values in each for v in values))

    return make


_LAYOUTS = {n: layout(n) for n in dir(cuda)}
_VECTORS = {n: _vector(n, *found) for n, found in _LAYOUTS.items() if found}


@cache
def _compiled(name):
    """A function of one thread, as the compiled kernel has it."""
    function = getattr(runtime, name)
    return njit(lambda *numbers: function(*numbers))
