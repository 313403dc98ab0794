"""Between which numbers a value lies: by its parts, and by what is known at a place."""

from __future__ import annotations

import ast
import heapq
import math
from collections.abc import Iterator, Sequence

from numba import types

from snref.simt import ir
from snref.simt.indices.conditions import Conditions
from snref.simt.indices.inequalities import (
    NOTHING,
    Facts,
    Sum,
    sum_of,
    without_factors,
)
from snref.simt.indices.integers import (
    COUNTS,
    WIDE,
    by_atomics,
    dtype_of,
    wanted_for_indices,
)
from snref.simt.indices.intervals import (
    ANY,
    NATURAL,
    TRUTH,
    Interval,
    join,
    of_type,
    operation,
    product_of,
)
from snref.simt.ir import Kernel

_PRECISE = 3  # rounds before a bound that still moves is given up
_RESTS = 60  # sums that are looked at in one proof


class Undefined(Exception):
    """A variable has no definition yet in this round."""


class Values(Conditions):
    """Keeps the interval of every variable."""

    def __init__(self, kernel: Kernel, assumed: Sequence[str]):
        super().__init__(kernel)
        self.assumed = assumed
        bounds = dict(zip(ir.THREAD, kernel.block, strict=True))
        self.ranges: dict[str, Interval] = {n: (0, b - 1) for n, b in bounds.items()}
        self.ranges |= dict.fromkeys(ir.BLOCK, NATURAL)
        self.ranges |= dict.fromkeys(ir.GRID, (1, math.inf))
        for p, kind in kernel.types.items():
            self.ranges[p] = NATURAL if p in assumed else of_type(kind)
        # all that is written to the block's own arrays is in the kernel
        whole = (types.int32, types.int64)
        atomic = set().union(*map(by_atomics, kernel.body))
        self.own = {n for n, a in kernel.arrays.items() if a.dtype in whole} - atomic
        for a in kernel.arrays.keys() - self.own:
            self.ranges[a] = of_type(kernel.arrays[a].dtype)
        self.known: dict[str, Interval] = {}  # intervals without inequalities
        self.wanted = wanted_for_indices(kernel)
        self.round, self.changed = 0, True

    def define(self, v: str, found: Interval) -> None:
        known = self.ranges.get(v)
        new = found if known is None else join(known, found)
        if new == known or not self.round:
            return
        if known is not None and self.round > _PRECISE:
            low, high = new
            low = low if low == known[0] else (0 if low >= 0 else -math.inf)
            new = low, high if high == known[1] else math.inf
        self.ranges[v], self.changed = new, True
        self.known.clear()

    def interval(self, node: ast.expr, facts: Facts) -> Interval:
        """Between which numbers the value lies."""
        low, high = self.parts(node, facts)
        return (low if low >= 0 else max(low, self.least(sum_of(node), facts))), high

    def least(self, form: Sum, facts: Facts) -> float:
        """The least value of a sum, by the inequalities that hold here.

        A sum less what is at least 0 is no greater. Such rests are looked at until one
        is surely natural, those with the fewest terms that may be negative first.
        """
        found, seen = -math.inf, {form.key}
        todo = [(self.doubts(form), 0, form)]
        while todo and len(seen) < _RESTS:
            _, _, form = heapq.heappop(todo)
            found = max(found, self.lowest(form))
            if found >= 0:
                break
            for rest in self.rests(form, facts):
                if rest.key not in seen:
                    seen.add(rest.key)
                    heapq.heappush(todo, (self.doubts(rest), len(seen), rest))
        return found

    def doubts(self, form: Sum) -> int:
        """How many terms of the sum may be negative."""
        return sum(self.term(form, p)[0] < 0 for p in form.terms)

    def lowest(self, form: Sum) -> float:
        """The least value of a sum by the intervals of its factors."""
        return sum(self.term(form, p)[0] for p in form.terms)

    def term(self, form: Sum, product: tuple[str, ...]) -> Interval:
        n = form.terms[product]
        value: Interval = n, n
        for factor in product:
            value = product_of(value, self.factor(form, factor))
        return value

    def factor(self, form: Sum, factor: str) -> Interval:
        if factor not in self.known:
            try:
                self.known[factor] = self.parts(form.factors[factor], NOTHING)
            except Undefined:
                return ANY
        return self.known[factor]

    def rests(self, form: Sum, facts: Facts) -> Iterator[Sum]:
        """The sum less multiples of those at least 0 that make a term go."""
        for q, m in form.terms.items():
            for factor in dict.fromkeys(q):
                for fact, p, n in facts.by_factor.get(factor, ()):
                    others = without_factors(q, p) if m * n > 0 and not m % n else None
                    if others is None:
                        continue
                    if all(self.factor(form, f)[0] >= 0 for f in others):
                        times = Sum({others: m // n}, form.factors)
                        yield form.plus(fact.times(times), -1)

    def parts(self, node: ast.expr, facts: Facts) -> Interval:
        """The interval of an expression by those of its parts."""
        match node:
            case ast.Constant(bool() | int() | float() as n) if n == n:
                return n, n
            case ast.Name(id):
                return self.variable(id)
            case ast.BinOp(left, op, right):
                sides = self.interval(left, facts), self.interval(right, facts)
                return operation(op, *sides)
            case ast.UnaryOp(ast.Not()) | ast.Compare():
                return TRUTH
            case ast.UnaryOp(op, operand):
                low, high = self.interval(operand, facts)
                if isinstance(op, ast.UAdd):
                    return low, high
                off = 1 if isinstance(op, ast.Invert) else 0
                return -high - off, -low - off
            case ast.BoolOp(_, values):
                found = [self.interval(v, facts) for v in values]
                return min(f[0] for f in found), max(f[1] for f in found)
            case ast.IfExp(test, body, orelse):
                return join(
                    self.interval(body, self.given(facts, test, True)),
                    self.interval(orelse, self.given(facts, test, False)),
                )
            case ast.Attribute(_, "size" | "ndim"):
                return NATURAL
            case ast.Subscript(ast.Attribute(_, "shape")):
                return NATURAL
            case ast.Subscript(ast.Name(a)) if a in self.kernel.arrays:
                return self.variable(a)
            case ast.Subscript(ast.Name(a)) if a in self.kernel.ndim:
                return of_type(dtype_of(self.kernel, a))
            case ast.Subscript(ast.Name(t)) if t in self.assumed:
                return NATURAL
            case ast.Call(ast.Name(function), args):
                return self.result(function, args, facts)
        return ANY

    def variable(self, v: str) -> Interval:
        if v not in self.ranges and self.round and v in self.wanted:
            raise Undefined
        return self.ranges.get(v, ANY)

    def result(self, function: str, args: Sequence[ast.expr], facts: Facts) -> Interval:
        """The interval of what a function returns."""
        if function in ("min", "max") and args:
            of = min if function == "min" else max
            found = [self.interval(a, facts) for a in args]
            return of(f[0] for f in found), of(f[1] for f in found)
        if function == "abs":
            low, high = self.interval(args[0], facts)
            return max(0, low, -high), max(-low, high)
        if function in WIDE and args:
            low, high = self.interval(args[0], facts)
            return math.floor(low) if abs(low) < math.inf else low, high
        if function.startswith("uint") or function in COUNTS:
            return NATURAL
        if function == ir.ANY:
            return TRUTH
        if function == ir.SLOT and isinstance(args[0], ast.Name):
            return self.variable(args[0].id)
        if function.startswith("atomic_"):
            a = ast.unparse(args[0])
            return of_type(dtype_of(self.kernel, a)) if a in self.kernel.ndim else ANY
        return ANY

    def is_natural(self, node: ast.expr) -> bool:
        try:
            return self.interval(node, NOTHING)[0] >= 0
        except Undefined:
            return False
