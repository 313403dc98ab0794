"""The stages in a row, and the launch of what they make."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from inspect import signature
from itertools import count
from queue import Empty, SimpleQueue
from time import perf_counter
from types import FunctionType, MethodType
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import config

from snref.simt import cache, ir
from snref.simt.emit import emit
from snref.simt.front import front, python_function
from snref.simt.indices import indices
from snref.simt.infer import infer, raised, refusal
from snref.simt.ir import Kernel, Source, listing, located
from snref.simt.limits import LIMITS, SHARED, Three, within_limits
from snref.simt.lockstep import lockstep
from snref.simt.split import split
from snref.simt.storage import storage
from snref.simt.style import Debugging, Style
from snref.simt.uniform import uniform
from snref.simt.waiting import with_ends
from snref.simt.webs import webs

# Unrolling the loop over threads before it can be vectorised makes a register-tiled
# matrix product thirty times slower. LLVM reads its options once a process.
llvm.set_option("snref.simt", "-unroll-full-max-count=8")

Size: TypeAlias = int | Sequence[int]

STAGES = ("front", "webs", "indices", "uniform", "lockstep", "split", "storage", "emit")
_WORTH = 50e-6  # seconds of a core's work that are worth waking a worker
_REMEMBERED = 1000  # kinds of launches of a kernel
_RANGES = 4  # of blocks, for each worker: blocks and cores are not all equally fast


def stages(
    kernel: Any,
    block: Three,
    types: Sequence[Any],
    dynamic: int = 0,
    style: type[Style] = Style,
    assume: bool = True,
) -> dict[str, Any]:
    """What every stage makes of the kernel, by the stage's name.

    `assume`: integer arguments are not negative (see `indices`).
    """
    made: dict[str, Any] = {}
    made["front"] = style.prepared(front(kernel, block, types, dynamic, style.debug))
    made["webs"] = webs(with_ends(made["front"]))
    made["indices"] = indices(made["webs"], assume and not style.exact)
    made["uniform"] = uniform(made["indices"])
    made["lockstep"] = lockstep(made["indices"], made["uniform"])
    shared = uniform(made["lockstep"])
    made["split"] = split(made["lockstep"], shared, style.exact)
    made["storage"] = storage(made["lockstep"], made["split"], shared)
    dtypes = infer(made["lockstep"], made["storage"].slots)
    made["dtypes"] = dtypes
    made["emit"] = emit(made["storage"], made["lockstep"], dtypes, style)
    return made


def show(kernel: Any, block: Size, *arguments: Any, stage: str | None = None) -> str:
    """The text that a stage makes of a kernel; without `stage`, the module that runs.

    `stage` is one of front, webs, indices, uniform, lockstep, split, storage, emit. The
    arguments give the types only.
    """
    if stage is not None and stage not in STAGES:
        raise ValueError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    function = python_function(kernel)
    types = _types(function, arguments)
    with ir.told_of(*_place(function)):
        made = stages(kernel, _three(block), types)[stage or "emit"]
    return "\n".join(listing(made)) + "\n" if stage == "split" else str(made)


class Compiled:
    """A kernel that runs on the CPU: `compiled[grid, block](*arguments)`."""

    style: type[Style] = Style

    def __init__(self, kernel: Any, threads: int | None = None):
        if config.ENABLE_CUDASIM:
            raise RuntimeError("NUMBA_ENABLE_CUDASIM is set: unset it")
        self.function = python_function(kernel)
        if not isinstance(self.function, (FunctionType, MethodType)):
            raise TypeError(f"a kernel is a function written with def, not {kernel!r}")
        options = getattr(kernel, "targetoptions", {})
        debug = options.get("debug") and not options.get("fastmath")
        if debug and self.style is Style:
            self.style = Debugging
        self.threads = threads or os.cpu_count() or 1
        self.modules: dict[Any, Module] = {}
        self.__name__ = getattr(self.function, "__name__", "kernel")
        self.__doc__ = getattr(self.function, "__doc__", None)

    def __getitem__(self, configuration: Any) -> Callable[..., Any]:
        """`grid, block[, stream[, bytes of dynamic shared memory]]`."""
        if not isinstance(configuration, tuple) or len(configuration) < 2:
            raise ValueError("a launch is compiled[grid, block](*arguments)")
        grid, block, *rest = configuration
        grid, block = _three(grid), _three(block)
        if not within_limits(grid, block):
            raise ValueError(f"grid {grid}, block {block}: {LIMITS}")
        dynamic = rest[1] if len(rest) > 1 else 0
        if not isinstance(dynamic, (int, np.integer)) or not 0 <= dynamic <= SHARED:
            problem = f"{dynamic!r} bytes of dynamic shared memory: 0 to {SHARED}"
            raise ValueError(problem)

        def launch(*arguments: Any, **named: Any) -> Any:
            if named or self.function.__defaults__:
                given = signature(self.function).bind(*arguments, **named)
                given.apply_defaults()
                arguments = given.args
            return self.launch(grid, block, int(dynamic), arguments)

        return launch

    def module(self, block: Three, dynamic: int, arguments: Sequence[Any]) -> Module:
        kinds = (block, dynamic, *map(kind_of, arguments))
        found = self.modules.get(kinds)
        if found is None:
            types = _types(self.function, arguments)
            found = Module(self.function, block, dynamic, types, self.style)
            self.modules[kinds] = found
        if any(map(_is_negative, (arguments[i] for i in found.facts["assumed"]))):
            kinds = (*kinds, "any sign")
            careful = self.modules.get(kinds)
            if careful is None:
                types = _types(self.function, arguments)
                careful = Module(
                    self.function, block, dynamic, types, self.style, assume=False
                )
                self.modules[kinds] = careful
            return careful
        return found

    def launch(
        self, grid: Three, block: Three, dynamic: int, arguments: Sequence[Any]
    ) -> Any:
        module = self.module(block, dynamic, arguments)
        blocks = grid[0] * grid[1] * grid[2]
        workers = 1 if module.ordered else min(self.threads, blocks)
        if workers == 1:
            module.run(0, blocks, grid, arguments)
            return
        # as many workers as the last launch like this one would have been worth
        like = grid, *(a.size for a in arguments if isinstance(a, np.ndarray))
        known = module.seconds.get(like)
        if known is not None:
            workers = min(workers, 1 + int(known / _WORTH))
        fresh = not module.code.overloads  # it will compile, too
        seconds = _pool.run(module, blocks, workers, grid, arguments)
        if not fresh:
            if len(module.seconds) > _REMEMBERED:
                module.seconds.clear()
            module.seconds[like] = seconds


class Module:
    """The machine code of a kernel for one block shape and tuple of types."""

    def __init__(
        self,
        function: Any,
        block: Three,
        dynamic: int,
        types: tuple[Any, ...],
        style: type[Style],
        assume: bool = True,
    ):
        def made() -> dict[str, Any]:
            return stages(function, block, types, dynamic, style, assume)

        def read() -> Kernel:
            return front(function, block, types, dynamic, style.debug)

        self.stages, self.read, self.types = made, read, types
        self.seconds: dict[Any, float] = {}  # of cores, by what a launch looked like
        self.stem = self.stem_of(function, block, dynamic, types, style, assume)
        self.place = _place(function)
        with ir.told_of(*self.place):
            module = cache.load(self.stem, lambda: str(made()["emit"]))
        self.code, self.facts = module.launch, module.FACTS
        self.ordered: bool = self.facts["ordered"]
        self.constant_names: tuple[str, ...] = self.facts["constants"]
        self.constants: tuple[np.ndarray, ...] = ()
        if self.constant_names:  # global arrays, as they are now
            values = self.read().constants
            self.constants = tuple(values[n] for n in self.constant_names)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Where the kernel and the functions it calls stand."""
        return self.read().sources

    @staticmethod
    def stem_of(
        function: Any,
        block: Three,
        dynamic: int,
        types: tuple[Any, ...],
        style: type[Style] = Style,
        assume: bool = True,
    ) -> str:
        """The name of the module's files."""
        key = cache.key(function, block, dynamic, types, style.__name__, assume)
        return f"{function.__name__}_{key}"

    def compile(self, types: Iterable[Any], *more: Any) -> None:
        """Make the machine code, or load it, for arguments of these types; `more` is
        what the style's text takes.
        """
        behind = (*self.constants, np.empty(0, np.uint8), *more)
        signature = (numba.intp,) * 5 + (*types, *map(numba.typeof, behind))
        try:
            self.code.compile(signature)
        except numba.errors.NumbaError as e:
            # Numba names a line of the generated text: find it in the kernel's own
            made = self.stages()
            lowered = made["lockstep"]
            infer(lowered, ir.THREAD)
            raise refusal(lowered, e, made["emit"].splitlines()) from e

    def run(
        self,
        first: int,
        last: int,
        grid: Three,
        arguments: Sequence[Any],
        more: Sequence[Any] = (),
    ) -> None:
        """Run these blocks of the grid; `more` is what the style's text takes."""
        if not self.code.overloads:
            with ir.told_of(*self.place):
                self.compile(map(numba.typeof, arguments), *more)
        arena = _arena(self.facts["arena"])
        given = (*arguments, *self.constants, arena, *more)
        try:
            status = self.code(first, last, *grid, *given)
        except (ArithmeticError, LookupError, ValueError) as e:
            raise raised(self.read(), e) from None
        if status:
            site, thread, block = ir.came_to(status)
            ended = self.stages()["lockstep"].sites[site]
            ended.args = (f"{ended} (block {block})",)
            ended.block, ended.thread = block, thread
            raise ended


