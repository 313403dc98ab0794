"""Arithmetic of intervals: the least and the greatest value of a number."""

from __future__ import annotations

import ast
import math
from typing import TypeAlias

from numba import types

Interval: TypeAlias = tuple[float, float]

ANY: Interval = (-math.inf, math.inf)
NATURAL: Interval = (0, math.inf)
TRUTH: Interval = (0, 1)


def join(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y  # inf * 0 is no number


def product_of(a: Interval, b: Interval) -> Interval:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Interval, b: Interval) -> Interval:
    """a // b; by zero it is 0, as NumPy has it."""
    if b[0] < 0:
        return ANY
    divisors = max(b[0], 1), max(b[1], 1)
    corners = [_floor(x, d) for x in a for d in divisors]
    found = min(corners), max(corners)
    return join(found, (0, 0)) if b[0] == 0 else found


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


def operation(op: ast.operator, a: Interval, b: Interval) -> Interval:
    match op:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            return product_of(a, b)
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


def of_range(start: Interval, stop: Interval, step: Interval) -> Interval:
    """The values that `range` goes through."""
    if step[0] >= 0:
        return start[0], max(start[0], stop[1] - 1)
    if step[1] < 0:
        return min(start[1], stop[0] + 1), start[1]
    return join(start, stop)


def of_type(kind: types.Type) -> Interval:
    kind = types.unliteral(kind)
    if isinstance(kind, types.Boolean):
        return TRUTH
    if isinstance(kind, types.Integer) and not kind.signed:
        return NATURAL
    return ANY
