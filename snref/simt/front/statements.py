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
from collections.abc import Callable, Iterable, Sequence

from snref.simt import ir
from snref.simt.front import records, vectors, views
from snref.simt.front.calls import Calls
from snref.simt.front.expressions import DIVISIONS
from snref.simt.front.returns import for_those_who_stay, unmarked
from snref.simt.front.unsupported import unsupported
from snref.simt.ir import assign, at, expression, name


class Statements(Calls):
    """Translates statements."""

    def block(self, stmts: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Statements in plain names, each behind those that its expressions need."""
        outer, self.before = self.before, []
        out: list[ast.stmt] = []
        for stmt in stmts:
            with ir.told_of(self.unit.sources, stmt.lineno, self.unit.kernel):
                translated = self.statement(stmt)
            whole = views.Values(self.unit.views)
            out += [at(whole.visit(s), stmt.lineno) for s in self.before + translated]
            self.before = []
        self.before = outer
        return out

    def statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        line = stmt.lineno
        match stmt:
            case ast.Pass() | ast.Assert() | ast.Expr(ast.Constant()):
                return []
            case ast.Delete(targets) if all(isinstance(t, ast.Name) for t in targets):
                return []
            case ast.Break() | ast.Continue():
                return [stmt]
            case ast.AnnAssign(target, _, value):
                if value is None:
                    return []
                return self.assign(target, value, line)
            case ast.Assign([ast.Name(id)], _) if id in self.aliases:
                return []
            case ast.Assign([target], value):
                return self.assign(target, value, line)
            case ast.AugAssign(target, op, value):
                left = self.expr(target)
                assert isinstance(left, (ast.Name, ast.Subscript, ast.Attribute))
                if isinstance(left, ast.Subscript):
                    left.slice = self.computed_once(left.slice, line)
                divided = stmt if isinstance(op, DIVISIONS) else None
                needed, right = self.apart(value, divided)
                if not needed:
                    return [at(ast.AugAssign(left, op, right), line)]
                # the old value comes first, as Python would have it
                old = self.unit.fresh("old")
                loaded = copy.deepcopy(left)
                loaded.ctx = ast.Load()
                self.before += [assign(old, loaded, line), *needed]
                new = ast.BinOp(name(old), op, right)
                return [at(ast.Assign([left], new), line)]
            case ast.Expr(ast.Attribute() as value) if self.cuda_name(value):
                called = ast.unparse(value)
                raise self.fail(stmt, f"{called} does nothing: write {called}()")
            case ast.Expr(value) if self.is_grid(value):
                return []
            case ast.Raise():
                return [self.raising(stmt, *self.exception(stmt.exc))]
            case ast.Expr(value):
                result = self.expr(value)
                effect = isinstance(result, ast.Call)
                return [at(ast.Expr(result), line)] if effect else []
            case ast.If(test, body, orelse):
                decides = self.expr(unmarked(test))
                if isinstance(decides, ast.Constant):
                    return self.block(body if decides.value else orelse)
                branch = at(ast.If(decides, self.block(body), self.block(orelse)), line)
                return for_those_who_stay(test, branch, self.unit.fresh)
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
        raise self.fail(stmt, unsupported(stmt))

    def computed_once(self, place: ast.expr, line: int) -> ast.expr:
        """The index of an element that is read and written, evaluated before both.

        Check mode and the profile write the index twice: `a[atomic(c)] += 1` would
        count twice.
        """
        if isinstance(place, ast.Tuple):
            parts = [self.computed_once(part, line) for part in place.elts]
            return ast.Tuple(parts, ast.Load())
        if isinstance(place, ast.Slice) or not any(
            isinstance(node, (ast.Call, ast.Subscript)) for node in ast.walk(place)
        ):
            return place
        index = self.unit.fresh("index")
        self.before.append(assign(index, place, line))
        return name(index)

    def loop(
        self, stmt: ast.For, target: ast.expr, values: ast.expr, body: list[ast.stmt]
    ) -> list[ast.stmt]:
        line = stmt.lineno
        if isinstance(target, ast.Name) and self.calls(values) is range:
            over = self.expr(values)
            new = ast.For(self.expr(target), over, self.block(body), [])
            return [at(new, line)]
        k = self.unit.fresh("k")
        rounds, value = self.items(stmt, values)
        if isinstance(rounds, ast.Constant) and rounds.value == 0:
            return []
        first = self.bind(target, value(name(k)), line)
        inside = [*first, *self.block(body)]
        over = ir.call("range", rounds)
        return [at(ast.For(name(k, True), over, inside, []), line)]

    def calls(self, node: ast.expr) -> object:
        """The function that the expression is a call of."""
        return self.object(node.func) if isinstance(node, ast.Call) else None

    def items(
        self, stmt: ast.For, values: ast.expr
    ) -> tuple[ast.expr, Callable[[ast.expr], ast.expr]]:
        """How many rounds a loop over these has, and what it is given in round k."""
        function = self.calls(values)
        if function is enumerate:
            inner, *start = values.args  # type: ignore[attr-defined]
            start += [k.value for k in values.keywords]  # type: ignore[attr-defined]
            rounds, value = self.items(stmt, inner)
            first = self.kept(self.expr(start[0]), stmt) if start else None

            def numbered(k: ast.expr) -> ast.expr:
                number = ast.BinOp(copy.deepcopy(first), ast.Add(), k) if first else k
                return ast.Tuple([number, value(copy.deepcopy(k))], ast.Load())

            return rounds, numbered
        if function is zip:
            each = [self.items(stmt, v) for v in values.args]  # type: ignore[attr-defined]
            lengths = [rounds for rounds, _ in each]
            fewest = ir.call("min", *lengths) if len(lengths) > 1 else lengths[0]

            def together(k: ast.expr) -> ast.expr:
                parts = [value(copy.deepcopy(k)) for _, value in each]
                return ast.Tuple(parts, ast.Load())

            return fewest, together
        over = self.expr(values)
        if function is range:
            assert isinstance(over, ast.Call)
            over.args = [self.kept(a, stmt) for a in over.args]
            first, _, step = ir.bounds(over)

            def counted(k: ast.expr) -> ast.expr:
                return ast.BinOp(first, ast.Add(), ast.BinOp(k, ast.Mult(), step))

            return ir.call("len", over), counted
        if isinstance(over, ast.Subscript):  # `for x in a[i]`
            row = self.unit.fresh("row")
            self.before += self.store(row, over, stmt.lineno)
            over = name(row)
        parts = self.parts(over)
        if parts is not None:
            whole = ast.Tuple(parts, ast.Load())
            return ast.Constant(len(parts)), lambda k: _of(whole, k)
        if isinstance(over, ast.Name) and over.id in self.unit.ndim:
            view = views.held(over, self.unit.views)
            size = view.sizes()[0] if view else expression(f"{over.id}.shape[0]")
            held = self.unit.views
            return size, lambda k: views.element(over, k, ast.Load(), held)
        raise self.fail(
            stmt, "a for loop runs over range(...), a tuple, an array, zip or enumerate"
        )

    def kept(self, value: ast.expr, stmt: ast.stmt) -> ast.expr:
        """The value, computed once before the statement."""
        if isinstance(value, ast.Constant):
            return value
        new = self.unit.fresh("bound")
        self.before.append(assign(new, value, stmt.lineno))
        return name(new)

    def bind(self, target: ast.expr, value: ast.expr, line: int) -> list[ast.stmt]:
        """The variables of a loop get their values."""
        if isinstance(target, ast.Name):
            variable = self.expr(target)
            assert isinstance(variable, ast.Name)
            held, parts = self.unit.vectors, vectors.copied(value, self.unit.vectors)
            if parts and held.get(variable.id, parts).keys() != parts.keys():
                del held[variable.id]  # a loop over vectors of another size
            return self.store(variable.id, value, line)
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
            raise self.fail(target, "a for loop has as many variables as values")
        if len(target.elts) != len(value.elts):
            given = f"{len(target.elts)} variables for {len(value.elts)} values"
            raise self.fail(target, given)
        pairs = zip(target.elts, value.elts, strict=True)
        return [s for t, v in pairs for s in self.bind(t, v, line)]

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
            alone = ir.names(target).isdisjoint(self.several)
            return self.store(left.id, right, line, alone)
        return [at(ast.Assign([left], right), line)]

    def store(
        self, target: str, value: ast.expr, line: int, alone: bool = True
    ) -> list[ast.stmt]:
        """A variable gets a value; a vector, each of its components. `alone`: no other
        statement binds it, so it can stand for a part of an array."""
        if target in self.unit.views.keys() | self.unit.records.keys():
            text = f"{target.lstrip('_')} is part of an array: give it one meaning"
            raise self.unit.error(ast.Pass(lineno=line), text)
        kept: list[ast.stmt] = []

        def keep(index: ast.expr) -> ast.expr:
            if not isinstance(index, ast.Constant):
                kept.append(assign(self.unit.fresh(target), index, line))
                index = name(kept[-1].targets[0].id)  # type: ignore[attr-defined]
            return index

        same = views.held(value, self.unit.views)
        if same and not alone:
            text = f"{ast.unparse(value).lstrip('_')} is part of an array: index it"
            raise self.unit.error(ast.Pass(lineno=line), text)
        view = same or (views.view_of(value, self.unit.ndim, keep) if alone else None)
        if view is not None:
            self.unit.views[target], self.unit.ndim[target] = view, view.ndim
            return kept
        record = records.element_of(value, self.unit.dtypes, keep) if alone else None
        if record is not None:
            self.unit.records[target] = record
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
        parts = self.parts(value)
        if parts is not None:
            value = ast.Tuple(parts, ast.Load())
        if not isinstance(value, ast.Tuple):
            if not isinstance(value, (ast.Name, ast.Attribute)):
                self.before.append(
                    assign(whole := self.unit.fresh("tuple"), value, line)
                )
                value = name(whole)
            each: list[ast.expr] = [
                _of(copy.deepcopy(value), ast.Constant(i)) for i in range(len(left))
            ]
            return self.put_each(left, each, line)
        if len(value.elts) != len(left):
            raise self.fail(
                targets[0], f"{len(left)} targets for {len(value.elts)} values"
            )
        changed = set().union(*(ir.names(t, store=True) for t in left))
        later = set().union(*map(ir.names, value.elts[1:])) if left[1:] else set()
        stores = any(isinstance(t, ast.Subscript) for t in left)
        if later & changed or (stores and any(map(ir.loads, value.elts))):
            held = [name(self.unit.fresh("swap"), True) for _ in left]
            before = self.put_each(held, value.elts, line)
            return before + self.put_each(left, [name(h.id) for h in held], line)
        return self.put_each(left, value.elts, line)

    def put_each(
        self, targets: Sequence[ast.expr], values: Sequence[ast.expr], line: int
    ) -> list[ast.stmt]:
        """Each of the targets, in plain names, gets a value."""
        out: list[ast.stmt] = []
        for target, value in zip(targets, values, strict=True):
            if isinstance(target, ast.Name):
                out += self.store(target.id, value, line)
            else:
                out.append(at(ast.Assign([target], value), line))
        return out


def _of(values: ast.expr, place: ast.expr) -> ast.expr:
    return ast.Subscript(values, place, ast.Load())
