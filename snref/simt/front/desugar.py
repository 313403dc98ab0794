"""Statements that Python has for convenience, in terms of simpler ones.

    for i in range(n):                    _broke1 = False
        if a[i] > 9:                      for i in range(n):
            break                             if a[i] > 9:
    else:                         ->              _broke1 = True
        a[0] = 1                                  break
                                          if not _broke1:
                                              a[0] = 1

`match` on numbers becomes `if`, `elif` and `else`, and `x = y = 1` two assignments.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any

from snref.simt import ir
from snref.simt.ir import LOOPS, assign, at, name

Fail = Callable[[ast.AST, str], Exception]


def desugar(body: Sequence[ast.stmt], taken: set[str], fail: Fail) -> list[ast.stmt]:
    """The body of a function without `match`, `else` behind a loop, and `x = y = 1`.

    New variables are called otherwise than those `taken`; `fail` makes the error for a
    pattern that has no simpler form.
    """
    return _Desugar(set(taken), fail).block(body)


class _Desugar(ast.NodeTransformer):
    def __init__(self, taken: set[str], fail: Fail):
        self.taken, self.fail = taken, fail

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for stmt in stmts:
            new: Any = self.visit(stmt)
            out += new if isinstance(new, list) else [new]
        return out

    def loop(self, node: ir.Loop) -> ir.Loop | list[ast.stmt]:
        node.body = self.block(node.body)
        if not node.orelse:
            return node
        orelse, node.orelse = self.block(node.orelse), []
        broke = ir.fresh("broke", self.taken)
        node.body = _noted(node.body, broke)
        unless = ast.If(ast.UnaryOp(ast.Not(), name(broke)), orelse, [])
        first = assign(broke, ast.Constant(False), node.lineno)
        return [first, node, at(unless, node.lineno)]

    visit_For = visit_While = loop

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | list[ast.stmt]:
        if len(node.targets) == 1:
            return node
        held = node.value
        before = []
        if not isinstance(held, (ast.Name, ast.Constant)):
            value = ir.fresh("value", self.taken)
            before, held = [assign(value, held, node.lineno)], name(value)
        each = [ast.Assign([target], copy.deepcopy(held)) for target in node.targets]
        return [*before, *(at(s, node.lineno) for s in each)]

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        subject = ir.fresh("subject", self.taken)
        orelse: list[ast.stmt] = []
        for case in reversed(node.cases):
            test, binds = self.pattern(case.pattern, subject)
            if case.guard is not None:
                # the guard may use the name that the pattern binds
                guard = _Renamed(dict.fromkeys(binds, subject)).visit(case.guard)
                both = ast.BoolOp(ast.And(), [test, guard])
                test = guard if _is_true(test) else both
            bound = [assign(n, name(subject), node.lineno) for n in binds]
            body = bound + self.block(case.body)
            if _is_true(test):
                orelse = body
            else:
                orelse = [at(ast.If(test, body, orelse), case.pattern.lineno)]
        return [assign(subject, node.subject, node.lineno), *orelse]

    def pattern(self, pattern: ast.pattern, subject: str) -> tuple[ast.expr, list[str]]:
        """The condition that a pattern stands for, and the names that it binds."""
        match pattern:
            case ast.MatchAs(None, None):
                return ast.Constant(True), []
            case ast.MatchAs(None, str(bound)):
                return ast.Constant(True), [bound]
            case ast.MatchAs(inner, str(bound)) if inner is not None:
                test, binds = self.pattern(inner, subject)
                return test, [*binds, bound]
            case ast.MatchValue(value):
                return ast.Compare(name(subject), [ast.Eq()], [value]), []
            case ast.MatchSingleton(bool(value)):
                equal = ast.Compare(name(subject), [ast.Eq()], [ast.Constant(value)])
                return equal, []
            case ast.MatchOr(patterns):
                parts = [self.pattern(p, subject) for p in patterns]
                if not any(binds for _, binds in parts):
                    return ast.BoolOp(ast.Or(), [test for test, _ in parts]), []
        raise self.fail(
            pattern, "a pattern is a number, a name, _ or several numbers with |"
        )


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(name(self.names.get(node.id, node.id)), node)


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and test.value is True


def _noted(stmts: Sequence[ast.stmt], broke: str) -> list[ast.stmt]:
    """The statements of a loop, each `break` of it noted in the variable."""
    out: list[ast.stmt] = []
    for stmt in stmts:
        if isinstance(stmt, ast.Break):
            out.append(assign(broke, ast.Constant(True), stmt.lineno))
        elif isinstance(stmt, ast.If):
            stmt.body = _noted(stmt.body, broke)
            stmt.orelse = _noted(stmt.orelse, broke)
        elif isinstance(stmt, LOOPS):
            stmt.orelse = _noted(stmt.orelse, broke)
        out.append(stmt)
    return out
