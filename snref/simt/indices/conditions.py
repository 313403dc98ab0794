"""What a condition says, if it holds and if it does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from snref.simt.indices.inequalities import Facts, Sum, constant, sum_of
from snref.simt.indices.integers import integers, is_integer, lasting
from snref.simt.ir import Kernel

OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.NotEq: ast.Eq,
}


class Conditions:
    """Turns conditions into inequalities."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.whole = kernel, integers(kernel)

    def given(self, facts: Facts, test: ast.expr, holds: bool) -> Facts:
        """What holds besides if the condition does, or does not."""
        return facts.and_(self.implied(facts, test, holds))

    def implied(self, facts: Facts, test: ast.expr, holds: bool) -> Iterator[Sum]:
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
    ) -> Iterator[Sum]:
        """What a comparison of whole numbers says, as sums that are at least 0."""
        if not self.is_plain(x) or not self.is_plain(y):
            return
        kind = type(op) if holds else OPPOSITE.get(type(op))
        more = sum_of(x).plus(sum_of(y), -1)
        less = sum_of(y).plus(sum_of(x), -1)
        one = constant(1)
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
        return lasting(node) and is_integer(node, self.whole, self.kernel)
