"""Stage 3: indices that may be negative, which Numba counts from the end of an array.

    if i > 0:                             if i > 0:
        d[i] = a[i] - a[i - 1]    ->          d[i] = a[i] - a[i - 1]
    e[i] = a[i - 1]                       e[i] = a[_wrap(i - 1, a.shape[0])]

An index that cannot be negative stays as it is: it is printed as an unsigned number,
which costs no comparison and keeps addresses affine in the thread's index. To prove it,
every variable, and every shared or local array of whole numbers, gets the interval of
its values (Cousot and Cousot 1977), and conditions
around an access, bounds of loops and definitions are kept as inequalities: under
`i < n` it is known that `n - 1 - i >= 0`, and after `q = i // n` that `i - q * n >= 0`.

Integer parameters are taken not to be negative: `assumed` of the kernel names them, and
a launch with a negative one needs a kernel made without that.
"""

from __future__ import annotations

import ast
import copy
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from numba import types

from snref.simt import ir
from snref.simt.ir import COMPOUNDS, Kernel
from snref.simt.parts import is_axis

Interval: TypeAlias = tuple[float, float]

ANY: Interval = (-math.inf, math.inf)
NATURAL: Interval = (0, math.inf)
TRUTH: Interval = (0, 1)
_PRECISE = 3  # rounds before a bound that still moves is given up
_TERMS = 12  # of a product that is multiplied out
_RESTS = 60  # sums that are looked at in one proof


def indices(kernel: Kernel, assume: bool = True) -> Kernel:
    """The kernel with WRAP around each index that may be negative.

    Unless `assume`, parameters may be negative, too.
    """
    used = set().union(*map(ir.names, kernel.body))
    signed = {p for p, kind in kernel.types.items() if p in used and _is_signed(kind)}
    assumed = tuple(sorted(signed)) if assume else ()
    analysis = _Analysis(kernel, assumed)
    analysis.settle()
    return kernel.with_body(analysis.block(kernel.body, _NOTHING)[0], assumed=assumed)


def _is_signed(kind: types.Type) -> bool:
    """Is it the type of an integer, or of a tuple of integers, that may be negative?"""
    if isinstance(kind, types.BaseTuple):
        parts = [types.unliteral(part) for part in kind]
        return bool(parts) and all(isinstance(part, types.Integer) for part in parts)
    return isinstance(kind, types.Integer) and kind.signed


# ------------------------------------------------------------------ intervals


def _join(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y  # inf * 0 is no number


def _product(a: Interval, b: Interval) -> Interval:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Interval, b: Interval) -> Interval:
    """a // b; by zero it is 0, as NumPy has it."""
    if b[0] < 0:
        return ANY
    divisors = max(b[0], 1), max(b[1], 1)
    corners = [_floor(x, d) for x in a for d in divisors]
    found = min(corners), max(corners)
    return _join(found, (0, 0)) if b[0] == 0 else found


def _floor(x: float, y: float) -> float:
    if math.isinf(y):
        return 0 if x >= 0 else -1
    return x if math.isinf(x) else x // y


def _rest(a: Interval, b: Interval) -> Interval:
    """a % b, of the sign of b."""
    if b[0] < 0:
        return ANY
    if a[0] >= 0 and a[1] < b[0]:
        return a
    most = max(b[1] - 1, 0)
    return 0, min(most, a[1]) if a[0] >= 0 else most


def _bits(a: Interval, b: Interval, both: bool) -> Interval:
    """a & b if `both`, else a | b or a ^ b."""
    natural = [i for i in (a, b) if i[0] >= 0]
    if both:
        return (0, min(i[1] for i in natural)) if natural else ANY
    if len(natural) < 2:
        return ANY
    most = max(a[1], b[1])
    return 0, most if math.isinf(most) else (1 << int(most).bit_length()) - 1


