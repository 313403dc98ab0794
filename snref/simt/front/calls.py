"""Calls: what a function of `numba.cuda`, `math`, NumPy or Python becomes."""

from __future__ import annotations

import ast
import cmath
import math
from collections.abc import Sequence
from types import BuiltinFunctionType
from typing import Any

import numba
import numpy as np

from snref.simt import ir, libdevice
from snref.simt.front import vectors, views, warps
from snref.simt.front.arrays import Arrays
from snref.simt.front.scope import Scope, is_device_function, python_function
from snref.simt.front.unit import Unit
from snref.simt.ir import at, expression, name

_BUILTINS = {abs, bool, complex, divmod, float, int, len, max, min, pow, print, range}
_BUILTINS |= {round}
_VECTORS = {math.exp, math.log, np.exp, np.log}
_OF_GPUS = {math.fmod, math.modf, math.remainder}  # which Numba has for them only
_PAIRS = {cmath.polar, divmod, math.frexp, math.modf}  # functions that return two
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
        if function is print:
            if node.keywords:
                named = f"{node.keywords[0].arg or '**'}="
                raise self.fail(node, f"print takes no {named} in a kernel")
            if any(isinstance(a, ast.JoinedStr) for a in node.args):
                return self.formatted(node)
        given = self.spread(node)
        args = self.sequence([e for _, e in given[: len(given) - len(node.keywords)]])
        parts = self.parts(args[0]) if function is len and len(args) == 1 else None
        if parts is not None:
            return ast.Constant(len(parts))
        view = views.held(args[0], self.unit.views) if args else None
        if function is len and view is not None:
            return view.sizes()[0]
        if hasattr(function, "_fields"):
            return self.named_tuple(function._fields, args, node)
        keywords = [ast.keyword(k.arg, self.expr(k.value)) for k in node.keywords]
        callee = self.callee(node)
        if callee is not None:
            return ast.Call(callee, args, keywords)
        if self.grid_sync(node):
            return ast.Constant(None)
        if isinstance(node.func, ast.Attribute) and function is None:
            method = self.whole(node.func), node.func.attr, ast.Load()
            return ast.Call(ast.Attribute(*method), args, keywords)
        if function is None and isinstance(node.func, ast.Name):
            raise self.unknown(node.func)
        raise self.fail(node, f"{ast.unparse(node.func)} is not supported in a kernel")

    def named_tuple(
        self, fields: Sequence[str], args: list[ast.expr], node: ast.Call
    ) -> ast.expr:
        """`Point(x, y)` of `namedtuple`, as a variable for each field."""
        named = self.sequence([k.value for k in node.keywords])
        given = dict(zip(fields, args, strict=False))
        given |= dict(zip((str(k.arg) for k in node.keywords), named, strict=True))
        if len(args) + len(named) != len(fields) or given.keys() != set(fields):
            what = f"{ast.unparse(node.func)} takes {', '.join(fields)}"
            raise self.fail(node, what)
        new, parts = self.unit.fresh("tuple"), {f: given[f] for f in fields}
        held, fresh = self.unit.vectors, self.unit.fresh
        self.before += vectors.make(new, parts, held, fresh, node.lineno)
        return name(new)

    def formatted(self, node: ast.Call) -> ast.expr:
        """`print(f"x = {x:.2f}", y)` becomes `say("x = {:.2f} {}", (x, y))`."""
        values: list[ast.expr] = []

        def text(part: ast.expr) -> str:
            match part:
                case ast.Constant(str(plain)):
                    return plain.replace("{", "{{").replace("}", "}}")
                case ast.JoinedStr(parts):
                    return "".join(map(text, parts))
                case ast.FormattedValue(value, conversion, how):
                    values.append(value)
                    options = f"!{chr(conversion)}" if conversion > 0 else ""
                    options += f":{text(how)}" if how else ""
                    return f"{{{options}}}"
            values.append(part)
            return "{}"

        form = ast.Constant(" ".join(map(text, node.args)))
        given = ast.Tuple(self.sequence(values), ast.Load())
        return ir.call(self.unit.needs("say"), form, given)

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
        if function in _OF_GPUS:
            return name(self.unit.needs(function.__name__))
        if function is round and len(node.args) == 2:
            return name(self.unit.needs("round_to"))
        if function in _BUILTINS:
            return name(function.__name__)
        if function in _VECTORS and len(node.args) == 1:
            # instead of one call of a library for each thread
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
        self.count_arguments(called, node)
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
        if called.startswith("fp16.") and called[5:] in warps.HALF:
            return ir.call(unit.needs(called[5:], "half"), *args)
        if called.startswith("libdevice.") and called[10:] in libdevice.NUMBERS:
            new = f"_nv_{called[10:]}"
            made = f"{new} = FUNCTIONS[{called[10:]!r}]"
            unit.imports[new] = f"from snref.simt.libdevice import FUNCTIONS\n{made}"
            return ir.call(new, *args)
        lowered = warps.lower(called, args, unit.fresh, unit.block)
        if lowered is None:
            problem = f"cuda.{called} is not supported by the compiled CPU device"
            raise self.fail(node, problem)
        statements, result, needs = lowered
        for needed in needs:
            unit.needs(needed)
        self.before += [at(s, line) for s in statements]
        return result

    def spread(self, node: ast.Call) -> list[tuple[str, ast.expr]]:
        """The arguments of a call, each with its place or name; `*t` is each of t."""
        given: list[ast.expr] = []
        for argument in node.args:
            if not isinstance(argument, ast.Starred):
                given.append(argument)
                continue
            whole = argument.value
            for i in range(self.length(whole)):
                part = ast.Subscript(whole, ast.Constant(i), ast.Load())
                given.append(ast.copy_location(part, argument))
        by_name = [(k.arg, k.value) for k in node.keywords if k.arg]
        if len(by_name) < len(node.keywords):
            raise self.fail(node, "** in a call: give the arguments one by one")
        return [*((str(i), e) for i, e in enumerate(given)), *by_name]

    def length(self, node: ast.expr) -> int:
        """How many values a tuple has."""
        if isinstance(node, ast.Name) and node.id in self.unit.tuples:
            return self.unit.tuples[node.id]
        if isinstance(node, ast.Call) and self.object(node.func) in _PAIRS:
            return 2
        parts = self.parts(self.apart(node)[1])
        if parts is None and isinstance(node, ast.Name):
            value = self.constant_definition(node.id)
            parts = value.elts if isinstance(value, ast.Tuple) else None
        if parts is not None:
            return len(parts)
        text = ast.unparse(node)
        raise self.fail(node, f"*{text}: how many values it has is not known here")

    def count_arguments(self, called: str, node: ast.Call) -> None:
        """Refuse a call of CUDA's with too few or too many arguments, or by name."""
        what = ast.unparse(node.func)
        if called in ("shared.array", "local.array"):  # see `declare`
            return
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.fail(node, f"{what} takes its arguments one by one, in order")
        of_libdevice = {(f"libdevice.{n}",): k for n, k in libdevice.NUMBERS.items()}
        for names, most in (warps.ARGUMENTS | of_libdevice).items():
            least = 0 if called == "syncwarp" else most
            if called in names and not least <= len(node.args) <= most:
                number = f"{most} argument{'s' * (most != 1)}"
                given = f"{what} takes {number}, not {len(node.args)}"
                raise self.fail(node, given)

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
