"""A function's body without `return`: what follows becomes nested.

    if i >= n:                    if not i >= n:
        return            ->          c[i] = a[i]
    c[i] = a[i]

A value goes into `_result` (`_result0`, `_result1` ... for a tuple). A `return` inside
a loop sets `_done` and breaks; what follows the loop runs only `if not _done`.

Where a thread may return from a kernel, `_leaves(test)` marks the test until it is
known whether the others come to a barrier. If so, they wait for each other only:

    if i >= n:                    if _stays(not i >= n):
        return            ->          _barrier()
    cuda.syncthreads()                c[i] = a[i]
    c[i] = a[i]

An `if` that ends a kernel does the same with no `return`: its test becomes `_guard`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from snref.simt import ir
from snref.simt.ir import COMPOUNDS, LOOPS, assign, at, name

RESULT, DONE = "_result", "_done"
_LEAVES = "_leaves"  # its second argument: do threads return in the body, or the else?


def without_returns(
    body: Sequence[ast.stmt], kernel: bool = False
) -> tuple[list[ast.stmt], tuple[str, ...] | str | None]:
    """The body, and the name (or the names, for a tuple) that its result goes to.

    In a kernel, tests are marked: the thread that returns from it has ended.
    """
    returns = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Return)]
    values = [r.value for r in returns if r.value is not None]
    result: tuple[str, ...] | str | None = RESULT if values else None
    sizes = {len(v.elts) if isinstance(v, ast.Tuple) else None for v in values}
    if len(sizes) == 1 and None not in sizes:
        result = tuple(f"{RESULT}{i}" for i in range(sizes.pop() or 0))
    if not returns or returns == [body[-1]]:  # nothing follows it: no flag, no nesting
        last = _results(returns[0], result) if returns else []
        return [*(body[:-1] if returns else body), *last], result

    flag = any(_needs_flag(s) for s in body)
    out = _Structure(flag, result, kernel).block(body, False)
    first = body[0].lineno
    return ([assign(DONE, ast.Constant(False), first)] if flag else []) + out, result


def _results(stmt: ast.Return, result: tuple[str, ...] | str | None) -> list[ast.stmt]:
    if stmt.value is None or result is None:
        return []
    if isinstance(result, str):
        return [assign(result, stmt.value, stmt.lineno)]
    assert isinstance(stmt.value, ast.Tuple)
    return [
        assign(n, v, stmt.lineno) for n, v in zip(result, stmt.value.elts, strict=True)
    ]


def _returns(node: ast.stmt) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _always(stmts: Sequence[ast.stmt]) -> bool:
    """Does every path through these statements return?"""
    if not stmts:
        return False
    last = stmts[-1]
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return isinstance(last, ast.Return)


def _needs_flag(stmt: ast.stmt) -> bool:
    """Is nesting not enough: a return in a loop, or in some paths of a branch only?"""
    if isinstance(stmt, LOOPS):
        return _returns(stmt)
    if isinstance(stmt, ast.If):
        branches = (stmt.body, stmt.orelse)
        return any(_needs_flag(s) for b in branches for s in b) or any(
            any(_returns(s) for s in b) and not _always(b) for b in branches
        )
    return False


def unmarked(test: ast.expr) -> ast.expr:
    """The test of an `if`, without the mark."""
    match test:
        case ast.Call(ast.Name(id), [inner, _]) if id == _LEAVES:
            return inner
    return test


def for_those_who_stay(
    test: ast.expr, branch: ast.If, fresh: Callable[[str], str]
) -> list[ast.stmt]:
    """The translated `branch`, given its test as it was marked.

    The branch becomes two if threads return in one half and the others come to a
    barrier in the other half: what the former still do comes first.
    """
    if unmarked(test) is test:
        return [branch]
    assert isinstance(test, ast.Call) and isinstance(test.args[1], ast.Constant)
    line = branch.lineno
    leave, stay = branch.body, branch.orelse
    leaves, stays = branch.test, _opposite(branch.test)
    if not test.args[1].value:
        (leave, stay), (leaves, stays) = (stay, leave), (stays, leaves)
    barrier = any(ir.calls(s, {ir.BARRIER}) for s in stay)
    if not barrier or any(ir.calls(s, {ir.BARRIER}) for s in leave):
        return [branch]
    before: list[ast.stmt] = []
    if leave:
        gone = fresh("gone")
        before = [assign(gone, ir.truth(leaves), line)]
        before.append(at(ast.If(name(gone), leave, []), line))
        stays = _opposite(name(gone))
    return [*before, at(ast.If(ir.call(ir.STAYS, stays), stay, []), line)]


def with_guards(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The body of a kernel. An `if` that ends it is marked if it holds a barrier: a
    thread that passes it by has nothing left to do, and so it has returned."""
    *before, last = body
    if not isinstance(last, ast.If) or last.orelse or not ir.calls(last, {ir.BARRIER}):
        return list(body)
    test = last.test if ir.stays(last) else ir.call(ir.GUARD, last.test)
    return [*before, at(ast.If(test, with_guards(last.body), []), last.lineno)]


class _Structure:
    def __init__(self, flag: bool, result: tuple[str, ...] | str | None, kernel: bool):
        self.flag, self.result, self.kernel = flag, result, kernel

    def block(self, stmts: Sequence[ast.stmt], in_loop: bool) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for i, stmt in enumerate(stmts):
            rest, line = stmts[i + 1 :], stmt.lineno
            if isinstance(stmt, ast.Return):
                out += _results(stmt, self.result)
                if self.flag:
                    out.append(assign(DONE, ast.Constant(True), line))
                return out + ([at(ast.Break(), line)] if in_loop else [])
            if not isinstance(stmt, COMPOUNDS) or not _returns(stmt):
                out.append(stmt)
                continue
            if isinstance(stmt, LOOPS):
                stmt.body = self.block(stmt.body, True)
                out.append(stmt)
                if in_loop:
                    out.append(at(ast.If(name(DONE), [ast.Break()], []), line))
                    continue
                return out + self.unless_done(rest, line)
            if in_loop:
                stmt.body = self.block(stmt.body, True)
                stmt.orelse = self.block(stmt.orelse, True)
                out.append(stmt)
                continue
            nested = _always(stmt.body) or _always(stmt.orelse)
            after_body = rest if nested and not _always(stmt.body) else []
            after_else = rest if nested and not _always(stmt.orelse) else []
            leave = _always(stmt.body)  # the body, or the else branch
            body = self.block([*stmt.body, *after_body], False)
            orelse = self.block([*stmt.orelse, *after_else], False)
            if body:
                test = self.marked(stmt.test, leave) if nested else stmt.test
                out.append(at(ast.If(test, body, orelse), line))
            elif orelse:
                test = self.marked(_opposite(stmt.test), not leave)
                out.append(at(ast.If(test, orelse, []), line))
            return out if nested else out + self.unless_done(rest, line)
        return out

    def unless_done(self, rest: Sequence[ast.stmt], line: int) -> list[ast.stmt]:
        body = self.block(rest, False)
        test = self.marked(_opposite(name(DONE)), False)
        return [at(ast.If(test, body, []), line)] if body else []

    def marked(self, test: ast.expr, leave: bool) -> ast.expr:
        """The test, marked in a kernel: do threads return in the body?"""
        return ir.call(_LEAVES, test, ast.Constant(leave)) if self.kernel else test


def _opposite(test: ast.expr) -> ast.expr:
    # not `i < n` for `i >= n`: they differ where one side is a NaN
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