def _operation(op: ast.operator, a: Interval, b: Interval) -> Interval:
    match op:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            return _product(a, b)
        case ast.FloorDiv():
            return _quotient(a, b)
        case ast.Mod():
            return _rest(a, b)
        case ast.RShift() if a[0] >= 0:
            return 0, a[1]
        case ast.RShift():
            return a[0], max(a[1], -1)
        case ast.BitAnd() | ast.BitOr() | ast.BitXor():
            return _bits(a, b, isinstance(op, ast.BitAnd))
        case ast.Div() | ast.Pow() | ast.LShift() if a[0] >= 0 and b[0] >= 0:
            return NATURAL
    return ANY


def _of_range(start: Interval, stop: Interval, step: Interval) -> Interval:
    """The values that `range` goes through."""
    if step[0] >= 0:
        return start[0], max(start[0], stop[1] - 1)
    if step[1] < 0:
        return min(start[1], stop[0] + 1), start[1]
    return _join(start, stop)


# ------------------------------------------------------------------ inequalities


@dataclass(frozen=True)
class _Sum:
    """A sum of multiples of products; a product is the texts of its factors.

    (i + 1) * n - 2 is {("i", "n"): 1, ("n",): 1, (): -2}.
    """

    terms: Mapping[tuple[str, ...], int]
    factors: Mapping[str, ast.expr]  # by their texts

    @cached_property
    def names(self) -> set[str]:
        return set().union(*map(ir.names, self.factors.values()))

    @cached_property
    def key(self) -> frozenset[tuple[tuple[str, ...], int]]:
        return frozenset(self.terms.items())

    def plus(self, other: _Sum, times: int = 1) -> _Sum:
        terms = dict(self.terms)
        for product, n in other.terms.items():
            terms[product] = terms.get(product, 0) + n * times
        return _Sum(
            {product: n for product, n in terms.items() if n},
            {**self.factors, **other.factors},
        )

    def times(self, other: _Sum) -> _Sum:
        made = _Sum({}, {**self.factors, **other.factors})
        for p, n in self.terms.items():
            for q, m in other.terms.items():
                made = made.plus(_Sum({tuple(sorted(p + q)): n * m}, {}))
        return made


def _without(product: tuple[str, ...], factors: tuple[str, ...]) -> Any:
    """The product without these factors; None if it has not all of them."""
    left = list(product)
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _number(n: int) -> _Sum:
    return _Sum({(): n} if n else {}, {})


def _sum(node: ast.expr) -> _Sum:
    match node:
        case ast.Constant(bool() | int() as n):
            return _number(int(n))
        case ast.UnaryOp(ast.USub(), operand):
            return _number(0).plus(_sum(operand), -1)
        case ast.BinOp(left, ast.Add(), right):
            return _sum(left).plus(_sum(right))
        case ast.BinOp(left, ast.Sub(), right):
            return _sum(left).plus(_sum(right), -1)
        case ast.BinOp(left, ast.Mult(), right):
            made = _sum(left).times(_sum(right))
            if len(made.terms) <= _TERMS:
                return made
    text = ast.unparse(node)
    return _Sum({(text,): 1}, {text: node})


@dataclass(frozen=True)
class _Facts:
    """What holds at a place: sums that are at least 0, and what variables with
    an answer have been asked."""

    forms: tuple[_Sum, ...] = ()
    answers: tuple[tuple[str, ast.expr], ...] = ()

    @cached_property
    def by_factor(self) -> dict[str, list[tuple[_Sum, tuple[str, ...], int]]]:
        """The products in them by their first factors, the latest first."""
        found: dict[str, list[tuple[_Sum, tuple[str, ...], int]]] = {}
        for form in reversed(self.forms):
            for product, n in form.terms.items():
                if product:
                    found.setdefault(product[0], []).append((form, product, n))
        return found

    def and_(self, forms: Iterable[_Sum]) -> _Facts:
        return _Facts((*self.forms, *forms), self.answers)

    def without(self, changed: set[str]) -> _Facts:
        """What still holds when these variables have new values."""
        if not changed:
            return self
        forms = tuple(f for f in self.forms if not f.names & changed)
        answers = tuple(
            (v, test)
            for v, test in self.answers
            if v not in changed and not ir.names(test) & changed
        )
        return _Facts(forms, answers)


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.NotEq: ast.Eq,
}


