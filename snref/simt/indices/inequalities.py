"""Inequalities: sums of products that are at least 0, and what is known at a place.

Under `i < n` it is known that `n - 1 - i >= 0`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from snref.simt import ir

_TERMS = 12  # of a product that is multiplied out


@dataclass(frozen=True)
class Sum:
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

    def plus(self, other: Sum, times: int = 1) -> Sum:
        terms = dict(self.terms)
        for product, n in other.terms.items():
            terms[product] = terms.get(product, 0) + n * times
        return Sum(
            {product: n for product, n in terms.items() if n},
            {**self.factors, **other.factors},
        )

    def times(self, other: Sum) -> Sum:
        made = Sum({}, {**self.factors, **other.factors})
        for p, n in self.terms.items():
            for q, m in other.terms.items():
                made = made.plus(Sum({tuple(sorted(p + q)): n * m}, {}))
        return made


def without_factors(product: tuple[str, ...], factors: tuple[str, ...]) -> Any:
    """The product without these factors; None if it has not all of them."""
    left = list(product)
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def constant(n: int) -> Sum:
    return Sum({(): n} if n else {}, {})


def sum_of(node: ast.expr) -> Sum:
    match node:
        case ast.Constant(bool() | int() as n):
            return constant(int(n))
        case ast.UnaryOp(ast.USub(), operand):
            return constant(0).plus(sum_of(operand), -1)
        case ast.BinOp(left, ast.Add(), right):
            return sum_of(left).plus(sum_of(right))
        case ast.BinOp(left, ast.Sub(), right):
            return sum_of(left).plus(sum_of(right), -1)
        case ast.BinOp(left, ast.Mult(), right):
            made = sum_of(left).times(sum_of(right))
            if len(made.terms) <= _TERMS:
                return made
    text = ast.unparse(node)
    return Sum({(text,): 1}, {text: node})


@dataclass(frozen=True)
class Facts:
    """What holds at a place: sums that are at least 0, and what variables with
    an answer have been asked."""

    forms: tuple[Sum, ...] = ()
    answers: tuple[tuple[str, ast.expr], ...] = ()

    @cached_property
    def by_factor(self) -> dict[str, list[tuple[Sum, tuple[str, ...], int]]]:
        """The products in them by their first factors, the latest first."""
        found: dict[str, list[tuple[Sum, tuple[str, ...], int]]] = {}
        for form in reversed(self.forms):
            for product, n in form.terms.items():
                if product:
                    found.setdefault(product[0], []).append((form, product, n))
        return found

    def and_(self, forms: Iterable[Sum]) -> Facts:
        return Facts((*self.forms, *forms), self.answers)

    def without(self, changed: set[str]) -> Facts:
        """What still holds when these variables have new values."""
        if not changed:
            return self
        forms = tuple(f for f in self.forms if not f.names & changed)
        answers = tuple(
            (v, test)
            for v, test in self.answers
            if v not in changed and not ir.names(test) & changed
        )
        return Facts(forms, answers)


NOTHING = Facts()
