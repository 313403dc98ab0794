"""Calls: what a function of `numba.cuda`, `math`, NumPy or Python becomes."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import BuiltinFunctionType
from typing import Any

import numba
import numpy as np

from snref.simt import ir
from snref.simt.front import vectors, views, warps
from snref.simt.front.arrays import Arrays
from snref.simt.front.scope import Scope, is_device_function, python_function
from snref.simt.front.unit import Unit
from snref.simt.ir import at, expression, name

_BUILTINS = {abs, bool, complex, divmod, float, int, len, max, min, pow, print, range}
_BUILTINS |= {round}
_VECTORS = {math.exp, math.log, np.exp, np.log}
_FENCES = {"threadfence", "threadfence_system"}
_OMITTED = {"threadfence_block", "nanosleep"}


class Calls(Arrays):
    """Translates calls."""

    def __init__(self, function: Any, unit: Unit, outer: Scope | None = None):
        super().__init__(function, unit, outer)
        self.grids: set[str] = set()  # variables that hold cg.this_grid()

    def inline(
        self,
        function: Any,
        outer: Scope | None,
        node: ast.Call,
        signatures: Sequence[Any] = (),
    ) -> ast.expr:
        raise NotImplementedError("see inline")

    def call(self, node: ast.Call) -> ast.expr:
        """A call of CUDA, of a device function, or of what Numba compiles itself."""
        cuda_name = self.cuda_name(node.func)
        function = self.object(node.func)
        if isinstance(node.func, ast.Name) and node.func.id in self.nested:
            return self.inline(*self.nested[node.func.id], node=node)
        if cuda_name is not None and not is_device_function(function):
            return self.cuda_call(cuda_name, node)
        if is_device_function(function):
            signatures = getattr(function, "cuda_signatures", ())
            return self.inline(python_function(function), None, node, signatures)
        if any(k.arg is None for k in node.keywords) or any(
            isinstance(a, ast.Starred) for a in node.args
        ):
            raise self.fail(node, "* and ** are not supported in a kernel")
        args = self.sequence(node.args)
        view = views.held(args[0], self.unit.views) if args else None
        if function is len and view is not None:
            return view.sizes()[0]
        keywords = [ast.keyword(k.arg, self.expr(k.value)) for k in node.keywords]
        callee = self.callee(node)
        if callee is not None:
            return ast.Call(callee, args, keywords)
        if self.grid_sync(node):
            return ast.Constant(None)
        if isinstance(node.func, ast.Attribute) and function is None:
            method = self.expr(node.func.value), node.func.attr, ast.Load()
            return ast.Call(ast.Attribute(*method), args, keywords)
        raise self.fail(node, f"{ast.unparse(node.func)} is not supported in a kernel")

    def callee(self, node: ast.Call) -> ast.expr | None:
        """The name of a builtin, ufunc, function of `math` or type that is called."""
        function = self.object(node.func)
        if isinstance(function, (np.ufunc, BuiltinFunctionType)) or (
            isinstance(function, type) and function in _BUILTINS
        ):
            return self.known_function(node, function)
        return self.value(node.func)  # float32(x)

    def known_function(self, node: ast.Call, function: Any) -> ast.expr:
        """The name of a function that Numba knows, imported by the generated text."""
        if function is math.fmod:
            return name(self.unit.needs("fmod"))
        if function is round and len(node.args) == 2:
            return name(self.unit.needs("round_to"))
        if function in _BUILTINS:
            return name(function.__name__)
        if function in _VECTORS:  # instead of one call of a library for each thread
            new = f"_{function.__name__}"
            imported = f"from snref.simt.elementary import {function.__name__} as {new}"
            self.unit.imports[new] = imported
            return name(new)
        module = getattr(function, "__module__", None) or "numpy"
        if isinstance(function, np.ufunc):
            module = "numpy"
        module = module.lstrip("_")  # operator.add is of _operator
        if module not in ("math", "numpy", "cmath", "operator"):
            raise self.fail(
                node, f"{ast.unparse(node.func)} is not supported in a kernel"
            )
        self.unit.imports[module] = f"import {module}"
        return expression(f"{module}.{function.__name__}")

    def cuda_call(self, called: str, node: ast.Call) -> ast.expr:
        """`cuda.<called>(...)`: its result, and before it what it does."""
        unit, line = self.unit, node.lineno
        if called in ("grid", "gridsize"):
            given = self.expr(node.args[0]) if node.args else None
            axes = given.value if isinstance(given, ast.Constant) else None
            if not isinstance(axes, int) or axes not in (1, 2, 3):
                raise self.fail(node, f"cuda.{called} takes 1, 2 or 3")
            along = unit.grid if called == "grid" else unit.gridsize
            each = [along(a) for a in ir.AXES[:axes]]
            return each[0] if len(each) == 1 else ast.Tuple(each, ast.Load())
        if called == "syncthreads":
            self.before.append(at(ast.Expr(ir.call(ir.BARRIER)), line))
            return ast.Constant(None)
        if called in _FENCES:  # which check mode takes note of
            self.before.append(at(ast.Expr(ir.call(ir.FENCE)), line))
            return ast.Constant(None)
        if called in _OMITTED:  # the threads of a run see each other's writes anyway
            return ast.Constant(None)
        if called in ("shared.array", "local.array"):  # within an expression
            held = unit.fresh("array")
            self.declare(name(held, True), node)
            return name(held)
        if called == "const.array_like":
            return self.constant_array(node)
        args = self.sequence(node.args)
        vector = vectors.layout(called)
        if vector:
            return self.vector(vector[0], vector[1], args, node)
        if called == "selp":
            return ast.IfExp(*args)
        if called.startswith("atomic.") and called[7:] in warps.ATOMICS:
            if views.held(args[0], unit.views):  # the same element of the whole array
                element = views.element(args[0], args[1], ast.Load(), unit.views)
                assert isinstance(element, ast.Subscript)
                args[:2] = element.value, element.slice
            return ir.call(unit.needs(f"atomic_{called[7:].rstrip('_')}"), *args)
        if called in warps.PLAIN:
            return ir.call(unit.needs(called), *args)
        lowered = warps.lower(called, args, unit.fresh, unit.block)
        if lowered is None:
            problem = f"cuda.{called} is not supported by the compiled CPU device"
            raise self.fail(node, problem)
        statements, result, needs = lowered
        for needed in needs:
            unit.needs(needed)
        self.before += [at(s, line) for s in statements]
        return result

    def vector(
        self, kind: str, size: int, args: list[ast.expr], node: ast.Call
    ) -> ast.expr:
        """`float32x2(a, b)`, as a new variable."""
        unit = self.unit
        parts = vectors.components(args, unit.vectors)
        if len(parts) != size:
            given = f"{ast.unparse(node.func)} takes {size} numbers, not {len(parts)}"
            raise self.fail(node, given)
        self.type_name(getattr(numba.types, kind))
        new, numbers = unit.fresh("vector"), vectors.converted(kind, parts)
        self.before += vectors.make(new, numbers, unit.vectors, unit.fresh, node.lineno)
        return name(new)

    def is_grid(self, node: ast.expr) -> bool:
        """Does the expression make, or name, the group of all threads of the grid?"""
        if isinstance(node, ast.Call):
            return self.cuda_name(node.func) == "cg.this_grid"
        return isinstance(node, ast.Name) and node.id in self.grids

    def grid_sync(self, node: ast.Call) -> bool:
        """`grid.sync()` is a barrier, if the grid is one block; else it is refused."""
        method = node.func
        if not isinstance(method, ast.Attribute) or method.attr != "sync":
            return False
        if not self.is_grid(method.value):
            return False
        problem = "blocks run one after another: a grid synchronises only as one block"
        self.unit.sites.append(self.fail(node, problem))
        several = expression(" * ".join(ir.GRID) + " != 1")
        site = ast.Constant(len(self.unit.sites) - 1)
        refuse = ast.If(several, [ast.Expr(ir.call(ir.REFUSE, site))], [])
        barrier = ast.Expr(ir.call(ir.BARRIER))
        self.before += [at(refuse, node.lineno), at(barrier, node.lineno)]
        return True