def _lasting(node: ast.expr) -> bool:
    """Does the value change only with the variables in it: is no element read?"""
    calls = (ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call))
    return not ir.loads(node) and _PLAIN.issuperset(calls)


# ------------------------------------------------------------------ whole numbers


def _integers(kernel: Kernel) -> set[str]:
    """The variables that are whole numbers by every definition they have."""
    found: dict[str, list[ast.expr]] = {}
    for node in (n for s in kernel.body for n in ast.walk(s)):
        match node:
            case ast.Assign([ast.Name(id)], value):
                found.setdefault(id, []).append(value)
            case ast.AugAssign(ast.Name(id) as left, op, value):
                found.setdefault(id, []).append(ast.BinOp(left, op, value))
            case ast.For(ast.Name(id)):
                found.setdefault(id, []).append(ast.Constant(0))
    given = {p for p, kind in kernel.types.items() if _is_whole_type(kind)}
    whole = {*ir.THREAD, *ir.BLOCK, *ir.GRID, *found, *given}
    whole -= {p for p in kernel.types if p in found} - given
    while True:
        wrong = {
            v
            for v in whole & found.keys()
            if not all(_is_integer(e, whole, kernel) for e in found[v])
        }
        if not wrong:
            return whole
        whole -= wrong


def _is_whole_type(kind: types.Type) -> bool:
    """Is it the type of a whole number, or of a tuple of such?"""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_whole_type, kind))
    return isinstance(types.unliteral(kind), (types.Integer, types.Boolean))


def _is_integer(node: ast.expr, whole: set[str], kernel: Kernel) -> bool:
    """Is the value surely a whole number, if these variables are?"""
    match node:
        case ast.Constant(value):
            return isinstance(value, int)
        case ast.Name(id) | ast.Call(ast.Name(ir.SLOT), [ast.Name(id), *_]):
            return id in whole
        case ast.Compare() | ast.UnaryOp(ast.Not()):
            return True
        case ast.BinOp(left, op, right):
            parts = [] if isinstance(op, (ast.Div, ast.Pow)) else [left, right]
        case ast.UnaryOp(_, operand):
            parts = [operand]
        case ast.BoolOp(_, values):
            parts = values
        case ast.IfExp(_, body, orelse):
            parts = [body, orelse]
        case ast.Attribute(ast.Name(), "size" | "ndim"):
            return True
        case ast.Subscript(ast.Attribute(ast.Name(), "shape")):
            return True
        case ast.Subscript(ast.Name(a)) if a in kernel.ndim:
            return _is_whole_type(_dtype(kernel, a))
        case ast.Subscript(ast.Name(t)):
            return t in whole
        case ast.Call(ast.Name("min" | "max" | "abs"), args):
            parts = args
        case ast.Call(ast.Name(function)):
            kind = getattr(types, function, None)
            return function in _COUNTS or function == "int" or kind in _WHOLE_TYPES
        case _:
            return False
    return bool(parts) and all(_is_integer(p, whole, kernel) for p in parts)


def _dtype(kernel: Kernel, a: str) -> types.Type:
    own = kernel.arrays.get(a)
    return own.dtype if own else kernel.types[a].dtype


_WHOLE_TYPES = types.integer_domain | {types.boolean}

# ------------------------------------------------------------------ the analysis

_NOTHING = _Facts()
_WIDE = ("int", "int32", "int64", "intp")  # casts that keep every index
_PLAIN = {"min", "max", "abs", "len", *_WIDE}
_COUNTS = {ir.COUNT, ir.VOTE, ir.WRAP, ir.CLIP, "len", "popc", "clz", "ffs"}


class _Undefined(Exception):
    """A variable has no definition yet in this round."""


