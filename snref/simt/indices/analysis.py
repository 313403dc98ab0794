"""Statements: the values of all variables, and what holds at each place."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from snref.simt import ir
from snref.simt.indices.accesses import Accesses
from snref.simt.indices.inequalities import NOTHING, Facts, Sum, constant, sum_of
from snref.simt.indices.integers import lasting
from snref.simt.indices.intervals import ANY, of_range
from snref.simt.indices.values import Undefined
from snref.simt.ir import COMPOUNDS, Kernel


class Analysis(Accesses):
    """Goes through the statements, first for intervals and then for indices."""

    def __init__(self, kernel: Kernel, assumed: Sequence[str]):
        super().__init__(kernel, assumed)
        self.stores: dict[ast.stmt, set[str]] = {}

    def settle(self) -> None:
        """Find the interval of every variable: rounds until none grows."""
        while self.changed:
            self.round, self.changed = self.round + 1, False
            self.block(self.kernel.body, NOTHING)
        self.known.clear()
        self.round = 0  # from here on what has no definition may be anything

    def block(
        self, stmts: Sequence[ast.stmt], facts: Facts
    ) -> tuple[list[ast.stmt], Facts]:
        """The statements with wrapped indices, and what holds behind them."""
        out = []
        for stmt in stmts:
            new, facts = self.statement(stmt, facts)
            out.append(new)
        return out, facts

    def stored(self, stmt: ast.stmt) -> set[str]:
        """The variables that a statement gives values to."""
        if stmt not in self.stores:
            self.stores[stmt] = ir.names(stmt, store=True)
        return self.stores[stmt]

    def statement(self, stmt: ast.stmt, facts: Facts) -> tuple[ast.stmt, Facts]:
        new = copy.copy(stmt)
        stored = self.stored(stmt)
        if isinstance(stmt, ir.LOOPS):
            facts = facts.without(stored)  # the next round has other values
        inside = otherwise = facts
        if isinstance(new, ast.For):
            new.iter, inside = self.wrap(new.iter, facts), self.loop(new, facts)
        elif isinstance(new, (ast.If, ast.While)):
            test = ir.test(new)
            inside, otherwise = (self.given(facts, test, way) for way in (True, False))
            new.test = self.wrap(new.test, facts)
        if isinstance(new, COMPOUNDS):
            new.body, _ = self.block(new.body, inside)
            new.orelse, _ = self.block(new.orelse, otherwise)
            if isinstance(stmt, ast.If) and leaves(stmt.orelse):
                facts = inside
            elif (isinstance(stmt, ast.If) and leaves(stmt.body)) or (
                isinstance(stmt, ast.While) and not ir.jumps(stmt)
            ):
                facts = otherwise
            return ir.at(new, stmt.lineno), facts.without(stored)
        self.assigned(stmt, facts)
        for field in ("targets", "target", "value"):
            part = getattr(new, field, None)
            if isinstance(part, list):
                setattr(new, field, [self.wrap(p, facts) for p in part])
            elif isinstance(part, ast.expr):
                setattr(new, field, self.wrap(part, facts))
        facts = facts.without(stored)
        match stmt:
            case ast.Assign([ast.Name(id) as target], value) if id not in ir.names(
                value
            ) and lasting(value):
                if self.is_plain(value):
                    facts = facts.and_(self.parts_say(value))
                if isinstance(value, (ast.Compare, ast.BoolOp)):
                    facts = Facts(facts.forms, (*facts.answers, (id, value)))
                else:
                    facts = facts.and_(self.compared(target, ast.Eq(), value))
        return ir.at(new, stmt.lineno), facts

    def assigned(self, stmt: ast.stmt, facts: Facts) -> None:
        match stmt:
            case ast.Assign([left], value):
                pass
            case ast.AugAssign(left, op, right):
                value = ast.BinOp(left, op, right)
            case _:
                return
        try:
            match left:
                case ast.Name(id) if id in self.wanted and self.ranges.get(id) != ANY:
                    self.define(id, self.interval(value, facts))
                case ast.Subscript(ast.Name(a)) if a in self.own:
                    self.define(a, self.interval(value, facts))
        except Undefined:
            pass

    def parts_say(self, value: ast.expr) -> Iterator[Sum]:
        """What is known of the quotients, maxima and minima in a value.

        0 <= x - x // y * y <= y - 1 (a divisor is not 0), max(x, y) >= x.
        """
        for n in ast.walk(value):
            match n:
                case ast.BinOp(x, ast.FloorDiv(), y) if self.is_natural(y):
                    rest = sum_of(x).plus(sum_of(n).times(sum_of(y)), -1)
                    yield rest
                    yield sum_of(y).plus(constant(1), -1).plus(rest, -1)
                case ast.Call(ast.Name("max" | "min" as function), args):
                    sign = 1 if function == "max" else -1
                    for x in args:
                        yield constant(0).plus(sum_of(n), sign).plus(sum_of(x), -sign)

    def loop(self, stmt: ast.For, facts: Facts) -> Facts:
        """What holds inside a loop over a range."""
        assert isinstance(stmt.target, ast.Name) and isinstance(stmt.iter, ast.Call)
        bounds = ir.bounds(stmt.iter)
        try:
            start, stop, step = (self.interval(b, facts) for b in bounds)
        except Undefined:
            return facts
        self.define(stmt.target.id, of_range(start, stop, step))
        if step[0] < 0 or stmt.target.id in set().union(*map(ir.names, bounds)):
            return facts
        changed = self.stored(stmt)
        forms = [
            *self.compared(stmt.target, ast.GtE(), bounds[0]),
            *self.compared(stmt.target, ast.Lt(), bounds[1]),
        ]
        mine = {stmt.target.id}
        return facts.and_(f for f in forms if not f.names & (changed - mine))


def leaves(stmts: Sequence[ast.stmt]) -> bool:
    """Does nothing behind the statement run if these do?"""
    return bool(stmts) and isinstance(stmts[-1], (ast.Break, ast.Continue))
