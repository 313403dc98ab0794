"""Stage 1: a Python function -> a kernel in which every CUDA name is a plain name.

Constants are folded in (globals, closures, the block's shape), device functions are
inlined, `return` becomes nesting, and what a thread does inside an expression that
needs statements (a call, a shuffle) is written before it. For a block of 64 threads

    @cuda.jit                             scale(a, c)  block (64, 1, 1)
    def scale(a, c):                          i = blockIdx_x * 64 + threadIdx_x
        i = cuda.grid(1)            ->        if not i >= c.size:
        if i >= c.size:                           c[i] = a[i] * 3
            return
        c[i] = a[i] * FACTOR

One object translates one function. Its class grows from file to file, each with what
the next ones need, to be read in this order:

    returns      a body without `return`
    unit         what the functions of one kernel share: names, files, arrays
    scope        the source of a function, and what its global names stand for
    desugar      `match` and `else` behind a loop in simpler terms
    rebound      a name of its own for each meaning of an array's name
    views        `row = a[i]`: part of an array under a name of its own
    records      `r = a[i]`: an element with fields under a name of its own
    vectors      `float32x2`: as many variables as components
    expressions  operands from left to right; statements that must come first
    arrays       declarations of shared, local and constant arrays
    warps        shuffles, votes and block-wide counts as statements
    calls        everything of `numba.cuda`, `math` and NumPy that is called
    statements   assignments, branches and loops; what is refused
    recursion    device functions that call themselves
    inline       device functions, put in where they are called: the finished class
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numba

from snref.simt.front.inline import Function
from snref.simt.front.returns import with_guards
from snref.simt.front.scope import python_function
from snref.simt.front.unit import Unit
from snref.simt.ir import Kernel

__all__ = ["front", "python_function"]


def front(
    kernel: Any,
    block: tuple[int, int, int],
    types: Sequence[Any],
    dynamic: int = 0,
    debug: bool = False,
) -> Kernel:
    """Read the kernel for one block shape and these Numba types of its arguments.

    `debug`: it raises what Numba's `debug=True` makes it raise on a GPU.
    """
    unit = Unit(block, dynamic, debug)
    function = Function(python_function(kernel), unit)
    params = function.parameters(len(types))
    if len(types) != len(params):
        given = f"takes {len(params)} arguments, got {len(types)}"
        raise function.fail(function.tree, given)
    arguments = dict(zip(params, types, strict=True))
    for p, t in arguments.items():
        if isinstance(t, numba.types.Array):
            unit.ndim[p], unit.dtypes[p] = t.ndim, t.dtype
        elif isinstance(t, numba.types.BaseTuple):
            unit.tuples[p] = len(t)
    body = function.block(function.body)
    if function.result:
        problem = "a kernel returns nothing; write to an array"
        raise function.fail(function.tree, problem)
    if body:
        body = with_guards(body)
    constants = {n: numba.typeof(v) for n, v in unit.constants.items()}
    return Kernel(
        name=function.tree.name,
        sources=tuple(unit.sources),
        line=function.tree.lineno,
        block=block,
        types={**arguments, **constants},
        body=tuple(ast.fix_missing_locations(s) for s in body),
        arrays=unit.arrays,
        imports=dict(sorted(unit.imports.items())),
        constants=unit.constants,
        dynamic=dynamic,
        sites=tuple(unit.sites),
    )