class _Analysis:
    def __init__(self, kernel: Kernel, assumed: Sequence[str]):
        self.kernel, self.assumed = kernel, assumed
        bounds = dict(zip(ir.THREAD, kernel.block, strict=True))
        self.ranges: dict[str, Interval] = {n: (0, b - 1) for n, b in bounds.items()}
        self.ranges |= dict.fromkeys(ir.BLOCK, NATURAL)
        self.ranges |= dict.fromkeys(ir.GRID, (1, math.inf))
        for p, kind in kernel.types.items():
            self.ranges[p] = NATURAL if p in assumed else _of_type(kind)
        # all that is written to the block's own arrays is in the kernel
        whole = (types.int32, types.int64)
        atomic = set().union(*map(_by_atomics, kernel.body))
        self.own = {n for n, a in kernel.arrays.items() if a.dtype in whole} - atomic
        for a in kernel.arrays.keys() - self.own:
            self.ranges[a] = _of_type(kernel.arrays[a].dtype)
        self.known: dict[str, Interval] = {}  # intervals without inequalities
        self.stores: dict[ast.stmt, set[str]] = {}
        self.wanted, self.whole = _wanted(kernel), _integers(kernel)
        self.round, self.changed = 0, True

    def settle(self) -> None:
        """Find the interval of every variable: rounds until none grows."""
        while self.changed:
            self.round, self.changed = self.round + 1, False
            self.block(self.kernel.body, _NOTHING)
        self.known.clear()
        self.round = 0  # from here on what has no definition may be anything

    def define(self, v: str, found: Interval) -> None:
        known = self.ranges.get(v)
        new = found if known is None else _join(known, found)
        if new == known or not self.round:
            return
        if known is not None and self.round > _PRECISE:
            low, high = new
            low = low if low == known[0] else (0 if low >= 0 else -math.inf)
            new = low, high if high == known[1] else math.inf
        self.ranges[v], self.changed = new, True
        self.known.clear()

    # ---- statements

    def block(
        self, stmts: Sequence[ast.stmt], facts: _Facts
    ) -> tuple[list[ast.stmt], _Facts]:
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

    def statement(self, stmt: ast.stmt, facts: _Facts) -> tuple[ast.stmt, _Facts]:
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
            if isinstance(stmt, ast.If) and _leaves(stmt.orelse):
                facts = inside
            elif (isinstance(stmt, ast.If) and _leaves(stmt.body)) or (
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
            ) and _lasting(value):
                if self.is_plain(value):
                    facts = facts.and_(self.parts_say(value))
                if isinstance(value, (ast.Compare, ast.BoolOp)):
                    facts = _Facts(facts.forms, (*facts.answers, (id, value)))
                else:
                    facts = facts.and_(self.compared(target, ast.Eq(), value))
        return ir.at(new, stmt.lineno), facts

    def given(self, facts: _Facts, test: ast.expr, holds: bool) -> _Facts:
        """What holds besides if the condition does, or does not."""
        return facts.and_(self.implied(facts, test, holds))

    def implied(self, facts: _Facts, test: ast.expr, holds: bool) -> Iterator[_Sum]:
        match test:
            case ast.UnaryOp(ast.Not(), operand):
                yield from self.implied(facts, operand, not holds)
            case ast.BoolOp(op, values) if isinstance(op, ast.And) == holds:
                for value in values:
                    yield from self.implied(facts, value, holds)
            case ast.Compare(left, [op], [right]):
                yield from self.compared(left, op, right, holds)
            case ast.Compare(left, ops, others) if holds:
                lefts = [left, *others]
                for x, op, y in zip(lefts, ops, others, strict=False):
                    yield from self.compared(x, op, y)
            case ast.Name(id):
                for v, asked in facts.answers:
                    if v == id:
                        yield from self.implied(facts, asked, holds)

    def compared(
        self, x: ast.expr, op: ast.cmpop, y: ast.expr, holds: bool = True
    ) -> Iterator[_Sum]:
        """What a comparison of whole numbers says, as sums that are at least 0."""
        if not self.is_plain(x) or not self.is_plain(y):
            return
        kind = type(op) if holds else _OPPOSITE.get(type(op))
        more = _sum(x).plus(_sum(y), -1)
        less = _sum(y).plus(_sum(x), -1)
        one = _number(1)
        if kind in (ast.GtE, ast.Eq):
            yield more
        if kind in (ast.LtE, ast.Eq):
            yield less
        if kind is ast.Gt:
            yield more.plus(one, -1)
        if kind is ast.Lt:
            yield less.plus(one, -1)

    def is_plain(self, node: ast.expr) -> bool:
        """Is it a whole number that changes only with the variables in it?"""
        return _lasting(node) and _is_integer(node, self.whole, self.kernel)

    def assigned(self, stmt: ast.stmt, facts: _Facts) -> None:
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
        except _Undefined:
            pass

    def parts_say(self, value: ast.expr) -> Iterator[_Sum]:
        """What is known of the quotients, maxima and minima in a value.

        0 <= x - x // y * y <= y - 1 (a divisor is not 0), max(x, y) >= x.
        """
        for n in ast.walk(value):
            match n:
                case ast.BinOp(x, ast.FloorDiv(), y) if self.is_natural(y):
                    rest = _sum(x).plus(_sum(n).times(_sum(y)), -1)
                    yield rest
                    yield _sum(y).plus(_number(1), -1).plus(rest, -1)
                case ast.Call(ast.Name("max" | "min" as function), args):
                    sign = 1 if function == "max" else -1
                    for x in args:
                        yield _number(0).plus(_sum(n), sign).plus(_sum(x), -sign)

    def is_natural(self, node: ast.expr) -> bool:
        try:
            return self.interval(node, _NOTHING)[0] >= 0
        except _Undefined:
            return False

    def loop(self, stmt: ast.For, facts: _Facts) -> _Facts:
        """What holds inside a loop over a range."""
        assert isinstance(stmt.target, ast.Name) and isinstance(stmt.iter, ast.Call)
        bounds = ir.bounds(stmt.iter)
        try:
            start, stop, step = (self.interval(b, facts) for b in bounds)
        except _Undefined:
            return facts
        self.define(stmt.target.id, _of_range(start, stop, step))
        if step[0] < 0 or stmt.target.id in set().union(*map(ir.names, bounds)):
            return facts
        changed = self.stored(stmt)
        forms = [
            *self.compared(stmt.target, ast.GtE(), bounds[0]),
            *self.compared(stmt.target, ast.Lt(), bounds[1]),
        ]
        mine = {stmt.target.id}
        return facts.and_(f for f in forms if not f.names & (changed - mine))

    # ---- expressions

    def interval(self, node: ast.expr, facts: _Facts) -> Interval:
        """Between which numbers the value lies."""
        low, high = self.parts(node, facts)
        return (low if low >= 0 else max(low, self.least(_sum(node), facts))), high

    def least(self, form: _Sum, facts: _Facts) -> float:
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

    def doubts(self, form: _Sum) -> int:
        """How many terms of the sum may be negative."""
        return sum(self.term(form, p)[0] < 0 for p in form.terms)

    def lowest(self, form: _Sum) -> float:
        """The least value of a sum by the intervals of its factors."""
        return sum(self.term(form, p)[0] for p in form.terms)

    def term(self, form: _Sum, product: tuple[str, ...]) -> Interval:
        n = form.terms[product]
        value: Interval = n, n
        for factor in product:
            value = _product(value, self.factor(form, factor))
        return value

    def factor(self, form: _Sum, factor: str) -> Interval:
        if factor not in self.known:
            try:
                self.known[factor] = self.parts(form.factors[factor], _NOTHING)
            except _Undefined:
                return ANY
        return self.known[factor]

    def rests(self, form: _Sum, facts: _Facts) -> Iterator[_Sum]:
        """The sum less multiples of those at least 0 that make a term go."""
        for q, m in form.terms.items():
            for factor in dict.fromkeys(q):
                for fact, p, n in facts.by_factor.get(factor, ()):
                    others = _without(q, p) if m * n > 0 and not m % n else None
                    if others is None:
                        continue
                    if all(self.factor(form, f)[0] >= 0 for f in others):
                        times = _Sum({others: m // n}, form.factors)
                        yield form.plus(fact.times(times), -1)

    def parts(self, node: ast.expr, facts: _Facts) -> Interval:
        """The interval of an expression by those of its parts."""
        match node:
            case ast.Constant(bool() | int() | float() as n) if n == n:
                return n, n
            case ast.Name(id):
                return self.variable(id)
            case ast.BinOp(left, op, right):
                sides = self.interval(left, facts), self.interval(right, facts)
                return _operation(op, *sides)
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
                return _join(
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
                return _of_type(_dtype(self.kernel, a))
            case ast.Subscript(ast.Name(t)) if t in self.assumed:
                return NATURAL
            case ast.Call(ast.Name(function), args):
                return self.result(function, args, facts)
        return ANY

    def variable(self, v: str) -> Interval:
        if v not in self.ranges and self.round and v in self.wanted:
            raise _Undefined
        return self.ranges.get(v, ANY)

    def result(
        self, function: str, args: Sequence[ast.expr], facts: _Facts
    ) -> Interval:
        """The interval of what a function returns."""
        if function in ("min", "max") and args:
            of = min if function == "min" else max
            found = [self.interval(a, facts) for a in args]
            return of(f[0] for f in found), of(f[1] for f in found)
        if function == "abs":
            low, high = self.interval(args[0], facts)
            return max(0, low, -high), max(-low, high)
        if function in _WIDE and args:
            low, high = self.interval(args[0], facts)
            return math.floor(low) if abs(low) < math.inf else low, high
        if function.startswith("uint") or function in _COUNTS:
            return NATURAL
        if function == ir.ANY:
            return TRUTH
        if function == ir.SLOT and isinstance(args[0], ast.Name):
            return self.variable(args[0].id)
        if function.startswith("atomic_"):
            a = ast.unparse(args[0])
            return _of_type(_dtype(self.kernel, a)) if a in self.kernel.ndim else ANY
        return ANY

    # ---- accesses

    def wrap(self, node: ast.expr, facts: _Facts) -> ast.expr:
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

    def places(self, a: str, place: ast.expr, facts: _Facts) -> ast.expr:
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

    def from_end(self, place: ast.expr, size: ast.expr, facts: _Facts) -> ast.expr:
        if self.interval(place, facts)[0] >= 0:
            return place
        form = _sum(place).terms
        if form.keys() == {()} and isinstance(size, ast.Constant):
            i, n = form[()], size.value
            assert isinstance(n, int)
            if -n <= i:
                return ast.Constant(i + n)
        return ir.call(ir.WRAP, place, size)

    def clipped(self, place: ast.expr, size: ast.expr, facts: _Facts) -> ast.expr:
        """An end of a slice, within the array."""
        place = self.from_end(place, size, facts)
        if ir.calls(place, {ir.WRAP}):
            place = ir.call("max", place, ast.Constant(0))
        if isinstance(place, ast.Constant) and place.value == 0:
            return place
        return ir.call("min", place, copy.deepcopy(size))


def _wanted(kernel: Kernel) -> set[str]:
    """The variables that indices are computed from."""
    sources: dict[str, set[str]] = {}
    found: set[str] = set()
    for node in (n for s in kernel.body for n in ast.walk(s)):
        match node:
            case ast.Assign([left], right) | ast.AugAssign(left, _, right):
                root = left.value if isinstance(left, ast.Subscript) else left
                if isinstance(root, ast.Name):
                    sources.setdefault(root.id, set()).update(ir.names(right))
            case ast.For(ast.Name(id), over):
                sources.setdefault(id, set()).update(ir.names(over))
            case ast.Subscript(_, place):
                found |= ir.names(place)
            case ast.Call(_, args) if ir.atomic(node):
                found |= set().union(*map(ir.names, args))
    todo = list(found)
    while todo:
        new = sources.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def _by_atomics(stmt: ast.stmt) -> set[str]:
    """Arrays that atomic operations change."""
    return {
        ast.unparse(n.args[0])
        for n in ast.walk(stmt)
        if isinstance(n, ast.Call) and n.args and ir.atomic(n)
    }


def _of_type(kind: types.Type) -> Interval:
    kind = types.unliteral(kind)
    if isinstance(kind, types.Boolean):
        return TRUTH
    if isinstance(kind, types.Integer) and not kind.signed:
        return NATURAL
    return ANY


def _leaves(stmts: Sequence[ast.stmt]) -> bool:
    """Does nothing behind the statement run if these do?"""
    return bool(stmts) and isinstance(stmts[-1], (ast.Break, ast.Continue))
