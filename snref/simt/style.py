"""How the accesses of a kernel are printed; check mode and the profile have their own.

c[i // n] = SLOT(v, 0)        ->      c[_u(_divide(i, n))] = v_of[0]
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from snref.simt import ir
from snref.simt.ir import Kernel
from snref.simt.storage import Storage


def slot(variable: str) -> str:
    """The array that keeps a variable of every thread."""
    return f"{variable}_of"


class Style:
    """How accesses are printed: compiled kernels do them without a check.

    Check mode and the profiler print the same tree with accesses of their own.
    """

    rows = True  # may a row of threads go through a whole nest of loops?
    independent = True  # is one thread's access of an element no other's business?
    debug = False  # does the kernel raise what Python would?
    exact = False  # must each thread do the loads that all threads share?
    wrap = "from snref.simt.runtime import wrap as _wrap"  # an index from the end
    imports: Sequence[str] = ()
    parameters: Sequence[str] = ()

    @staticmethod
    def prepared(kernel: Kernel) -> Kernel:
        """The kernel as the stages after the first get it."""
        return kernel

    def __init__(self, kernel: Kernel, store: Storage):
        self.kernel, self.store = kernel, store
        self.local = {n for n, a in kernel.arrays.items() if a.space == "local"}
        self.taken = set(kernel.types).union(*map(ir.names, kernel.body))

    def fresh(self, stem: str) -> str:
        """A variable of the printed text."""
        return ir.fresh(stem, self.taken)

    def once(self) -> list[str]:
        """Lines before the first block."""
        return []

    def prologue(self) -> list[str]:
        """Lines at the start of each block."""
        return []

    def barrier(self) -> list[str]:
        """Lines in place of syncthreads."""
        return []

    def warp_barrier(self, stmt: ast.stmt) -> list[str]:
        """Lines in place of syncwarp."""
        return []

    def after_run(self) -> list[str]:
        """Lines after the threads' loop of a run."""
        return []

    def facts(self) -> dict[str, Any]:
        """What the launch needs to know about the printed text."""
        return {}

    def statement(self, stmt: ast.stmt, inside: bool) -> list[str]:
        """The lines of a statement, `inside` a run or once for the block."""
        new = self.index(stmt, inside)
        return ir.text([new]) if new is not None else []

    def expression(self, node: ast.expr, inside: bool) -> str:
        return ast.unparse(self.index(node, inside))

    def index(self, node: Any, inside: bool) -> Any:
        new = _Index(self.kernel, self.local, inside).visit(copy.deepcopy(node))
        return new and ast.fix_missing_locations(new)


class Debugging(Style):
    """Kernels of `@cuda.jit(debug=True)`, which raise some of what Python would."""

    debug = True


class _Index(ast.NodeTransformer):
    """a[i] -> a[_u(i)]; a local array's or a slot's element is its thread's.

    In a run, division by a variable becomes one that can be done for many threads.
    """

    def __init__(self, kernel: Kernel, local: set[str], inside: bool):
        self.ndim = kernel.ndim
        self.local, self.inside = local, inside

    def visit_Expr(self, stmt: ast.Expr) -> ast.AST | None:
        return None if ir.called(stmt) == ir.FENCE else self.generic_visit(stmt)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        new = self.generic_visit(node)
        known = isinstance(node.right, ast.Constant)  # LLVM multiplies by the inverse
        if not self.inside or known or not isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            return new
        function = "_divide" if isinstance(node.op, ast.FloorDiv) else "_modulo"
        return ir.call(function, node.left, node.right)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.ndim:
            return self.generic_visit(node)
        place = self.visit(node.slice)
        places = place.elts if isinstance(place, ast.Tuple) else [place]
        if len(places) == self.ndim[node.value.id]:  # else a row, or by a tuple's name
            places = [_unsigned(p) for p in places]
        if node.value.id in self.local:
            dots = any(isinstance(p, ast.Constant) and p.value is ... for p in places)
            missing = 0 if dots else self.ndim[node.value.id] - len(places)
            places = [*places, *[ast.Slice()] * missing, ir.name("_t")]
        inside = places[0] if len(places) == 1 else ast.Tuple(places, ast.Load())
        return ast.Subscript(node.value, inside, node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.local:  # a whole array, as an argument
            return ir.expression(f"{node.id}[..., _t]")
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return expand_slots(self, node) or self.generic_visit(node)


def expand_slots(visitor: ast.NodeTransformer, node: ast.Call) -> ast.AST | None:
    """SLOT and VOTE as accesses to the arrays behind the variables."""
    match node:
        case ast.Call(ast.Name(ir.SLOT), [ast.Name(v), i]):
            place = _unsigned(visitor.visit(i))
            return ast.Subscript(ir.name(slot(v)), place, ast.Load())
        case ast.Call(ast.Name(ir.VOTE), [how, ast.Name(v), ast.Name(here), mask, t]):
            given = [ir.name(slot(v)), ir.name(slot(here))]
            return ast.Call(how, [*given, visitor.visit(mask), visitor.visit(t)], [])
    return None


def _unsigned(place: ast.expr) -> ast.expr:
    if isinstance(place, (ast.Constant, ast.Slice)):
        return place
    return ir.call("_u", place)
