"""Device functions that call themselves: they cannot be inlined and stay functions.

    @cuda.jit(device=True)                @numba.njit(error_model="numpy")
    def power(x, n):                      def _power1(x, n):
        if n == ZERO:             ->          if n == 0:
            return 1.0                            return 1.0
        return x * power(x, n - 1)            return x * _power1(x, n - 1)

They take and return numbers: an array would escape the analysis of the kernel.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Protocol

from snref.simt import ir


class Function(Protocol):
    """What it takes to know of a function: see `inline`, which knows it."""

    tree: ast.FunctionDef

    def is_itself(self, node: ast.expr) -> bool: ...
    def value(self, node: ast.expr) -> ast.expr | None: ...
    def callee(self, node: ast.Call) -> ast.expr | None: ...
    def fail(self, node: ast.AST, problem: str) -> Exception: ...


def calls_itself(function: Function) -> bool:
    """Is there a call of the function in its own text?"""
    calls = [n for n in ast.walk(function.tree) if isinstance(n, ast.Call)]
    return any(function.is_itself(n.func) for n in calls)


def outline(function: Function, fresh: Callable[[str], str]) -> tuple[str, str]:
    """A new name for the function, and its text in plain names."""
    new = fresh(function.tree.name)
    tree = _Plain(function, new).visit(copy.deepcopy(function.tree))
    return new, ast.unparse(ast.fix_missing_locations(tree))


class _Plain(ast.NodeTransformer):
    def __init__(self, function: Function, new: str):
        self.function, self.new = function, new

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name, node.returns = self.new, None
        node.decorator_list = [ir.expression('numba.njit(error_model="numpy")')]
        for argument in node.args.args:
            argument.annotation = None
        node.body = [self.visit(s) for s in node.body]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        args = [self.visit(a) for a in node.args]
        if self.function.is_itself(node.func):
            return ir.call(self.new, *args)
        callee = self.function.callee(node)
        if callee is None:
            what = f"{ast.unparse(node.func)} is not supported"
            raise self.function.fail(node, f"{what} in a function that calls itself")
        return ast.Call(callee, args, node.keywords)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.function.value(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.function.value(node) or node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        raise self.function.fail(
            node, "a function that calls itself takes numbers only"
        )