def memory(a: np.ndarray) -> tuple[Any, ...]:
    """The same for two arrays whose elements, in C order, are the same memory."""
    layout = (a.size,) if a.flags.c_contiguous else (a.shape, a.strides)
    return a.ctypes.data, a.dtype, *layout


@contextmanager
def in_c_order(arguments: Sequence[Any]) -> Iterator[list[Any]]:
    """The arguments, with copies of arrays that are not contiguous; copied back then.

    An array given twice is copied once.
    """
    copies: dict[Any, np.ndarray] = {}

    def contiguous(a: np.ndarray) -> np.ndarray:
        copied = np.ascontiguousarray(a)
        copied.flags.writeable = a.flags.writeable  # refused alike if it is not
        return copied

    given = [
        copies.setdefault(memory(a), contiguous(a))
        if isinstance(a, np.ndarray) and not a.flags.c_contiguous
        else a
        for a in arguments
    ]
    yield given
    for a, copied in zip(arguments, given, strict=True):
        if copied is not a and a.flags.writeable:
            a[...] = copied


# ------------------------------------------------------------------ workers

_local = threading.local()


def _arena(size: int) -> np.ndarray:
    """This worker's memory for frames too large for the stack."""
    held = getattr(_local, "arena", None)
    if held is None or held.size < size:
        held = _local.arena = np.empty(max(size, 1), np.uint8)
    return held


