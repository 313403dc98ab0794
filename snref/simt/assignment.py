"""Check mode: variables that a thread may read without having given them a value.

Where one path to a read gives a variable no value, the kernel keeps a flag beside it:

    if t < 4:                             _has_x = False
        x = a[t]                          if t < 4:
    a[t] = x                  ->              x = a[t]
                                              _has_x = True
                                          if not _has_x:
                                              _unassigned(x)
                                          a[t] = x

A GPU has whatever the register holds there.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from snref.simt import ir
from snref.simt.ir import LOOPS, Kernel, assign, at, call, name


def with_flags(kernel: Kernel) -> Kernel:
    """The kernel with a check before each read that may come too early."""
    stored = set().union(*(ir.names(s, store=True) for s in kernel.body))
    variables = {v for v in stored - kernel.types.keys() if not v.startswith("_")}
    flags = _Flags(variables)
    flags.walk(kernel.body, set())
    if not flags.early:
        return kernel
    wanted = {v for early in flags.early.values() for v in early}
    start: list[ast.stmt] = [
        assign(_flag(v), ast.Constant(False), kernel.body[0].lineno)
        for v in sorted(wanted)
    ]
    return kernel.with_body([*start, *_checked(kernel.body, flags.early, wanted)])


def read_early(body: Sequence[ast.stmt], variables: set[str]) -> set[str]:
    """Return those variables that a round of a loop may read before it sets them."""
    flags = _Flags(variables)
    flags.breaks.append([])
    flags.walk(body, set())
    return set().union(*flags.early.values())


def _flag(variable: str) -> str:
    return f"_has_{variable}"


class _Flags:
    """Finds the statements that may read a variable before it has a value."""

    def __init__(self, variables: set[str]):
        self.variables = variables
        self.early: dict[int, set[str]] = {}  # by id of the statement
        self.breaks: list[list[set[str]]] = []  # what has a value at them

    def read(self, node: ast.AST, stmt: ast.stmt, known: set[str]) -> None:
        missing = ir.names(node, store=False) & self.variables - known
        if missing:
            self.early.setdefault(id(stmt), set()).update(missing)

    def walk(self, stmts: Sequence[ast.stmt], known: set[str]) -> set[str]:
        """What surely has a value behind the statements, given what has before them."""
        known = set(known)
        for stmt in stmts:
            match stmt:
                case ast.Break() | ast.Continue():
                    if isinstance(stmt, ast.Break):
                        self.breaks[-1].append(known)
                    return set(self.variables)  # nothing comes behind it
                case ast.Return():
                    return set(self.variables)
                case ast.If():
                    self.read(stmt.test, stmt, known)
                    known = self.walk(stmt.body, known) & self.walk(stmt.orelse, known)
                case ast.For() | ast.While():
                    self.read(ir.test(stmt), stmt, known)
                    inside = known | ir.names(getattr(stmt, "target", ast.Pass()))
                    self.breaks.append([])
                    self.walk(stmt.body, inside)
                    left = self.breaks.pop()
                    test = getattr(stmt, "test", None)
                    endless = isinstance(test, ast.Constant) and bool(test.value)
                    if endless and left:
                        known = set.intersection(*left)
                case ast.AugAssign(target, _, value):
                    self.read(value, stmt, known)
                    self.read(name(getattr(target, "id", "_")), stmt, known)
                    self.read(target, stmt, known)
                case ast.Assign([target], value):
                    self.read(value, stmt, known)
                    if isinstance(target, ast.Name):
                        known.add(target.id)
                    else:
                        self.read(target, stmt, known)
                case _:
                    self.read(stmt, stmt, known)
        return known


def _checked(
    stmts: Sequence[ast.stmt], early: dict[int, set[str]], wanted: set[str]
) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for stmt in stmts:
        line = stmt.lineno
        for v in sorted(early.get(id(stmt), ())):
            problem = ast.Expr(call(ir.UNASSIGNED, ast.Constant(v)))
            without = ast.UnaryOp(ast.Not(), name(_flag(v)))
            out.append(at(ast.If(without, [problem], []), line))
        given = ir.target(stmt)
        new = stmt
        if isinstance(stmt, ir.COMPOUNDS):
            new = copy.copy(stmt)
            new.body = _checked(stmt.body, early, wanted)
            new.orelse = _checked(stmt.orelse, early, wanted)
            if isinstance(stmt, LOOPS):
                given = getattr(stmt, "target", None)
        has: list[ast.stmt] = []
        if isinstance(given, ast.Name) and given.id in wanted:
            has = [assign(_flag(given.id), ast.Constant(True), line)]
        if isinstance(new, ast.For):
            new.body, has = [*has, *new.body], []
        out += [new, *has]
    return out
