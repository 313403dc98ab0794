"""Declarations: shared and local arrays are the kernel's, constant ones its arguments.

s = cuda.shared.array((T, T), float32)    ->    shared s: float32[16, 16]
"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from math import prod
from typing import Any

import numba
import numpy as np
from numba.np import numpy_support

from snref.simt import ir
from snref.simt.front.expressions import Expressions
from snref.simt.ir import Array, name

_MADE = ("shared.array", "local.array")
LARGEST_LOCAL = 512 << 10  # bytes a thread: CUDA C++ Programming Guide, table of limits


class Arrays(Expressions):
    """Translates what makes an array."""

    def declare(self, target: ast.Name, value: ast.expr) -> bool:
        """`s = cuda.shared.array(shape, dtype)` becomes an array of the kernel.

        Returns False if the value is no such call.
        """
        called = self.cuda_name(value.func) if isinstance(value, ast.Call) else None
        if called not in _MADE:
            return False
        assert isinstance(value, ast.Call)
        given = dict(zip(("shape", "dtype"), value.args, strict=False))
        given |= {k.arg: k.value for k in value.keywords if k.arg}
        if not {"shape", "dtype"} <= set(given):
            raise self.fail(value, f"cuda.{called} takes a shape and a dtype")
        try:
            shape = ast.literal_eval(self.expr(_Expanded(self).visit(given["shape"])))
        except ValueError:
            raise self.fail(
                value,
                f"the shape of a {called.split('.')[0]} array must be constant: a "
                "number, a global, a closure variable, or a variable that is a "
                "constant throughout the kernel",
            ) from None
        dtype = self.dtype(given["dtype"])
        space: Any = called.split(".")[0]
        shape = shape if isinstance(shape, tuple) else (shape,)
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise self.fail(value, f"the shape {shape} is not of whole numbers >= 0")
        if space == "local" and prod(shape) * ir.itemsize(dtype) > LARGEST_LOCAL:
            raise self.fail(value, "CUDA gives a thread 512 KiB of local memory")
        if space == "shared" and shape == (0,):
            space, shape = "dynamic", (self.unit.dynamic // ir.itemsize(dtype),)
        renamed = self.rename.get(target.id)
        new = renamed.id if isinstance(renamed, ast.Name) else target.id
        array = Array(space, shape, dtype, value.lineno)
        before = self.unit.arrays.setdefault(new, array)
        if replace(before, line=array.line) != array or (
            before is not array and space != "local"
        ):
            problem = f"{target.id} is declared twice: give each array its own name"
            raise self.fail(value, problem)
        self.unit.ndim[new], self.unit.dtypes[new] = len(shape), dtype
        if isinstance(dtype, numba.types.Record):
            self.unit.imports["numpy"] = "import numpy"
        return True

    def dtype(self, node: ast.expr) -> Any:
        """The Numba type that `float32`, `np.int8`, "uint8" or `a.dtype` names."""
        match node:
            case ast.Attribute(base, "dtype") if self.object(node) is None:
                array = self.expr(base)
                known = self.unit.dtypes.get(ast.unparse(array))
                if known is not None:
                    return known
            case ast.Constant(str(text)):
                named: Any = text
            case _:
                named = self.object(node)
        if isinstance(named, numba.types.Type):
            return named
        try:
            if named is not None:  # which NumPy takes for float64
                return numpy_support.from_dtype(np.dtype(named))
        except (TypeError, numba.errors.NumbaError):
            pass
        raise self.fail(node, f"{ast.unparse(node)} is no type") from None

    def constant_array(self, node: ast.Call) -> ast.expr:
        """`cuda.const.array_like(TABLE)` is the global array itself."""
        values = self.object(node.args[0])
        if not isinstance(values, np.ndarray):
            raise self.fail(node, "const.array_like takes a global NumPy array")
        return name(self.constant(values, ast.unparse(node.args[0])))


class _Expanded(ast.NodeTransformer):
    """Replaces local variables by what they are defined as, if that is plain."""

    def __init__(self, scope: Arrays):
        self.scope = scope
        self.inside: set[str] = set()  # variables whose definitions are being expanded

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.scope.locals or node.id in self.scope.params:
            return node
        value = self.scope.constant_definition(node.id)
        if value is None or node.id in self.inside:
            return node
        calls = [n.func for n in ast.walk(value) if isinstance(n, ast.Call)]
        if any(self.scope.cuda_name(function) in _MADE for function in calls):
            return node  # which may be of a shape that this variable decides
        self.inside.add(node.id)
        expanded: ast.expr = self.visit(copy.deepcopy(value))
        self.inside.remove(node.id)
        return expanded