class _Pool:
    """Worker threads; those of a launch take ranges of blocks until none is left."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.workers = 0
        self.lock = threading.RLock()  # a signal's handler may launch, too

    def run(
        self,
        module: Module,
        blocks: int,
        workers: int,
        grid: Three,
        arguments: Sequence[Any],
    ) -> float:
        """Run all blocks; returns the seconds that it took, of all workers together."""
        if workers == 1:
            start = perf_counter()
            module.run(0, blocks, grid, arguments)
            return perf_counter() - start
        ranges = min(blocks, workers * _RANGES)
        next_range = count()
        problems: dict[int, BaseException] = {}
        seconds: list[float] = []
        begun: list[None] = []  # an element for each worker that came to help
        ended: list[None] = []
        bell: SimpleQueue[None] = SimpleQueue()

        def share() -> None:
            for i in next_range:
                if i >= ranges or problems:
                    break
                first, last = -(-blocks * i // ranges), -(-blocks * (i + 1) // ranges)
                start = perf_counter()
                try:
                    module.run(first, last, grid, arguments)
                except Exception as problem:
                    problems[first] = problem
                seconds.append(perf_counter() - start)

        def help_() -> None:
            begun.append(None)  # before it looks whether anything is left
            try:
                share()
            finally:
                ended.append(None)
                bell.put(None)

        self.grow(workers - 1)
        for _ in range(min(workers - 1, self.workers)):
            self.jobs.put(help_)
        finished = False
        while not finished:
            try:
                share()
                # Workers that have not begun will find no range left.
                while len(ended) < len(begun):
                    with suppress(Empty):
                        bell.get(timeout=1)
                finished = True
            except BaseException as interrupt:  # Ctrl-C: no more ranges, but those
                problems[-1] = interrupt  # under way still write
        if problems:
            raise problems[min(problems)]
        return sum(seconds)

    def grow(self, workers: int) -> None:
        if self.workers < workers:
            with self.lock:
                while self.workers < workers:
                    args = (self.jobs,)
                    work = threading.Thread(target=_work, args=args, daemon=True)
                    try:
                        work.start()
                    except RuntimeError:  # the system has no more: go on with these
                        break
                    self.workers += 1


def _work(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


_pool = _Pool()
if hasattr(os, "register_at_fork"):  # a fork has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.__init__)  # type: ignore[misc]


def _types(function: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments' Numba types. KernelError if there is none, or no code for it."""
    types = []
    for i, argument in enumerate(arguments, 1):
        try:
            if isinstance(argument, (list, set, dict)):
                raise ValueError("Numba has types for them that run on no GPU")
            kind = numba.typeof(argument)
            if isinstance(getattr(kind, "dtype", kind), numba.types.PyObject):
                raise TypeError("an array of Python's objects runs on no GPU")
        except ValueError:
            kind = type(argument).__name__
            problem = f"argument {i}: a{'n' * (kind[0] in 'aeiou')} {kind} is no "
            problem += "argument of a kernel: make it an array, a number or a tuple"
            raise located(*_place(function), problem) from None
        except (TypeError, numba.errors.NumbaError) as e:
            problem = f"argument {i}: {e}"
            raise located(*_place(function), problem) from None
        types.append(kind)
    return tuple(types)


def _place(function: Any) -> tuple[list[Source], int, str]:
    """The file and first line of a kernel, and its name."""
    code = function.__code__
    return [Source(code.co_filename, code.co_firstlineno)], 1, function.__name__


def _three(size: Size) -> Three:
    """A grid or block as three numbers."""
    given = tuple(size) if np.iterable(size) else (size,)
    whole = all(isinstance(n, (int, np.integer)) for n in given)
    if not whole or not 1 <= len(given) <= 3 or min(given) < 1:
        raise ValueError(f"a grid or block is 1 to 3 positive numbers, not {size!r}")
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z


def kind_of(argument: Any) -> Any:
    """What the compiled code depends on: cheaper than Numba's type."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return (
            argument.dtype,
            argument.ndim,
            flags.c_contiguous,
            flags.f_contiguous,
            flags.writeable,
            flags.aligned,
        )
    if isinstance(argument, tuple):
        return tuple(map(kind_of, argument))
    return type(argument)


def _is_negative(argument: Any) -> bool:
    """Is the number, or one in the tuple, negative?"""
    return bool(min(argument) < 0 if isinstance(argument, tuple) else argument < 0)
