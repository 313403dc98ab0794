"""Runs ordinary Numba CUDA kernels on the CPU, compiled, without a GPU.

    from snref import simt

    simt.compile(kernel)[grid, block](*arrays)      # run it
    simt.check(kernel)[grid, block](*arrays)        # run it with every access checked
    simt.profile(kernel)[grid, block](*arrays)      # count what a GPU would do, by line
    print(simt.show(kernel, block, *arrays))        # the text that is compiled

The compiler is seven small stages, each a function from a value to a value:

    front     a Python function -> a kernel in plain names
    webs      one name for each independent value
    uniform   what all threads of a block agree on
    lockstep  divergent control flow that they can walk together
    split     the statements of a thread -> the tree of a block
    storage   where each thread's variables live
    emit      the tree -> the text of a module for Numba

`simt.show(kernel, block, *arrays, stage="webs")` prints what a stage makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from snref.simt.ir import KernelError
from snref.simt.profile import Profile
from snref.simt.run import Compiled, show
from snref.simt.stamps import Check

__all__ = ["KernelError", "check", "compile", "profile", "show"]


def compile(kernel: Any, threads: int | None = None) -> Compiled:
    """A kernel that runs on the CPU as `compile(kernel)[grid, block](*arrays)`.

    `kernel` is a `@cuda.jit` function or the plain Python function; grid and block are
    numbers or tuples of up to three. Arrays are NumPy arrays and are changed in place.
    The blocks are shared out among `threads` workers (default: one a core); results
    are the same bits for any number of them. Compiled code is kept in the folder named
    by $SNREF_CACHE, or else the user's cache folder.

    Raises KernelError for what cannot be compiled, with file and line, and at a launch
    whose threads disagree about a barrier.
    """
    return Compiled(kernel, threads)


def check(kernel: Any, outputs: Iterable[str] = ()) -> Check:
    """The same launch, slowly, with every access of every thread checked.

    Finds races within a block and between blocks, indices outside an array (negative
    ones, too), and reads of shared and local arrays before anything was written there;
    also of the parameters named in `outputs`, which are taken to hold nothing yet.

    Raises KernelError at the first mistake: file and line, the element, both accesses
    with their source lines, thread and block.
    """
    return Check(kernel, outputs)


def profile(kernel: Any) -> Profile:
    """The same launch, with a count of what a GPU would do, by source line.

    `profile(kernel)[grid, block](*arrays)` returns a Report: 32-byte sectors of global
    memory that a warp loads and stores, bank conflicts of shared memory, warps whose
    threads part ways at a branch, floating-point operations. Print it, or read `lines`.
    """
    return Profile(kernel)
