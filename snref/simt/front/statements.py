"""Statements: assignments, branches and loops; any other is refused here.

a, b = b, a[i]                        _swap1 = b
for x in row:                         _swap2 = a[i]
    s += x                    ->      a = _swap1 ...
                                      for _k1 in range(row.shape[0]):
                                          x = row[_k1]
                                          s += x
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable

from snref.simt import ir
from snref.simt.front import vectors, views
from snref.simt.front.calls import Calls
from snref.simt.ir import assign, at, expression, name


class Statements(Calls):
    """Translates statements."""

    def block(self, stmts: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Statements in plain names, each behind those that its expressions need."""
        outer, self.before = self.before, []
        out: list[ast.stmt] = []
        for stmt in stmts:
            translated = self.statement(stmt)
            out += [*self.before, *translated]
            self.before = []
        self.before = outer
        return out

    def statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        line = stmt.lineno
        match stmt:
            case ast.Pass() | ast.Assert() | ast.Expr(ast.Constant()):
                return []
            case ast.Break() | ast.Continue():
                return [stmt]
            case ast.AnnAssign(target, _, value) if value is not None:
                return self.assign(target, value, line)
            case ast.Assign([target], value):
                return self.assign(target, value, line)
            case ast.AugAssign(target, op, value):
                left, right = self.sequence([target, value])
                assert isinstance(left, (ast.Name, ast.Subscript))
                return [at(ast.AugAssign(left, op, right), line)]
            case ast.Expr(value):
                result = self.expr(value)
                effect = isinstance(result, ast.Call)
                return [at(ast.Expr(result), line)] if effect else []
            case ast.If(test, body, orelse):
                decides = self.expr(test)
                if isinstance(decides, ast.Constant):
                    return self.block(body if decides.value else orelse)
                return [at(ast.If(decides, self.block(body), self.block(orelse)), line)]
            case ast.For(target, values, body, []):
                return self.loop(stmt, target, values, body)
            case ast.While(test, body, []):
                needed, decides = self.apart(test)
                inside = self.block(body)
                if not needed:
                    return [at(ast.While(decides, inside, []), line)]
                leave = ast.If(ast.UnaryOp(ast.Not(), decides), [ast.Break()], [])
                always = ast.Constant(True)
                whole = [*needed, at(leave, line), *inside]
                return [at(ast.While(always, whole, []), line)]
        what = {ast.For: "for ... else", ast.While: "while ... else"}.get(
            type(stmt), type(stmt).__name__.lower()
        )
        raise self.fail(stmt, f"{what} is not supported in a kernel")

    def loop(
        self, stmt: ast.For, target: ast.expr, values: ast.expr, body: list[ast.stmt]
    ) -> list[ast.stmt]:
        if not isinstance(target, ast.Name):
            raise self.fail(stmt, "a for loop has one variable")
        line, over = stmt.lineno, self.expr(values)
        if isinstance(values, ast.Call) and self.object(values.func) is range:
            new = ast.For(self.expr(target), over, self.block(body), [])
            return [at(new, line)]
        k = self.unit.fresh("k")  # over the elements of a tuple or of a 1-d array
        if isinstance(over, ast.Tuple):
            size: ast.expr = ast.Constant(len(over.elts))
        elif isinstance(over, ast.Name) and self.unit.ndim.get(over.id) == 1:
            view = views.held(over, self.unit.views)
            size = view.sizes()[0] if view else expression(f"{over.id}.shape[0]")
        else:
            raise self.fail(
                stmt, "a for loop must run over range(...), a tuple or a 1-d array"
            )
        element = views.element(over, name(k), ast.Load(), self.unit.views)
        if isinstance(over, ast.Tuple):
            element = ast.Subscript(over, name(k), ast.Load())
        first = ast.Assign([self.expr(target)], element)
        rounds = ir.call("range", size)
        return [
            at(ast.For(name(k, True), rounds, [first, *self.block(body)], []), line)
        ]

    def assign(self, target: ast.expr, value: ast.expr, line: int) -> list[ast.stmt]:
        if isinstance(target, ast.Name) and self.declare(target, value):
            return []
        if isinstance(target, ast.Name) and self.is_grid(value):
            self.grids.add(target.id)
            return []
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.unpack(target.elts, self.expr(value), line)
        if isinstance(target, ast.Subscript):
            right, left = self.sequence([value, target])
        else:
            right, left = self.expr(value), self.expr(target)
        if isinstance(left, ast.Name):
            return self.store(left.id, right, line)
        return [at(ast.Assign([left], right), line)]

    def store(self, target: str, value: ast.expr, line: int) -> list[ast.stmt]:
        """A variable gets a value; a vector, each of its components."""
        if target in self.unit.views:
            text = f"{target.lstrip('_')} is part of an array: give it one meaning"
            raise self.unit.error(ast.Pass(lineno=line), text)
        kept: list[ast.stmt] = []

        def keep(index: ast.expr) -> ast.expr:
            if not isinstance(index, ast.Constant):
                kept.append(assign(self.unit.fresh(target), index, line))
                index = name(kept[-1].targets[0].id)  # type: ignore[attr-defined]
            elif isinstance(index.value, int) and index.value < 0:
                text = f"negative index in {ast.unparse(value)}: count from its shape"
                raise self.unit.error(ast.Pass(lineno=line), text)
            return index

        view = views.view_of(value, self.unit.ndim, keep)
        if view is not None:
            self.unit.views[target], self.unit.ndim[target] = view, view.ndim
            return kept
        held = self.unit.vectors
        parts = vectors.copied(value, held)
        if parts:
            return vectors.make(target, parts, held, self.unit.fresh, line)
        return [assign(target, value, line)]

    def unpack(
        self, targets: list[ast.expr], value: ast.expr, line: int
    ) -> list[ast.stmt]:
        left = [self.expr(t) for t in targets]
        if not isinstance(value, ast.Tuple):
            if not isinstance(value, (ast.Name, ast.Attribute)):
                self.before.append(
                    assign(whole := self.unit.fresh("tuple"), value, line)
                )
                value = name(whole)
            parts: list[ast.expr] = [
                ast.Subscript(copy.deepcopy(value), ast.Constant(i), ast.Load())
                for i in range(len(left))
            ]
            return [
                at(ast.Assign([t], v), line) for t, v in zip(left, parts, strict=True)
            ]
        if len(value.elts) != len(left):
            raise self.fail(
                targets[0], f"{len(left)} targets for {len(value.elts)} values"
            )
        changed = set().union(*(ir.names(t, store=True) for t in left))
        later = set().union(*map(ir.names, value.elts[1:])) if left[1:] else set()
        stores = any(isinstance(t, ast.Subscript) for t in left)
        if later & changed or (stores and any(map(ir.loads, value.elts))):
            held = [self.unit.fresh("swap") for _ in left]
            return [
                assign(h, v, line) for h, v in zip(held, value.elts, strict=True)
            ] + [
                at(ast.Assign([t], name(h)), line)
                for t, h in zip(left, held, strict=True)
            ]
        return [
            at(ast.Assign([t], v), line) for t, v in zip(left, value.elts, strict=True)
        ]
