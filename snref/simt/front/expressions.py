"""Expressions: operands from left to right, and statements that must come first.

c[i] = a[i] + f(i)                    _left1 = a[i]
                              ->      ... the statements of f, into _result ...
                                      c[i] = _left1 + _result
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from numba.types import Record

from snref.simt import ir
from snref.simt.front import records, vectors, views
from snref.simt.front.scope import Scope
from snref.simt.front.unit import Unit
from snref.simt.front.unsupported import unsupported
from snref.simt.ir import assign, at, name

DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple, ast.Slice)
_EQUALITY = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


class Expressions(Scope):
    """Translates expressions; `before` collects the statements that they need."""

    def __init__(self, function: Any, unit: Unit, outer: Scope | None = None):
        super().__init__(function, unit, outer)
        self.before: list[ast.stmt] = []

    def expr(self, node: ast.expr) -> ast.expr:
        """The expression in plain names; what must come first goes to `before`."""
        new: ast.expr = at(self.translate(node), getattr(node, "lineno", 0))
        return new

    def translate(self, node: ast.expr) -> ast.expr:
        """The expression in plain names, its new parts without a line number."""
        match node:
            case ast.Constant():
                return node
            case ast.Name(id, ctx):
                if id in self.rename or id in self.locals:
                    new = copy.deepcopy(self.rename.get(id, name(id)))
                    if isinstance(new, ast.Name):
                        new.ctx = ctx
                        return copy.deepcopy(self.unit.records.get(new.id, new))
                    return new
                known = self.value(node)
                if known is None:
                    raise self.unknown(node)
                return known
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.IfExp() | ast.BoolOp():
                return self.short_circuit(node)
            case ast.NamedExpr(target, value):
                self.before += self.assign(target, value, node.lineno)
                return self.expr(
                    ast.copy_location(ast.Name(target.id, ast.Load()), node)
                )
            case ast.Subscript() if self.object(node) is not None:
                return self.value(node) or node
            case ast.Subscript(value, index, ctx):
                base, place = self.sequence([value, index])
                place = self.without_dots(base, place)
                parts = self.parts(base)
                if parts and isinstance(place, ast.Constant):
                    return self.part(parts, place.value, node)
                if self.unit.debug:
                    self.within(base, place, node)
                return views.element(base, place, ctx, self.unit.views)
            case _ if isinstance(node, _OPERATORS):
                return _fold(self.divided(self.by_value(node, self.generic(node))))
        raise self.fail(node, unsupported(node))

    def without_dots(self, base: ast.expr, place: ast.expr) -> ast.expr:
        """`a[..., 1]` as `a[:, :, 1]`, if it is known how many indices `a` has."""
        indices = place.elts if isinstance(place, ast.Tuple) else [place]
        dots = [i for i, e in enumerate(indices) if _is_dots(e)]
        ndim = self.unit.ndim.get(base.id) if isinstance(base, ast.Name) else None
        if len(dots) != 1 or ndim is None:
            return place
        whole = [ast.Slice() for _ in range(ndim + 1 - len(indices))]
        every = [*indices[: dots[0]], *whole, *indices[dots[0] + 1 :]]
        return every[0] if len(every) == 1 else ast.Tuple(every, ast.Load())

    def by_value(self, source: ast.expr, node: ast.expr) -> ast.expr:
        """`x is 3` compares numbers, which have no identity in a kernel."""
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            known = {type(p.value) for p in parts if isinstance(p, ast.Constant)}
            if known & {int, str}:
                equal = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}
                node.ops = [equal.get(type(op), type(op))() for op in node.ops]
            if str in known and not all(isinstance(op, _EQUALITY) for op in node.ops):
                problem = "texts and members of an Enum have no order: use == or !="
                raise self.fail(source, problem)
        return node

    def exception(self, node: ast.expr | None) -> tuple[Any, ...]:
        """The class and the arguments of an exception that is raised; empty if they
        are not known before the kernel runs."""
        called = node.func if isinstance(node, ast.Call) else node
        kind = self.object(called) if called is not None else None
        given = node.args if isinstance(node, ast.Call) else []
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            return ()
        known = [a if isinstance(a, ast.Constant) else self.value(a) for a in given]
        values = [a.value for a in known if isinstance(a, ast.Constant)]
        return (kind, *values) if len(values) == len(given) else ()

    def raising(self, node: ast.stmt | ast.expr, *raised: Any) -> ast.stmt:
        """The statement that ends the launch: a thread raises this at this place."""
        text = ast.unparse(node)
        if not isinstance(node, ast.Raise):
            text = f"{raised[0].__name__}: {raised[1]}: {text}"
        error = self.unit.error(node, text, "raised")
        if raised and not self.unit.calling:  # Numba, too: in the kernel itself only
            error.raises = raised[0], raised[1:]
        self.unit.sites.append(error)
        thread = ir.expression(ir.thread_number(self.unit.block))
        ended = ir.ending(len(self.unit.sites) - 1, thread)
        end: ast.stmt = at(ast.Return(ended), node.lineno)
        return end

    def divided(self, node: ast.expr) -> ast.expr:
        """A division, which raises with `debug=True` if the divisor is 0."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, DIVISIONS):
            node.right = self.divisor(node.right, node)
        return node

    def divisor(self, value: ast.expr, node: ast.expr | ast.stmt) -> ast.expr:
        """The value, which is not 0 behind the statements that come first."""
        known = isinstance(value, ast.Constant) and value.value
        if not self.unit.debug or known:
            return value
        if not isinstance(value, (ast.Name, ast.Constant)):
            new = self.unit.fresh("divisor")
            self.before.append(assign(new, value, node.lineno))
            value = name(new)
        zero = ast.Compare(value, [ast.Eq()], [ast.Constant(0)])
        self.refuse_if(zero, node, ZeroDivisionError, "division by zero")
        return value

    def within(self, base: ast.expr, place: ast.expr, node: ast.expr) -> None:
        """A thread that asks for a value that a tuple does not have raises."""
        parts, size = self.parts(base), 0
        match base:
            case _ if parts is not None:
                size = len(parts)
            case ast.Attribute(ast.Name(a), "shape" | "strides"):
                size = self.unit.ndim.get(a, 0)
            case ast.Name(t):
                size = self.unit.tuples.get(t, 0)
        if size:
            inside = ir.expression(f"{-size} <= {ast.unparse(place)} < {size}")
            outside = ast.UnaryOp(ast.Not(), inside)
            self.refuse_if(outside, node, IndexError, "tuple index out of range")

    def refuse_if(self, test: ast.expr, node: Any, *raised: Any) -> None:
        """A thread for which this is so raises."""
        refused = ast.If(test, [self.raising(node, *raised)], [])
        self.before.append(at(refused, node.lineno))

    def parts(self, value: ast.expr) -> list[ast.expr] | None:
        """The values of a tuple or vector; None if they have no expressions here."""
        if isinstance(value, ast.Tuple):
            return value.elts
        held = vectors.copied(value, self.unit.vectors)
        return list(held.values()) if held else None

    def part(self, parts: list[ast.expr], i: Any, node: ast.expr) -> ast.expr:
        if not isinstance(i, int) or not -len(parts) <= i < len(parts):
            raise self.fail(node, f"{ast.unparse(node)}: it has {len(parts)} values")
        return parts[i]

    def call(self, node: ast.Call) -> ast.expr:
        raise NotImplementedError("see calls")

    def assign(self, target: ast.expr, value: ast.expr, line: int) -> list[ast.stmt]:
        raise NotImplementedError("see statements")

    def generic(self, node: ast.expr) -> ast.expr:
        """The node with its operands translated."""
        new = copy.copy(node)
        spots = [
            (field, i)
            for field, value in ast.iter_fields(node)
            for i in (range(len(value)) if isinstance(value, list) else [None])
            if isinstance(value if i is None else value[i], ast.expr)
        ]
        old = [getattr(node, f) if i is None else getattr(node, f)[i] for f, i in spots]
        for (field, i), operand in zip(spots, self.sequence(old), strict=True):
            if i is None:
                setattr(new, field, operand)
            else:
                values = list(getattr(new, field))
                values[i] = operand
                setattr(new, field, values)
        return new

    def sequence(self, nodes: Iterable[ast.expr]) -> list[ast.expr]:
        """Operands from left to right. If one needs statements, those left of it that
        read memory are computed first, as Python would."""
        done: list[ast.expr] = []
        for node in nodes:
            start = len(self.before)
            value = self.expr(node)
            if len(self.before) > start:
                changed = set().union(
                    *(ir.names(s, store=True) for s in self.before[start:])
                )
                for i, earlier in enumerate(done):
                    if ir.loads(earlier) or ir.names(earlier) & changed:
                        spilled = self.unit.fresh("left")
                        line = getattr(node, "lineno", 0)
                        self.before.insert(start, assign(spilled, earlier, line))
                        done[i] = at(name(spilled), line)
                        start += 1
            done.append(value)
        return done

    def as_tuple(self, value: ast.expr) -> ast.expr:
        """A tuple or vector with a variable for each value, as one value."""
        parts = vectors.copied(value, self.unit.vectors)
        return ast.Tuple(list(parts.values()), ast.Load()) if parts else value

    def apart(
        self, node: ast.expr, divided: ast.stmt | None = None
    ) -> tuple[list[ast.stmt], ast.expr]:
        """An expression, and the statements it needs, kept out of `before`; `divided`
        is the statement that divides by it."""
        outer, self.before = self.before, []
        value = self.expr(node)
        if divided is not None:
            value = self.divisor(value, divided)
        needed, self.before = self.before, outer
        return needed, value

    def short_circuit(self, node: ast.IfExp | ast.BoolOp) -> ast.expr:
        """`a if c else b`, `a and b`: with statements in a branch, an `if`."""
        first, *others = (
            [node.test, node.body, node.orelse]
            if isinstance(node, ast.IfExp)
            else node.values
        )
        test = self.expr(first)
        branches = [(n, self.as_tuple(v)) for n, v in map(self.apart, others)]
        if not any(needed for needed, _ in branches):
            values = [v for _, v in branches]
            if isinstance(node, ast.BoolOp):
                return ast.BoolOp(node.op, [test, *values])
            if isinstance(test, ast.Constant):
                return values[0 if test.value else 1]
            return ast.IfExp(test, *values)
        line, result = node.lineno, self.unit.fresh("either")
        if isinstance(node, ast.IfExp):
            both = [
                [*needed, assign(result, value, line)] for needed, value in branches
            ]
            self.before.append(at(ast.If(test, *both), line))
            return name(result)
        self.before.append(assign(result, test, line))
        for needed, value in branches:
            go_on: ast.expr = name(result)
            if isinstance(node.op, ast.Or):
                go_on = ast.UnaryOp(ast.Not(), go_on)
            self.before.append(
                at(ast.If(go_on, [*needed, assign(result, value, line)], []), line)
            )
        return name(result)

    def attribute(self, node: ast.Attribute) -> ast.expr:
        """`cuda.threadIdx.x`, a module's constant, `a.shape`, a vector's `v.x`."""
        base = self.cuda_name(node.value)
        if base == "threadIdx" and node.attr in ir.AXES:
            return self.unit.thread_index(node.attr)
        if base in ("blockIdx", "gridDim") and node.attr in ir.AXES:
            return name(f"{base}_{node.attr}")
        if base == "blockDim" and node.attr in ir.AXES:
            return ast.Constant(self.unit.block[ir.AXES.index(node.attr)])
        known = self.value(node)
        if known is not None:
            return known
        if self.object(node) is not None:
            raise self.unknown(node)
        value = self.whole(node)
        made = self.unit.arrays.get(value.id) if isinstance(value, ast.Name) else None
        if made is not None and node.attr == "shape":
            sizes: list[ast.expr] = [ast.Constant(size) for size in made.shape]
            return ast.Tuple(sizes, ast.Load())
        view = views.held(value, self.unit.views)
        if view is not None and node.attr == "shape":
            return ast.Tuple(view.sizes(), ast.Load())
        if view is not None and node.attr == "size":
            return reduce(lambda n, m: ast.BinOp(n, ast.Mult(), m), view.sizes())
        record = records.type_of(value, self.unit.dtypes)
        if isinstance(record, Record) and node.attr not in record.fields:
            text = f"{node.attr} is no field of it: it has {', '.join(record.fields)}"
            raise self.fail(node, f"{ast.unparse(node)}: {text}")
        part = vectors.component(value, node.attr, self.unit.vectors)
        return part or ast.Attribute(value, node.attr, node.ctx)

    def whole(self, node: ast.Attribute) -> ast.expr:
        """What an attribute is asked of, which is nothing global."""
        if self.object(node.value) is not None:
            raise self.fail(node, f"{ast.unparse(node.value)} has no {node.attr}")
        return self.expr(node.value)


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _fold(node: ast.expr) -> ast.expr:
    """Compute what is made of constants only.

    >>> [ast.unparse(_fold(ir.expression(e))) for e in ("4 * 16", "n * 2")]
    ['64', 'n * 2']
    """
    operands: dict[type, Callable[[Any], list[ast.expr]]] = {
        ast.BinOp: lambda n: [n.left, n.right],
        ast.UnaryOp: lambda n: [n.operand],
        ast.Compare: lambda n: [n.left, *n.comparators],
    }
    if type(node) not in operands:
        return node
    parts = operands[type(node)](node)
    if not all(isinstance(p, ast.Constant) for p in parts):
        return node
    try:
        code = compile(ast.Expression(at(copy.deepcopy(node), 1)), "", "eval")
        return ir.constant(eval(code, {"__builtins__": {}}))
    except (ArithmeticError, TypeError, ValueError):
        return node
