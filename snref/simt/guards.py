"""A guard of a run as the bound of the loop over its threads.

    for threadIdx_x in range(64):         _lanes = min(64, n - i0)
        i = i0 + threadIdx_x              for threadIdx_x in range(_lanes):
        if i < n:                 ->          i = i0 + threadIdx_x
            c[i] = a[i]                       c[i] = a[i]

The accesses are then plain vectors; masked ones cost a processor more, and many do not
have them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numba

from snref.simt import ir
from snref.simt.ir import Kernel, Run
from snref.simt.storage import Plan

_X = ir.THREAD[0]


def bounded(whole: Set[str], run: Run, plan: Plan) -> tuple[Run, Plan, ast.expr] | None:
    """The run without its guard on threadIdx_x, and the number of threads that pass.

    `whole` are the names of integers. None if there is no such guard: a mask, or an
    `if` around all that the run does, with an index below a bound as a condition.
    """
    if run.total:
        return None
    definitions = _definitions(plan.recomputed)
    for m in run.masks:
        count = _count(whole, definitions.get(m, ast.Constant(None)), definitions)
        if count is not None:
            others = tuple(n for n in run.masks if n != m)
            return replace(run, masks=others), plan, count
    if run.masks or not plan.body or not isinstance(plan.body[-1], ast.If):
        return None
    *before, guard = plan.body
    definitions |= _definitions(before)
    assert isinstance(guard, ast.If)
    if guard.orelse or len(definitions) < len(plan.recomputed) + len(before):
        return None  # it does more than define: all threads have to
    if set(plan.stores) & set(definitions):
        return None
    conditions = _conditions(guard.test)
    for condition in conditions:
        count = _count(whole, condition, definitions)
        if count is not None:
            rest = [c for c in conditions if c is not condition]
            body = list(guard.body)
            if rest:
                test = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
                body = [ir.at(ast.If(test, body, []), guard.lineno)]
            return run, replace(plan, body=(*before, *body)), count
    return None


def _definitions(stmts: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """What plain variables are defined as; one definition each."""
    return {
        s.targets[0].id: s.value
        for s in stmts
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }


def _conditions(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [c for part in test.values for c in _conditions(part)]
    return [test]


def _count(
    whole: Set[str], condition: ast.expr, definitions: Mapping[str, ast.expr]
) -> ast.expr | None:
    """How many threads of a row pass `index < bound`, or `not index >= bound`."""
    match condition:
        case ast.UnaryOp(ast.Not(), ast.Name(id)) if id in definitions:
            condition = ast.UnaryOp(ast.Not(), definitions[id])
    match condition:
        case ast.Compare(index, [ast.Lt()], [bound]):
            pass
        case ast.UnaryOp(ast.Not(), ast.Compare(index, [ast.GtE()], [bound])):
            pass
        case _:
            return None
    first = _first(_expanded(index, definitions))
    bound = _expanded(bound, definitions)
    if first is None or _X in ir.names(bound):
        return None
    if not _is_whole(bound, whole) or not _is_whole(first, whole):
        return None
    return bound if _is_zero(first) else ast.BinOp(bound, ast.Sub(), first)


def _expanded(value: ast.expr, definitions: Mapping[str, ast.expr]) -> ast.expr:
    """The value in terms of what is known before the loop."""

    class Expand(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in definitions:
                return node
            return _expanded(definitions[node.id], definitions)

    new: ast.expr = Expand().visit(copy.deepcopy(value))
    return new


def _first(index: ast.expr) -> ast.expr | None:
    """The index of thread 0 of the row, if that of thread x is x more."""
    match index:
        case ast.Name(id) if id == _X:
            return ast.Constant(0)
        case ast.BinOp(left, ast.Add(), right):
            if _X not in ir.names(right):
                left, right = right, left
            if _X not in ir.names(left):
                first = _first(right)
                if first is None or _is_zero(first):
                    return None if first is None else left
                return ast.BinOp(left, ast.Add(), first)
        case ast.BinOp(left, ast.Sub(), right) if _X not in ir.names(right):
            first = _first(left)
            return None if first is None else ast.BinOp(first, ast.Sub(), right)
    return None


def _is_zero(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == 0


def _is_whole(value: ast.expr, whole: Set[str]) -> bool:
    """Is it surely an integer, and one that costs nothing to compute?"""
    match value:
        case ast.Constant(n):
            return type(n) is int
        case ast.Name(id):
            return id in whole
        case ast.Attribute(ast.Name(), "size"):
            return True
        case ast.Subscript(ast.Attribute(ast.Name(), "shape"), ast.Constant()):
            return True
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
            return _is_whole(left, whole) and _is_whole(right, whole)
    return False


def integers(kernel: Kernel) -> frozenset[str]:
    """Names that stand for integers by every definition they have."""
    found: dict[str, list[ast.expr | None]] = {}
    for stmt in (n for s in kernel.body for n in ast.walk(s)):
        if isinstance(stmt, ast.For) and isinstance(stmt.target, ast.Name):
            found.setdefault(stmt.target.id, []).append(ast.Constant(0))
        left = ir.target(stmt) if isinstance(stmt, ast.stmt) else None
        if isinstance(left, ast.Name):
            value = stmt.value if isinstance(stmt, ast.Assign) else None
            found.setdefault(left.id, []).append(value)
    types = kernel.types.items()
    whole = {*ir.THREAD, *ir.BLOCK, *ir.GRID}
    whole |= {
        n for n, t in types if isinstance(t, numba.types.Integer) and n not in found
    }
    while True:
        more = {
            v
            for v, values in found.items()
            if all(e is not None and _is_whole(e, whole) for e in values)
        }
        if more <= whole:
            return frozenset(whole)
        whole |= more
