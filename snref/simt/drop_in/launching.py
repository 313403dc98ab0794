"""`@cuda.jit` and launches: each kernel goes to `simt.compile` with NumPy arrays.

A kernel is compiled by `simt` at its first launch; options of `@cuda.jit` that steer
the GPU compiler are taken and have no effect.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any

import numba
import numpy as np
from numba import cuda
from numba.core import sigutils, types
from numba.core.registry import cpu_target
from numba.core.serialize import ReduceMixin
from numba.cuda.args import ArgHint, In
from numba.cuda.errors import missing_launch_config_msg, normalize_kernel_dimensions
from numba.np import numpy_support

from snref.simt.limits import within_limits

from .arrays import array_at, check_contiguous, on_host
from .devices import ATTRIBUTES
from .refusals import refuse, user_line
from .written import give_source

Dimensions = tuple[int, int, int]
Function = Callable[..., Any]
Compiler = Callable[[Function], Any]  # simt.compile or simt.check


class Kernel(ReduceMixin):  # type: ignore[misc]
    """A kernel: `kernel[grid, block, stream, shared_bytes](*args)` launches it."""

    __name__: str

    def __init__(
        self,
        function: Function,
        signatures: Sequence[Any],
        run: Compiler,
        extensions: Sequence[Any] = (),
    ):
        functools.update_wrapper(self, function)
        self.py_func = function
        self.declared = [tuple(sigutils.normalize_signature(s)[0]) for s in signatures]
        self.extensions = list(extensions)
        self.specialized = False
        self.specializations: dict[tuple[Any, ...], Kernel] = {}
        self._run = run

    @functools.cached_property
    def compiled(self) -> Any:
        """What `simt` makes of the kernel, at its first launch."""
        return self._run(self.py_func)

    @functools.cached_property
    def cooperative(self) -> bool:
        """Whether the grid synchronises: `cg.this_grid().sync()`."""
        return "this_grid" in _names(self.py_func)

    @property
    def overloads(self) -> dict[tuple[Any, ...], "Overload"]:
        """What has been compiled, by the types of the arguments."""
        launched = [] if self.declared else self.compiled.modules.values()
        types = self.declared or [module.types for module in launched]
        return {t: Overload(self) for t in types}

    @property
    def signatures(self) -> list[tuple[Any, ...]]:
        """The types of arguments that the kernel has been compiled for."""
        return list(self.overloads)

    def __getitem__(self, configuration: Any) -> "Launch":
        if not isinstance(configuration, tuple) or len(configuration) not in (2, 3, 4):
            raise ValueError("must specify at least the griddim and blockdim")
        return self.configure(*configuration)

    def configure(
        self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> "Launch":
        """Return a launch configuration; `sharedmem` is dynamic shared memory in bytes.

        Raises ValueError or TypeError for dimensions that are not 1 to 3 integers, and
        KernelError where CUDA's limits forbid them.
        """
        grid, block = normalize_kernel_dimensions(griddim, blockdim)
        _check_limits(self.__name__, grid, block)
        return Launch(self, grid, block, stream, sharedmem)

    def forall(
        self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0
    ) -> Function:
        """Return a launch of at least `ntasks` threads, `tpb` a block (default 128)."""
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        if ntasks == 0:
            return lambda *args: None
        block = tpb or (ntasks if self.cooperative else 128)
        return self[math.ceil(ntasks / block), block, stream, sharedmem]

    def specialize(self, *args: Any) -> "Kernel":
        """Return the kernel for the types of these arguments, always the same one."""
        if self.specialized or self.declared:
            raise RuntimeError("Dispatcher already specialized")
        types = tuple(map(_type_of, args))
        if types not in self.specializations:
            new = Kernel(self.py_func, [types], self._run, self.extensions)
            new.specialized = True
            self.specializations[types] = new
        return self.specializations[types]

    def compile(self, signature: Any) -> "Overload":
        """Return the overload; it is compiled when a launch tells the block's shape."""
        return Overload(self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise ValueError(missing_launch_config_msg)

    def inspect_asm(self, *args: Any, **options: Any) -> Any:
        """Refused, with all that asks about GPU code."""
        refuse(self.__name__, "gpu-binary")

    inspect_llvm = inspect_sass = inspect_sass_cfg = inspect_asm
    inspect_types = get_regs_per_thread = get_local_mem_per_thread = inspect_asm
    get_const_mem_size = get_shared_mem_per_block = inspect_asm

    def get_max_threads_per_block(self, signature: Any = None) -> Any:
        """Return CUDA's limit, 1024; without a signature, by the types of arguments."""
        if signature is not None or self.specialized:
            return ATTRIBUTES["MAX_THREADS_PER_BLOCK"]
        return {t: o.max_threads_per_block for t, o in self.overloads.items()}

    def _reduce_states(self) -> dict[str, Any]:
        """What a copy of the kernel in another process is made from."""
        return {
            "function": self.py_func,
            "signatures": self.declared,
            "run": self._run,
            "extensions": self.extensions,
        }

    @classmethod
    def _rebuild(cls, **state: Any) -> "Kernel":
        return cls(**state)


@dataclass(frozen=True)
class Overload:
    """A kernel for one tuple of argument types: what a program may ask about it."""

    kernel: Kernel
    max_threads_per_block = ATTRIBUTES["MAX_THREADS_PER_BLOCK"]

    @property
    def cooperative(self) -> bool:
        """Whether the grid synchronises."""
        return self.kernel.cooperative

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """As many as make one block: as such a cooperative grid runs."""
        _, block = normalize_kernel_dimensions(1, blockdim)
        most, threads = ATTRIBUTES["MAX_THREADS_PER_BLOCK"], int(math.prod(block))
        return int(max(1, most // threads))


class Launch:
    """A kernel with its launch configuration: call it with the kernel's arguments."""

    def __init__(
        self,
        kernel: Kernel,
        grid: Dimensions,
        block: Dimensions,
        stream: Any,
        sharedmem: int,
    ) -> None:
        self.dispatcher, self.stream, self.sharedmem = kernel, stream, sharedmem
        self.griddim, self.blockdim = grid, block

    def __call__(self, *args: Any) -> None:
        kernel = self.dispatcher
        afterwards: list[Function] = []  # what extensions have to do after the launch
        for extension in reversed(kernel.extensions):
            args = tuple(
                extension.prepare_args(
                    _type_of(a), a, stream=self.stream, retr=afterwards
                )[1]
                for a in args
            )
        values = [_value(a) for a in args]
        if kernel.declared:
            values = _fit(kernel, values)
        grid, block = self.griddim, self.blockdim
        if kernel.cooperative and math.prod(grid) > 1:
            grid, block = _one_block(kernel, grid, block)
        kernel.compiled[grid, block, self.stream, self.sharedmem](*values)
        for do in afterwards:
            do()


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
        refuse(f"{kernel.__name__}[{grid}, {block}]", "grid-sync")
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


def make_jit(run: Compiler) -> Function:
    """`cuda.jit` whose kernels run through `simt.compile` or `simt.check`."""

    def jit(
        func_or_sig: Any = None,
        device: bool = False,
        link: Sequence[Any] = (),
        extensions: Sequence[Any] = (),
        **gpu_options: Any,
    ) -> Any:
        """Make a kernel, or with `device=True` a device function, of a function.

        May be given signatures first, one or a list, and is then a decorator. Options
        of the GPU compiler (opt, fastmath, lineinfo, max_registers ...) do nothing.
        """
        if link:
            refuse("cuda.jit(link=...)", "foreign-code")
        if func_or_sig is None:
            signatures = []
        elif sigutils.is_signature(func_or_sig):
            signatures = [func_or_sig]
        elif isinstance(func_or_sig, list):
            signatures = func_or_sig
        else:
            return decorate(func_or_sig, device, [], extensions)
        return lambda f: decorate(f, device, signatures, extensions)

    def decorate(
        function: Any,
        device: bool,
        signatures: Sequence[Any],
        extensions: Sequence[Any],
    ) -> Any:
        function = getattr(function, "py_func", function)
        if isinstance(function, FunctionType):
            give_source(function)
        if signatures:  # a GPU's code is made now
            function = _frozen(function)
        if device:  # as Numba knows it: other jitted functions may call it, too
            dispatcher = numba.njit(function, error_model="numpy")
            dispatcher.cuda_signatures = signatures
            return dispatcher
        return Kernel(function, signatures, run, extensions)

    return jit


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


def _check_limits(name: str, grid: Dimensions, block: Dimensions) -> None:
    if not within_limits(grid, block):
        refuse(f"{name}[{grid}, {block}]", "launch-limits")


def _value(argument: Any) -> Any:
    """What the kernel gets: host arrays themselves, as if copied in and out."""
    if isinstance(argument, tuple):
        return tuple(_value(a) for a in argument)
    if isinstance(argument, In):  # copied in only
        value = on_host(argument.value)
        return value.copy() if value is argument.value else value
    if isinstance(argument, ArgHint):
        argument = argument.value
    if isinstance(argument, np.ndarray):
        check_contiguous(argument)
    value = on_host(argument)
    if getattr(value, "dtype", None) == np.float16:
        refuse("a launch", "half-precision")
    return value


def _type_of(argument: Any) -> Any:
    """Numba's type of an argument, or the type that was given in its place."""
    if isinstance(argument, types.Type):
        return argument
    return numba.typeof(on_host(argument))


def _fit(kernel: Kernel, values: list[Any]) -> list[Any]:
    """Numbers as the types of the declared signature that fits best.

    TypeError if none fits, or two fit equally well.
    """
    given = [numba.typeof(v) for v in values]
    for i, wanted in enumerate(zip(*kernel.declared, strict=False)):
        if any(isinstance(w, types.CPointer) for w in wanted):  # fits any address
            given[i] = wanted[0]
    cases = [types.void(*s) for s in kernel.declared]
    best = cpu_target.typing_context.resolve_overload(
        kernel.py_func, cases, given, {}, allow_ambiguous=False
    )
    if best is None:
        raise TypeError(
            f"{user_line()}: {kernel.__name__}: No matching definition for argument "
            f"type(s) {', '.join(map(str, given))}: it was declared for "
            f"{' and '.join(map(str, kernel.declared))}"
        )
    return [_as_type(t, v) for t, v in zip(best.args, values, strict=True)]


def _as_type(wanted: Any, value: Any) -> Any:
    if isinstance(wanted, types.CPointer):
        return array_at(value, numpy_support.as_dtype(wanted.dtype))
    if isinstance(wanted, types.Number):
        return np.asarray(value).astype(numpy_support.as_dtype(wanted))[()]  # wraps
    return value
