"""Runs ordinary Numba CUDA kernels on the CPU, compiled, without a GPU.

    from snref import simt

    simt.compile(kernel)[grid, block](*arrays)      # run it
    simt.check(kernel)[grid, block](*arrays)        # run it with every access checked
    simt.profile(kernel)[grid, block](*arrays)      # count what a GPU would do, by line
    simt.debug(kernel)[grid, block](*arrays)        # run it as Python, under a debugger
    print(simt.show(kernel, block, *arrays))        # the text that is compiled

What a kernel means is written down in 80 lines, to be read first:

    reference    an interpreter: one Python thread a CUDA thread
    meaning      what each name of `numba.cuda` is in such a thread
    debugger     launches by the interpreter

The compiler is eight small stages, functions without side effects. They hand each other
what `ir` defines: kernels, trees, and Python's own syntax trees in them.

    1  front     a Python function -> a kernel in plain names (a folder of small files)
    2  webs      one name for each independent value
    3  indices   which indices may be negative and count from the end
    4  uniform   what all threads of a block agree on
    5  lockstep  divergent control flow that they can walk together
    6  split     the statements of a thread -> the tree of a block
    7  storage   where each thread's variables live
    8  emit      the tree -> the text of a module for Numba, with the help of
         style     how an access of an array is printed
         frame     the arrays of a block: shared, local, and slots of the threads
         guards    `if i < n` as the bound of the loop over threads
         infer     the types of the variables, from Numba's own type inference

Between the first two, `waiting` gives an end to loops that wait for ever.
`simt.show(kernel, block, *arrays, stage="webs")` prints what a stage makes. To run it:

    run          the stages in a row; launches, shared out among workers
    cache        generated modules on disk, found again by all they are made from
    ahead        kernels compiled on other cores before their first launch
    limits       what a launch may be on every GPU
    runtime      what the generated text calls: arrays in a frame, atomics, shuffles
    libdevice    the functions of `numba.cuda.libdevice`
    half         float16, which Numba has for GPUs only
    elementary   exp, log and integer division for many threads at once
    lanes        the promise to LLVM that the threads of a run are independent

Two more styles print the same tree with accesses that are looked at:

    checker, shadow       check mode: the text, and what it calls
    assignment            check mode: variables that may be read without a value
    profiler, recorder    the profile: the text, and what it calls

`python -m snref.simt program.py` (`__main__`) runs a whole program that knows nothing
of this package; `drop_in` is what it finds in place of `numba.cuda`, and `NAMES.md`
says of each name there whether it runs, differs or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from snref.simt.checker import Check
from snref.simt.debugger import Debug, Place
from snref.simt.ir import KernelError
from snref.simt.profiler import Profile
from snref.simt.replaced import WHY_NOT, numba_cuda_is_there
from snref.simt.run import Compiled, show

__all__ = ["KernelError", "check", "compile", "debug", "install", "profile", "show"]


def compile(kernel: Any, threads: int | None = None) -> Compiled:
    """A kernel that runs on the CPU as `compile(kernel)[grid, block](*arrays)`.

    Nothing is checked, as on a GPU: a wrong index may spoil other memory and end the
    process, and a race may happen to give the right answer. `check` finds both.

    `kernel` is a `@cuda.jit` function or the plain Python function; grid and block are
    numbers or tuples of up to three. Arrays are NumPy arrays and are changed in place.
    The blocks are shared out among `threads` workers (default: one a core); results
    are the same bits for any number of them. Compiled code is kept in the folder named
    by $SNREF_CACHE, or else the user's cache folder.

    Raises KernelError for what cannot be compiled, with file and line, and at a launch
    whose threads disagree about a barrier or wait for others that cannot come.
    """
    return Compiled(kernel, threads)


def check(
    kernel: Any,
    outputs: Iterable[str] = (),
    scratch: Iterable[str] = (),
    allow: Iterable[str] = (),
    exact: bool = False,
) -> Check:
    """Run the same launch slowly, with every access of every thread checked.

    Finds races within a block and between blocks, indices outside an array, reads of
    shared and local arrays before anything was written there, variables that a thread
    reads without having given them a value, masks of warp operations that name threads
    which do not take part, and threads that return before a barrier, unless `allow` has
    "exited-before-barrier". The parameters named in `outputs` are taken to hold nothing
    yet, and must be written in full; those named in `scratch` hold nothing yet either,
    and may be written in part. With `exact`, atomic sums of floats are findings, too:
    their bits depend on the order of the threads.

    An array given under two names is one array, and so is what two arrays share.
    ValueError if they overlap with gaps or with elements of other types.

    Not known here is that a lock orders its holders: what it protects is reported as a
    race. Arrays in tuples are not looked at.

    Raises KernelError with the first mistake: file and line, the element, both accesses
    with their source lines, thread and block. Its `findings` are all mistakes of the
    run as data (see `checker.Finding`).
    """
    return Check(kernel, outputs, scratch, allow, exact)


def profile(kernel: Any) -> Profile:
    """The same launch, with a count of what a GPU would do, by source line.

    `profile(kernel)[grid, block](*arrays)` returns a Report: 32-byte sectors of global
    memory that a warp loads and stores, bank conflicts of shared memory, warps whose
    threads part ways at a branch, floating-point operations. Print it, or read `lines`.
    """
    return Profile(kernel)


def debug(kernel: Any, thread: Place = 0, block: Place = 0) -> Debug:
    """Run the launch as ordinary Python, so that a debugger can stop in the kernel.

    `breakpoint()` and `pdb.set_trace()` work in the kernel and in device functions.
    Each thread runs until it waits for others, then the next one runs; blocks run one
    after another. Thread `thread` of block `block` runs first; both are numbers, or
    tuples of x, y and z. An exception shows the kernel's own line.

    The types of numbers are those of Python and NumPy and may differ from the compiled
    kernel's: an int32 that overflows, or `float32(1) + 0.5`, which is a float32 here.
    """
    return Debug(kernel, thread, block)


def install(mode: Literal["compile", "check", "debug"] = "compile") -> None:
    """Run everything that uses `numba.cuda` in this process on the CPU from now on.

    For a notebook, or a program of your own: what `python -m snref.simt` does for a
    whole program. Python processes that are started later run their kernels on the
    CPU, too. `mode` says how kernels run that are defined from now on; call it again to
    change the mode.

    Kernels that were made before, and names imported before by `from numba.cuda import
    to_device`, stay Numba's and need a GPU: a RuntimeWarning names those of the main
    program. (`from numba import cuda` may come first.)

    Raises RuntimeError where numba-cuda is installed.
    """
    if numba_cuda_is_there():
        raise RuntimeError(WHY_NOT)
    from snref.simt import drop_in  # it replaces what the rest of simt does not use

    drop_in.install(mode)
