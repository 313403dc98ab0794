"""Device functions, put in where they are called: each call is a copy.

c[i] = square(a[i])                   _square1_x = a[i]
                              ->      _square1_result = _square1_x * _square1_x
                                      c[i] = _square1_result
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

import numba
from numba.core import sigutils

from snref.simt import ir
from snref.simt.front.recursion import calls_itself, outline
from snref.simt.front.scope import Scope, python_function
from snref.simt.front.statements import Statements
from snref.simt.ir import name


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
        bound = self.bound(inner, node)
        kinds, result = self.signature(inner, node, signatures)
        stored = {n for s in inner.body for n in ir.names(s, store=True)}
        for local in inner.locals - inner.rename.keys():
            inner.rename[local] = name(f"{stem}_{local.lstrip('_')}")
        for p, value in bound.items():
            kind = kinds.get(p)
            plain = isinstance(value, (ast.Name, ast.Constant)) and kind is None
            if plain and p not in stored:  # arrays and unchanged values: by name
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
            value = copy.deepcopy(inner.rename[inner.result])
            return ir.call(result, value) if result else value
        parts = [copy.deepcopy(inner.rename[n]) for n in inner.result]
        return ast.Tuple(parts, ast.Load())

    def bound(self, inner: Function, node: ast.Call) -> dict[str, ast.expr]:
        """The arguments of a call by the names of the function's parameters."""
        given = self.sequence([*node.args, *(k.value for k in node.keywords)])
        order = inner.params[: len(node.args)]
        order += [k.arg for k in node.keywords if k.arg]
        bound = dict(zip(order, given, strict=False))
        defaults = inner.tree.args.defaults
        for p, d in zip(inner.params[::-1], defaults[::-1], strict=False):
            bound.setdefault(p, inner.expr(d))
        if len(given) > len(inner.params) or set(bound) != set(inner.params):
            lacks = ", ".join(p for p in inner.params if p not in bound)
            problem = f"{inner.tree.name} takes {len(inner.params)} arguments"
            raise self.fail(node, problem + f", {lacks} missing" * bool(lacks))
        return bound

    def signature(
        self, inner: Function, node: ast.Call, signatures: Sequence[Any]
    ) -> tuple[dict[str, str], str | None]:
        """The names of the types that a declared signature gives the parameters that
        are numbers, and of the result's type; none without a signature."""
        if not signatures:
            return {}, None
        if len(signatures) > 1:
            problem = f"{inner.tree.name} has several signatures: give it one, or none"
            raise self.fail(node, problem)
        kinds, result = sigutils.normalize_signature(signatures[0])
        numbers = (numba.types.Number, numba.types.Boolean)
        named = {
            p: self.type_name(kind)
            for p, kind in zip(inner.params, kinds, strict=False)
            if isinstance(kind, numbers)
        }
        return named, self.type_name(result) if isinstance(result, numbers) else None

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
