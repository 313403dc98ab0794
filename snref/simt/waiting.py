"""Loops that wait for another thread: they end the launch where it cannot come.

Between barriers the threads of a block run one after another, and blocks with atomics
run one after another to their end. So if a round of a loop changes nothing that the
next one reads, no other thread ever will, and the loop goes on for ever:

    while atomic_cas(lock, 0, 0, 1) != 0:     _moved1 = True
        count += 1                            while True:
                                  ->              if not _moved1:
                                                      return 1 + ...
                                                  _moved1 = False
                                                  _old1 = atomic_cas(lock, 0, 0, 1)
                                                  if _old1 == 0:
                                                      _moved1 = True
                                                  if not _old1 != 0:
                                                      break
                                                  count += 1

`count` does not count: the loop does not depend on it. Looked at are loops with atomics
and loops that no thread can end by itself, as `while flag[0] == 0: pass`. A store is
taken for a change, whatever it stores. `while True` without a way out ends the launch,
too, whatever it changes. Loops with a barrier inside are not looked at.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snref.simt import ir
from snref.simt.assignment import read_early
from snref.simt.ir import Kernel, assign, at, expression, name

# When an atomic operation changes its element; the others are taken to do so always.
_CHANGES = {
    "atomic_add": "{value} != 0",
    "atomic_sub": "{value} != 0",
    "atomic_or": "({old} | {value}) != {old}",
    "atomic_and": "({old} & {value}) != {old}",
    "atomic_exch": "{old} != {value}",
    "atomic_max": "{value} > {old}",
    "atomic_min": "{value} < {old}",
    "atomic_cas": "{old} == {value}",
    "atomic_compare_and_swap": "{old} == {value}",
}


def with_ends(kernel: Kernel) -> Kernel:
    """The kernel with an end to each loop that waits for ever."""
    ends = _Ends(kernel)
    body = ends.block(kernel.body, ())
    waits = kernel.waits or ends.sites != list(kernel.sites)
    return replace(kernel, body=tuple(body), sites=tuple(ends.sites), waits=waits)


@dataclass(frozen=True)
class _Wait:
    """A loop that is looked at."""

    moved: str  # the variable that tells of a change in this round
    variables: frozenset[str]  # that a round hands to the next, which depends on them


class _Ends:
    def __init__(self, kernel: Kernel):
        self.kernel, self.sites = kernel, list(kernel.sites)
        self.taken = set(kernel.types).union(*map(ir.names, kernel.body))

    def fresh(self, stem: str) -> str:
        return ir.fresh(stem, self.taken)

    def block(
        self, stmts: Sequence[ast.stmt], around: tuple[_Wait, ...]
    ) -> list[ast.stmt]:
        """The statements, in loops that are looked at."""
        out: list[ast.stmt] = []
        for stmt in stmts:
            match stmt:
                case ast.While():
                    out += self.loop(stmt, around)
                case ast.For():
                    new = copy.copy(stmt)
                    watched = [w for w in around if ir.names(stmt.target) & w.variables]
                    atomic = around if ir.atomic(stmt.iter) else ()
                    out += _moves(atomic, stmt.lineno)
                    first = _moves(watched, stmt.lineno)
                    new.body = [*first, *self.block(stmt.body, around)]
                    out.append(new)
                case ast.If():
                    new_if = copy.copy(stmt)
                    before, new_if.test = self.apart(stmt.test, around, stmt.lineno)
                    new_if.body = self.block(stmt.body, around)
                    new_if.orelse = self.block(stmt.orelse, around)
                    out += [*before, new_if]
                case _:
                    out += self.statement(stmt, around) if around else [stmt]
        return out

    def loop(self, stmt: ast.While, around: tuple[_Wait, ...]) -> list[ast.stmt]:
        line, new = stmt.lineno, copy.copy(stmt)
        variables = _handed_on(stmt)
        # no thread ends a pure loop by itself
        once = bool(stmt.body) and isinstance(stmt.body[-1], ast.Break)
        pure = not (once or variables or any(map(_is_store, ast.walk(stmt))))
        endless = _is_endless(stmt)
        if ir.synchronises(stmt) or not (ir.atomic(stmt) or pure or endless):
            before, new.test = _moves(around, line), stmt.test
            new.body = self.block(stmt.body, around)
            return [*(before if ir.atomic(stmt.test) else []), new]
        wait = _Wait(self.fresh("moved"), variables)
        inside = around if endless else (*around, wait)
        head = ir.source_line(self.kernel.sources, line).strip()
        problem = (
            f"'{head}' goes on for ever: a round changed nothing that the next one "
            "reads. Threads run one after another here from barrier to barrier, and "
            "blocks to their end, so none that comes later can end the wait. On a GPU, "
            "too, a block may not start before others have ended"
        )
        if endless:
            problem = f"'{head}' goes on for ever: no break, return or raise ends it"
        self.sites.append(self.kernel.error(line, problem, "endless-wait"))
        ended = ir.ending(len(self.sites) - 1)
        idle = ast.UnaryOp(ast.Not(), name(wait.moved))
        end = at(ast.If(idle, [ast.Return(ended)], []), line)
        begin = assign(wait.moved, ast.Constant(False), line)
        needed, test = self.apart(stmt.test, inside, line)
        body = self.block(stmt.body, inside)
        if needed:
            leave = ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], [])
            needed, test = [*needed, at(leave, line)], at(ast.Constant(True), line)
        new.test, new.body = test, [end, begin, *needed, *body]
        return [assign(wait.moved, ast.Constant(True), line), new]

    def statement(self, stmt: ast.stmt, around: tuple[_Wait, ...]) -> list[ast.stmt]:
        line, left = stmt.lineno, ir.target(stmt)
        if _is_store(stmt):
            return [stmt, *_moves(around, line)]
        if not isinstance(stmt, (ast.Expr, ast.Assign, ast.AugAssign)):
            return [stmt]
        new = copy.copy(stmt)
        before, new.value = self.apart(stmt.value, around, line)
        if not isinstance(left, ast.Name):
            return [*before, *([] if isinstance(new.value, ast.Name) else [new])]
        watched = [w for w in around if left.id in w.variables]
        if not watched:
            return [*before, new]
        was = self.fresh("was")
        differs = ast.Compare(name(left.id), [ast.NotEq()], [name(was)])
        changed = at(ast.If(differs, _moves(watched, line), []), line)
        return [*before, assign(was, name(left.id), line), new, changed]

    def apart(
        self, value: ast.expr, around: tuple[_Wait, ...], line: int
    ) -> tuple[list[ast.stmt], ast.expr]:
        """An atomic operation in a value as a statement that tells whether it changed
        anything, and the rest of the value."""
        if not around or not ir.atomic(value):
            return [], value
        taken = _Apart(self.fresh("old"))
        rest = taken.visit(copy.deepcopy(value))
        call, *others = taken.atomics
        whole = call.func.id == "atomic_compare_and_swap"
        operand = call.args[1 if whole else 2]
        changes = _CHANGES.get(call.func.id, "")
        plain = isinstance(operand, (ast.Constant, ast.Name)) and changes
        branches = any(isinstance(n, (ast.BoolOp, ast.IfExp)) for n in ast.walk(value))
        if others or branches or not plain or ir.loads(rest):
            return _moves(around, line), value
        test = changes.format(old=taken.old, value=ast.unparse(operand))
        changed = ast.If(expression(test), _moves(around, line), [])
        return [assign(taken.old, call, line), at(changed, line)], rest


class _Apart(ast.NodeTransformer):
    """Puts a name in place of an atomic operation."""

    def __init__(self, old: str):
        self.old, self.atomics = old, list[Any]()

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id.startswith("atomic_"):
            self.atomics.append(node)
            inside = sum(map(ir.atomic, node.args))
            self.atomics += [node] * inside  # one in another: too many
            return name(self.old)
        self.generic_visit(node)
        return node


def _moves(waits: Sequence[_Wait], line: int) -> list[ast.stmt]:
    return [assign(w.moved, ast.Constant(True), line) for w in waits]


def _is_store(node: ast.AST) -> bool:
    """Does it store to memory (other than by an atomic operation)?"""
    left = ir.target(node) if isinstance(node, ast.stmt) else None
    return left is not None and not isinstance(left, ast.Name)


def _is_endless(loop: ast.While) -> bool:
    """Is it `while True` with nothing inside that ends it?"""
    if not isinstance(loop.test, ast.Constant) or not loop.test.value:
        return False
    inside = [n for s in loop.body for n in ast.walk(s)]
    loops = [n for n in inside if isinstance(n, ir.LOOPS)]
    of_others = {n for other in loops for n in ast.walk(other)}
    breaks = {n for n in inside if isinstance(n, ast.Break)} - of_others
    return not breaks and not any(isinstance(n, ast.Return) for n in inside)


def _handed_on(loop: ast.While) -> frozenset[str]:
    """The variables that a round hands to the next and that decide what it does."""
    given = set().union(*(ir.names(s, store=True) for s in loop.body))
    early = ir.names(loop.test) | read_early(loop.body, given)
    decide = ir.names(loop.test)
    values: list[tuple[str, set[str]]] = []
    for n in (n for s in loop.body for n in ast.walk(s)):
        if isinstance(n, ir.COMPOUNDS):
            decide |= ir.names(ir.test(n))
        elif isinstance(n, ast.Call) and ir.atomic(n):
            decide |= ir.names(n)
        left = ir.target(n) if isinstance(n, ast.stmt) else None
        if isinstance(n, (ast.Assign, ast.AugAssign)) and isinstance(left, ast.Name):
            values.append((left.id, ir.names(n.value)))
    before = -1
    while len(decide) > before:
        before = len(decide)
        decide |= {n for left, names in values if left in decide for n in names}
    return frozenset(given & early & decide)
