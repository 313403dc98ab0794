"""Launches: Numba's own `@cuda.jit` and dispatcher, with kernels of `simt`.

Numba's dispatcher chooses the overload for the arguments and makes a `Kernel` for their
types; that one goes to `simt.compile` with NumPy arrays at its first launch. Options of
`@cuda.jit` that steer the GPU compiler are taken and have no effect.
"""

import functools
import inspect
import math
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba import cuda
from numba.core import config, sigutils, types
from numba.core.errors import (
    NumbaError,
    NumbaPerformanceWarning,
    TypingError,
    UnsupportedBytecodeError,
)
from numba.core.registry import cpu_target
from numba.core.serialize import ReduceMixin
from numba.cuda.args import ArgHint, In
from numba.cuda.cudadrv.devicearray import sentry_contiguous
from numba.cuda.descriptor import cuda_target
from numba.cuda.errors import normalize_kernel_dimensions
from numba.np import numpy_support

from snref.simt import KernelError
from snref.simt.infer import in_words
from snref.simt.limits import within_limits
from snref.simt.run import kind_of

from .arrays import array_at, on_host
from .devices import ATTRIBUTES
from .overloading import implemented
from .refusals import refuse, user_line
from .typed import typed
from .written import give_source

MODE = "snref_mode"  # the name of the option
Dimensions = tuple[int, int, int]
Function = Callable[..., Any]
Compiler = Callable[[Function], Any]  # simt.compile or simt.check


