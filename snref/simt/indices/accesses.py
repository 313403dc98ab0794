"""The indices of accesses, wrapped where they may be negative."""

from __future__ import annotations

import ast
import copy

from snref.simt import ir
from snref.simt.indices.inequalities import Facts, sum_of
from snref.simt.indices.values import Values
from snref.simt.parts import is_axis


class Accesses(Values):
    """Prints expressions with wrapped indices."""

    def wrap(self, node: ast.expr, facts: Facts) -> ast.expr:
        """The expression with WRAP around each index that may be negative."""
        if self.round:
            return node  # intervals first
        match node:
            case ast.IfExp(test, body, orelse):
                return ast.IfExp(
                    self.wrap(test, facts),
                    self.wrap(body, self.given(facts, test, True)),
                    self.wrap(orelse, self.given(facts, test, False)),
                )
            case ast.BoolOp(op, values):
                out = []
                for value in values:
                    out.append(self.wrap(value, facts))
                    facts = self.given(facts, value, isinstance(op, ast.And))
                return ast.BoolOp(op, out)
            case ast.Call(ast.Name(ir.WRAP), [place, size]):
                return self.from_end(self.wrap(place, facts), size, facts)
            case ast.Call(ast.Name(ir.CLIP), [place, size]):
                return self.clipped(self.wrap(place, facts), size, facts)
        new = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                parts = [
                    self.wrap(v, facts) if isinstance(v, ast.expr) else v for v in value
                ]
                setattr(new, field, parts)
            elif isinstance(value, ast.expr):
                setattr(new, field, self.wrap(value, facts))
        match new:
            case ast.Subscript(ast.Name(a), place):
                new.slice = self.places(a, place, facts)
            case ast.Call(ast.Name(function), [ast.Name(a), place, _, *_]) if (
                function.startswith("atomic_") and function != ir.WHOLE_SWAP
            ):
                new.args[1] = self.places(a, place, facts)
        return new

    def places(self, a: str, place: ast.expr, facts: Facts) -> ast.expr:
        """The indices of an element of an array, each wrapped if it must be."""
        each = place.elts if isinstance(place, ast.Tuple) else [place]
        ndim = self.kernel.ndim.get(a)
        if len(each) != ndim or any(map(is_axis, each)):
            return place  # an array of its own: Numba's business
        own = self.kernel.arrays.get(a)
        sizes: list[ast.expr] = [
            ast.Constant(own.shape[d]) if own else ir.expression(f"{a}.shape[{d}]")
            for d in range(ndim)
        ]
        out = [self.from_end(p, n, facts) for p, n in zip(each, sizes, strict=True)]
        return ast.Tuple(out, ast.Load()) if isinstance(place, ast.Tuple) else out[0]

    def from_end(self, place: ast.expr, size: ast.expr, facts: Facts) -> ast.expr:
        if self.interval(place, facts)[0] >= 0:
            return place
        form = sum_of(place).terms
        if form.keys() == {()} and isinstance(size, ast.Constant):
            i, n = form[()], size.value
            assert isinstance(n, int)
            if -n <= i:
                return ast.Constant(i + n)
        return ir.call(ir.WRAP, place, size)

    def clipped(self, place: ast.expr, size: ast.expr, facts: Facts) -> ast.expr:
        """An end of a slice, within the array."""
        place = self.from_end(place, size, facts)
        if ir.calls(place, {ir.WRAP}):
            place = ir.call("max", place, ast.Constant(0))
        if isinstance(place, ast.Constant) and place.value == 0:
            return place
        return ir.call("min", place, copy.deepcopy(size))
