"""Device functions, put in where they are called: each call is a copy.

c[i] = square(a[i])                   _square1_x = a[i]
                              ->      _square1_result = _square1_x * _square1_x
                                      c[i] = _square1_result
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numba
from numba.core import sigutils

from snref.simt import ir
from snref.simt.front.recursion import calls_itself, outline
from snref.simt.front.scope import Scope, as_function, python_function
from snref.simt.front.statements import Statements
from snref.simt.ir import assign, name

Converter: TypeAlias = tuple[Any, ...] | None  # a function, and its first argument
_NUMBERS = (numba.types.Number, numba.types.Boolean)


class Function(Statements):
    """Translates one function: the kernel, or a device function where it is called."""

    def inline(
        self,
        function: Any,
        outer: Scope | None,
        node: ast.Call,
        signatures: Sequence[Any] = (),
    ) -> ast.expr:
        """The statements of a device function, in place; its result as a value."""
        inner = Function(function, self.unit, outer)
        if function in self.unit.calling:
            problem = f"{inner.tree.name} is called by a function that it calls"
            raise self.fail(node, f"{problem}; write a loop")
        if calls_itself(inner):
            return self.outlined(inner, node)
        stem = self.unit.fresh(inner.tree.name)
        bound = self.bound(inner, self.spread(node), node)
        kinds, result = self.signature(inner, signatures)
        if len(signatures) > 1:
            result = self.convert(inner, node, signatures, bound)
        stored = {n for s in inner.body for n in ir.names(s, store=True)}
        for local in inner.locals - inner.rename.keys():
            inner.rename[local] = name(f"{stem}_{local.lstrip('_')}")
        if inner.rest:
            places = range(len(inner.by_place), len(inner.by_place) + len(bound))
            more = [bound.pop(str(i)) for i in places if str(i) in bound]
            inner.rename[inner.rest] = ast.Tuple(more, ast.Load())
        for p, value in bound.items():
            kind = kinds.get(p)
            # arrays and unchanged values: by name
            if _is_plain(value) and kind is None and p not in stored:
                inner.rename[p] = value
            else:
                given = value if kind is None else ir.call(kind, value)
                self.before += self.store(f"{stem}_{p}", given, node.lineno)
        self.unit.calling.append(function)
        self.before += inner.block(inner.body)
        self.unit.calling.pop()
        if inner.result is None:
            return ast.Constant(None)
        if isinstance(inner.result, str):
            value = inner.expr(name(inner.result))
            return ir.call(*result, value) if result else value
        parts = [inner.expr(name(n)) for n in inner.result]
        return ast.Tuple(parts, ast.Load())

    def bound(
        self, inner: Function, given: Sequence[tuple[str, ast.expr]], node: ast.Call
    ) -> dict[str, ast.expr]:
        """The arguments of a call by the names of the function's parameters; what is
        more than those, by their places. A function is bound to its name at once."""
        places = {str(i): p for i, p in enumerate(inner.by_place)}
        named = [(places.get(p, p), e) for p, e in given]
        taken = Counter(p for p, _ in named)
        numbers = [(p, e) for p, e in named if not self.gives_function(inner, p, e)]
        values = self.sequence([e for _, e in numbers])
        bound = dict(zip((p for p, _ in numbers), values, strict=True))
        defaults = inner.defaults()
        problem = inner.misfit(taken, set(defaults))
        if problem:
            raise self.fail(node, problem)
        for p in defaults.keys() - taken.keys():
            if not inner.is_function(p, defaults[p]):
                bound[p] = self.default(inner, p, defaults[p])
        return bound

    def misfit(self, given: Counter[str], defaults: set[str]) -> str:
        """What is wrong with a call that gives these parameters, and more by place."""
        called, most = self.tree.name, len(self.by_place)
        places = sum(p.isdigit() for p in given)
        lacks = [p for p in self.params if p not in given.keys() | defaults]
        unknown = [p for p in given if p not in self.params and not p.isdigit()]
        twice = [p for p, n in given.items() if n > 1]
        if places and not self.rest:
            number = f"{most} argument{'s' * (most != 1)}"
            more = " by place" if len(self.params) > most else ""
            return f"{called} takes {number}{more}, not {most + places}"
        if unknown:
            return f"{called} has no parameter {unknown[0]}"
        if twice:
            return f"{called} is given {twice[0]} twice"
        return f"{called} is not given {', '.join(lacks)}" if lacks else ""

    def default(self, inner: Function, p: str, value: Any) -> ast.expr:
        if isinstance(value, ast.expr):
            return self.expr(value)
        known = inner.literal(value, p)
        if known is None:
            what = f"{p}={value!r} of {inner.tree.name}"
            raise self.fail(inner.tree, f"{what} is no number: pass it in the call")
        return known

    def gives_function(self, inner: Function, p: str, node: ast.expr) -> bool:
        """Bind a parameter to the function that the argument names, if it does."""
        if isinstance(node, ast.Lambda):
            inner.nested[p] = as_function(node, "function"), self
            return True
        if isinstance(node, ast.Name) and node.id in self.nested:
            inner.nested[p] = self.nested[node.id]
            return True
        return inner.is_function(p, self.object(node))

    def is_function(self, p: str, value: Any) -> bool:
        """Bind a parameter to an object that can be called, if it is one."""
        if isinstance(value, ast.AST) or not callable(value):
            return False
        self.locals.discard(p)
        self.rename.pop(p, None)
        self.scope = {**self.scope, p: value}
        return True

    def signature(
        self, inner: Function, signatures: Sequence[Any]
    ) -> tuple[dict[str, str], Converter]:
        """The names of the types that a declared signature gives the parameters that
        are numbers, and what converts the result; none unless there is just one."""
        if len(signatures) != 1:
            return {}, None
        kinds, result = sigutils.normalize_signature(signatures[0])
        named = {
            p: self.type_name(kind)
            for p, kind in zip(inner.params, kinds, strict=False)
            if isinstance(kind, _NUMBERS)
        }
        if not isinstance(result, _NUMBERS):
            return named, None
        return named, (self.type_name(result),)

    def convert(
        self,
        inner: Function,
        node: ast.Call,
        signatures: Sequence[Any],
        bound: dict[str, ast.expr],
    ) -> Converter:
        """Convert the arguments that are numbers as one of several signatures says;
        returns what converts the result.

        Which one is known when Numba types the generated text: see `converter`.
        """
        called, unit = inner.tree.name, self.unit
        known = [sigutils.normalize_signature(s) for s in signatures]
        columns = list(zip(*(kinds for kinds, _ in known), strict=False))
        number = [{isinstance(k, _NUMBERS) for k in column} for column in columns]
        if any(len(both) > 1 for both in number):
            problem = f"{called} has several signatures: a parameter is a number in all"
            raise self.fail(node, f"{problem} of them, or in none")
        choose, given = unit.fresh(f"{called}_as"), unit.fresh(f"{called}_given")
        unit.imports[choose] = (
            "from snref.simt.runtime import converter\n"
            f"{choose} = converter({called!r}, {[repr(case) for case in known]})"
        )
        values = ast.Tuple([bound[p] for p in inner.params], ast.Load())
        self.before.append(assign(given, ir.call(choose, values), node.lineno))
        numbers = [p for p, n in zip(inner.params, number, strict=False) if n == {True}]
        converted = [
            ast.Subscript(name(given), ast.Constant(i), ast.Load())
            for i in range(len(numbers) + 1)
        ]
        bound |= zip(numbers, converted, strict=False)
        like = unit.fresh(f"{called}_like")
        self.before.append(assign(like, converted[-1], node.lineno))
        return unit.needs("as_type_of"), name(like)

    def is_itself(self, node: ast.expr) -> bool:
        """Does the expression name this very function?"""
        return python_function(self.object(node)) is self.function

    def outlined(self, inner: Function, node: ast.Call) -> ast.expr:
        """The call of a function that calls itself."""
        unit, called = self.unit, inner.tree.name
        args = self.sequence(node.args)
        arrays = [a for a in args if isinstance(a, ast.Name) and a.id in unit.ndim]
        if arrays or node.keywords:
            raise self.fail(node, f"{called} calls itself: it takes numbers, in order")
        if inner.function not in unit.outlined:
            new, text = outline(inner, unit.fresh)
            unit.outlined[inner.function], unit.imports[new] = new, text
        return ir.call(unit.outlined[inner.function], *args)


def _is_plain(value: ast.expr) -> bool:
    """Is it a name, a number, or a tuple of such?"""
    if isinstance(value, ast.Tuple):
        return all(map(_is_plain, value.elts))
    return isinstance(value, (ast.Name, ast.Constant))
