"""Device functions, put in where they are called: each call is a copy.

c[i] = square(a[i])                   _square1_x = a[i]
                              ->      _square1_result = _square1_x * _square1_x
                                      c[i] = _square1_result
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from snref.simt import ir
from snref.simt.front.recursion import calls_itself, outline
from snref.simt.front.scope import python_function
from snref.simt.front.statements import Statements
from snref.simt.ir import name


class Function(Statements):
    """Translates one function: the kernel, or a device function where it is called."""

    def inline(self, function: Any, node: ast.Call) -> ast.expr:
        """The statements of a device function, in place; its result as a value."""
        if function in self.unit.calling:
            raise self.fail(
                node,
                f"{function.__name__} is called by a function that it calls; "
                "write a loop",
            )
        inner = Function(function, self.unit)
        if calls_itself(inner):
            return self.outlined(inner, node)
        stem = self.unit.fresh(function.__name__)
        given = self.sequence([*node.args, *(k.value for k in node.keywords)])
        order = inner.params[: len(node.args)]
        order += [k.arg for k in node.keywords if k.arg]
        bound = dict(zip(order, given, strict=False))
        missing = inner.params[len(node.args) :]
        defaults = inner.tree.args.defaults
        for p, d in zip(inner.params[::-1], defaults[::-1], strict=False):
            bound.setdefault(p, inner.expr(d))
        if len(given) > len(inner.params) or set(bound) != set(inner.params):
            lacks = [p for p in missing if p not in bound]
            raise self.fail(
                node,
                f"{function.__name__} takes {len(inner.params)} arguments"
                + (f", {', '.join(lacks)} missing" if lacks else ""),
            )
        stored = {n for s in inner.body for n in ir.names(s, store=True)}
        for local in inner.locals:
            inner.rename[local] = name(f"{stem}_{local.lstrip('_')}")
        for p, value in bound.items():
            plain = isinstance(value, (ast.Name, ast.Constant))
            if plain and p not in stored:  # arrays and unchanged values: by name
                inner.rename[p] = value
            else:
                self.before += self.store(f"{stem}_{p}", value, node.lineno)
        self.unit.calling.append(function)
        self.before += inner.block(inner.body)
        self.unit.calling.pop()
        if inner.result is None:
            return ast.Constant(None)
        if isinstance(inner.result, str):
            return copy.deepcopy(inner.rename[inner.result])
        parts = [copy.deepcopy(inner.rename[n]) for n in inner.result]
        return ast.Tuple(parts, ast.Load())

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