class Kernel(ReduceMixin):  # type: ignore[misc]
    """A kernel for one tuple of argument types, in place of Numba's `_Kernel`.

    Numba's own dispatcher makes it, chooses among several, and calls `launch`; what
    Numba asks of it besides has Numba's names.
    """

    run: Compiler  # of the mode in force; the mode of its decoration is an option
    objectmode = False
    entry_point = None  # of machine code, for a GPU

    def __init__(
        self, py_func: FunctionType, argtypes: tuple[Any, ...], **options: Any
    ):
        if options.get("device"):
            raise RuntimeError("Cannot compile a device function as a kernel")
        self.py_func, self.argument_types = py_func, argtypes
        self.mode, self.options = options.pop(MODE, self.run), options
        self.entry_name = py_func.__name__
        self.signature = types.void(*argtypes)
        self.fitting: set[Any] = set()  # kinds of arguments that are known to fit

    @functools.cached_property
    def compiled(self) -> Any:
        """What `simt` makes of the kernel, at its first launch."""
        function = implemented(self.py_func, self.argument_types)
        return self.mode(SimpleNamespace(py_func=function, targetoptions=self.options))

    @functools.cached_property
    def cooperative(self) -> bool:
        """Whether the grid synchronises: `cg.this_grid().sync()`."""
        return "this_grid" in _names(self.py_func)

    @functools.cached_property
    def _type_annotation(self) -> Any:
        return typed(self.py_func, types.void, self.argument_types).type_annotation

    @property
    def type_annotation(self) -> Any:
        """What Numba's type inference says; TypingError where a GPU would refuse."""
        return self._type_annotation

    @property
    def codegen(self) -> Any:
        """What Numba's file cache (`cache=True`) tells GPUs apart by."""
        return cuda_target.target_context.codegen()

    def bind(self) -> None:
        """Nothing to do: the code for a block's shape is made at a launch."""

    max_threads_per_block = ATTRIBUTES["MAX_THREADS_PER_BLOCK"]

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """As many as make one block: as such a cooperative grid runs."""
        _, block = normalize_kernel_dimensions(1, blockdim)
        return int(max(1, self.max_threads_per_block // math.prod(block)))

    def inspect_types(self, file: Any = None) -> None:
        """Print the source with the types that Numba infers."""
        print(self.entry_name, self.argument_types, file=file)
        print(self.type_annotation, file=file)

    def _on_a_gpu(self, *args: Any) -> Any:
        """Refused, with all that asks about GPU code."""
        refuse(self.entry_name, "gpu-binary")

    inspect_asm = inspect_llvm = inspect_sass = inspect_sass_cfg = _on_a_gpu
    regs_per_thread = local_mem_per_thread = property(_on_a_gpu)
    const_mem_size = shared_mem_per_block = property(_on_a_gpu)

    @property
    def _codelibrary(self) -> SimpleNamespace:
        """What the dispatcher asks to choose a block size: see `Context`."""
        return SimpleNamespace(get_cufunc=lambda: self, _linking_files=set())

    def launch(
        self,
        args: Any,
        griddim: Dimensions,
        blockdim: Dimensions,
        stream: Any = 0,
        sharedmem: int = 0,
    ) -> None:
        """Run the kernel."""
        grid, block = griddim, blockdim
        if not within_limits(grid, block):
            refuse(f"{self.entry_name}[{grid}, {block}]", "launch-limits")
        kinds = self.argument_types
        if len(args) != len(kinds):
            raise _no_match(self, args)
        afterwards: list[Function] = []  # what extensions have to do after the launch
        prepared = list(zip(kinds, args, strict=True))
        for extension in reversed(self.options.get("extensions") or ()):
            prepared = [
                extension.prepare_args(*p, stream=stream, retr=afterwards)
                for p in prepared
            ]
        if config.CUDA_WARN_ON_IMPLICIT_COPY:
            _warn_of_copies(a for _, a in prepared)
        values = [_value(a) for _, a in prepared]
        wanted = tuple(kind for kind, _ in prepared)
        like = wanted, *map(kind_of, values)
        if like not in self.fitting:
            if not all(map(_fits, values, wanted)):
                raise _no_match(self, args)
            self.fitting.add(like)
        values = list(map(_as_type, wanted, values))
        if self.cooperative and math.prod(grid) > 1:
            grid, block = _one_block(self, grid, block)
        try:
            self.compiled[grid, block, stream, sharedmem](*values)
        except KernelError as refusal:
            if self.options.get("debug") and refusal.raises:
                raise _raised(refusal, self.entry_name, grid, block) from None
            self._refuse_as_numba_does(refusal)
            raise
        for do in afterwards:
            do()

    def _refuse_as_numba_does(self, refusal: KernelError) -> None:
        """Raise a TypingError, too, if Numba's type inference does."""
        try:
            _ = self.type_annotation
        except NumbaError as error:
            raise Untyped(refusal, error) from None
        except UnsupportedBytecodeError:  # which tells of no line
            raise refusal from None

    def _reduce_states(self) -> dict[str, Any]:
        """What a copy of the kernel in another process is made from."""
        return {
            "py_func": self.py_func,
            "argtypes": self.argument_types,
            "options": self.options,
        }

    @classmethod
    def _rebuild(
        cls, py_func: FunctionType, argtypes: tuple[Any, ...], options: dict[str, Any]
    ) -> "Kernel":
        return cls(py_func, argtypes, **options)


class Untyped(KernelError, TypingError):  # type: ignore[misc]
    """A kernel that Numba's type inference refuses, too, and so would a GPU."""

    def __init__(self, refusal: KernelError, error: NumbaError):
        TypingError.__init__(self, f"{refusal}\n{error.msg}", highlighting=False)


def _raised(
    ended: KernelError, kernel: str, grid: Dimensions, block: Dimensions
) -> Exception:
    """The exception of the kernel, told as Numba tells it for `debug=True`."""
    assert ended.raises is not None
    kind, arguments = ended.raises
    tid, ctaid = (
        [n // (x * y), n // x % y, n % x]  # z, y, x
        for n, (x, y, _) in ((ended.thread or 0, block), (ended.block or 0, grid))
    )
    place = f"In function {kernel!r}, file {os.path.abspath(ended.file)}, "
    place += f"line {ended.line}, tid={tid} ctaid={ctaid}"
    first, *more = arguments or ("",)
    return kind(f"{place}: {first}" if arguments else place, *more)


def kernels(run: Compiler) -> type[Kernel]:
    """The class of kernels that run through `simt.compile`, `check` or `debug`."""
    return type("Kernel", (Kernel,), {"run": staticmethod(run)})


def _no_match(kernel: Kernel, args: Sequence[Any]) -> TypeError:
    given = "; ".join(in_words(str(numba.typeof(on_host(a)))) for a in args)
    wanted = "; ".join(in_words(str(kind)) for kind in kernel.argument_types)
    return TypeError(
        f"{user_line()}: {kernel.entry_name}: No matching definition for argument "
        f"type(s) {given}. It was declared for {wanted}"
    )


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a launch may hand this value to a kernel declared for that type."""
    given = numba.typeof(value)
    if given == wanted or isinstance(wanted, types.CPointer):
        return True
    if isinstance(wanted, types.Integer):  # on a GPU, too, no float is cut
        return isinstance(given, types.Integer | types.Boolean)
    if isinstance(wanted, types.Float):
        return isinstance(given, types.Number | types.Boolean) and (
            not isinstance(given, types.Complex)
        )
    return cpu_target.typing_context.can_convert(given, wanted) is not None


# What tells blocks apart: a kernel that uses it cannot run as one block.
_OF_BLOCKS = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "laneid", "shared"),
    *("syncthreads", "syncthreads_and", "syncthreads_or", "syncthreads_count"),
    *("syncwarp", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"),
    *("all_sync", "any_sync", "eq_sync", "ballot_sync", "activemask"),
)


def _one_block(
    kernel: Kernel, grid: Dimensions, block: Dimensions
) -> tuple[Dimensions, Dimensions]:
    """The same threads as a single block: `cuda.grid` gives them the same positions."""
    x, y, z = (g * b for g, b in zip(grid, block, strict=True))
    merged = x, y, z
    too_large = math.prod(merged) > ATTRIBUTES["MAX_THREADS_PER_BLOCK"]
    if too_large or _names(kernel.py_func) & set(_OF_BLOCKS):
        refuse(f"{kernel.entry_name}[{grid}, {block}]", "grid-sync")
    return (1, 1, 1), merged


def _names(function: Function) -> set[str]:
    """Names of `numba.cuda` and of attributes in a function and those it calls."""
    found: set[str] = set()
    seen: set[Function] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        seen.add(current)
        outside = inspect.getclosurevars(current)
        objects = [*outside.globals.values(), *outside.nonlocals.values()]
        found |= set(current.__code__.co_names)
        found |= {n for n in _OF_BLOCKS if any(o is getattr(cuda, n) for o in objects)}
        called = {o.py_func for o in objects if hasattr(o, "py_func")}
        pending += called - seen
    return found


def make_jit(numbas: Function, run: Compiler) -> Function:
    """`cuda.jit` of Numba, for kernels that run through `run`."""

    @functools.wraps(numbas)
    def jit(
        func_or_sig: Any = None, device: bool = False, link: Any = None, **options: Any
    ) -> Any:
        """Make a kernel, or with `device=True` a device function, of a function.

        May be given signatures first, one or a list, and is then a decorator. Options
        of the GPU compiler (opt, fastmath, lineinfo, max_registers ...) do nothing.
        """
        if link:
            refuse("cuda.jit(link=...)", "foreign-code")
        declared = sigutils.is_signature(func_or_sig)
        signatures = [func_or_sig] if declared else func_or_sig
        if not isinstance(signatures, list):
            signatures = []
        given = func_or_sig if signatures else _source(func_or_sig)
        made = numbas(given, device=device, **{MODE: run}, **options)
        if func_or_sig is not None and not signatures:
            return made

        def decorate(function: Any) -> Any:
            function = _source(function)
            # a GPU's code is made now
            dispatcher = made(_frozen(function) if signatures else function)
            if device:
                dispatcher.cuda_signatures = signatures
            else:
                for kernel in dispatcher.overloads.values():
                    _ = kernel.type_annotation
            return dispatcher

        return decorate

    return jit


def _source(function: Any) -> Any:
    """The function itself, behind a kernel, a device function or `njit`."""
    function = getattr(function, "py_func", function)
    if isinstance(function, FunctionType):
        give_source(function)
    return function


def _frozen(function: FunctionType) -> FunctionType:
    """The function with its global names as they are now, arrays included."""
    names = {*function.__code__.co_names, *function.__code__.co_freevars}
    scope = {
        n: value.copy() if n in names and isinstance(value, np.ndarray) else value
        for n, value in function.__globals__.items()
    }
    cells = tuple(map(_frozen_cell, function.__closure__ or ()))
    code, defaults = function.__code__, function.__defaults__
    new = FunctionType(code, scope, function.__name__, defaults, cells)
    functools.update_wrapper(new, function)
    scope.setdefault(function.__name__, new)  # it may call itself
    return new


def _frozen_cell(cell: CellType) -> CellType:
    try:
        return CellType(cell.cell_contents)
    except ValueError:  # of the function's own name: it is bound after decoration
        return cell


def _value(argument: Any) -> Any:
    """What the kernel gets: host arrays themselves, as if copied in and out."""
    if isinstance(argument, tuple):
        parts = [_value(a) for a in argument]
        return getattr(type(argument), "_make", tuple)(parts)  # named: of its own type
    if isinstance(argument, In):  # copied in only
        value = on_host(argument.value)
        return value.copy() if value is argument.value else value
    if isinstance(argument, ArgHint):
        argument = argument.value
    if isinstance(argument, np.ndarray):
        sentry_contiguous(argument)
    return on_host(argument)


def _warn_of_copies(arguments: Iterable[Any]) -> None:
    """Warn, as Numba does if it is asked to, of arrays that a GPU gets a copy of."""
    for a in () if config.DISABLE_PERFORMANCE_WARNINGS else arguments:
        if isinstance(a, np.ndarray) and not hasattr(a, "__cuda_array_interface__"):
            what = "Host array used in CUDA kernel will incur copy overhead"
            warnings.warn(NumbaPerformanceWarning(what), stacklevel=5)


_EXACT = {int: types.int64, float: types.float64, complex: types.complex128}


def _as_type(wanted: Any, value: Any) -> Any:
    if isinstance(wanted, types.CPointer):
        return array_at(value, numpy_support.as_dtype(wanted.dtype))
    if isinstance(wanted, types.Number) and wanted is not _EXACT.get(type(value)):
        return np.asarray(value).astype(numpy_support.as_dtype(wanted))[()]  # wraps
    return value
