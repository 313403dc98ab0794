"""Stage 1: a Python function -> a kernel in which every CUDA name is a plain name.

Constants are folded in (globals, closures, the block's shape), device functions are
inlined, `return` becomes nesting, and what a thread does inside an expression that
needs statements (a call, a shuffle) is written before it. For a block of 64 threads

    @cuda.jit                             scale(a, c)  block (64, 1, 1)
    def scale(a, c):                          i = blockIdx_x * 64 + threadIdx_x
        i = cuda.grid(1)            ->        if not i >= c.size:
        if i >= c.size:                           c[i] = a[i] * 3
            return
        c[i] = a[i] * FACTOR
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import cuda
from numba.np import numpy_support

from snref.simt import ir, vectors, warps
from snref.simt.ir import Array, Kernel, KernelError, assign, at, expression, name
from snref.simt.recursion import calls_itself, outline
from snref.simt.returns import without_returns
from snref.simt.views import View, view_of

_EXPRESSIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple, ast.Slice)
_BUILTINS = {abs, bool, complex, divmod, float, int, len, max, min, pow, print, range}
_BUILTINS |= {round}
_VECTORS = {math.exp, math.log, np.exp, np.log}
_OMITTED = {"threadfence", "threadfence_block", "threadfence_system", "nanosleep"}


def _cuda_names() -> dict[int, str]:
    """The object behind each name of `numba.cuda` that a kernel may use, and the name.

    Looked up by object: a kernel may have written `from numba.cuda import grid as g`.
    """
    spaces = ("atomic", "shared", "local", "const", "libdevice", "cg", "fp16")
    known: dict[int, str] = {}
    for space in ("", *spaces):
        inside = getattr(cuda, space, None) if space else cuda
        for n in dir(inside) if inside is not None else ():
            if not n.startswith("_") and not isinstance(
                getattr(inside, n), (ModuleType, int, str, numba.types.Type)
            ):
                known.setdefault(id(getattr(inside, n)), f"{space}.{n}" if space else n)
    return known


_CUDA = _cuda_names()


def python_function(kernel: Any) -> Any:
    """The Python function behind a `@cuda.jit` dispatcher, or the function itself."""
    return getattr(kernel, "py_func", kernel)


def front(
    kernel: Any, block: tuple[int, int, int], types: Sequence[Any], dynamic: int = 0
) -> Kernel:
    """Read the kernel for one block shape and these Numba types of its arguments."""
    unit = _Unit(block, dynamic)
    function = _Function(python_function(kernel), unit, {})
    if len(types) != len(function.params):
        raise KernelError(
            f"{function.place(function.tree)}: {function.tree.name}: takes "
            f"{len(function.params)} arguments, got {len(types)}"
        )
    arguments = dict(zip(function.params, types, strict=True))
    unit.ndim |= {
        p: t.ndim for p, t in arguments.items() if isinstance(t, numba.types.Array)
    }
    body = function.block(function.body)
    if function.result:
        raise unit.error(function.tree, "a kernel returns nothing; write to an array")
    constants = {n: numba.typeof(v) for n, v in unit.constants.items()}
    return Kernel(
        name=function.tree.name,
        files=tuple(unit.files),
        line=function.tree.lineno,
        block=block,
        types={**arguments, **constants},
        body=tuple(ast.fix_missing_locations(s) for s in body),
        arrays=unit.arrays,
        imports=dict(sorted(unit.imports.items())),
        constants=unit.constants,
        dynamic=dynamic,
        sites=tuple(unit.sites),
    )


class _Unit:
    """What the functions of one kernel share."""

    def __init__(self, block: tuple[int, int, int], dynamic: int):
        self.block, self.dynamic = block, dynamic
        self.files: list[str] = []
        self.kernel = ""
        self.arrays: dict[str, Array] = {}
        self.ndim: dict[str, int] = {}  # of the arrays and views, by name
        self.views: dict[str, View] = {}
        self.imports: dict[str, str] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.taken: set[str] = set()
        self.calling: list[Any] = []
        self.outlined: dict[Any, str] = {}  # functions that call themselves
        self.vectors: vectors.Vectors = {}
        self.sites: list[str] = []  # the texts of REFUSE

    def fresh(self, stem: str) -> str:
        """A name nobody uses."""
        stem = "_" + stem.lstrip("_")
        number = 1
        while f"{stem}{number}" in self.taken:
            number += 1
        self.taken.add(f"{stem}{number}")
        return f"{stem}{number}"

    def file(self, path: str) -> int:
        """The number of a source file."""
        if path not in self.files:
            self.files.append(path)
        return self.files.index(path)

    def error(self, node: Any, problem: str) -> KernelError:
        line = getattr(node, "lineno", 0)
        place = Kernel(self.kernel, tuple(self.files), 0, (1, 1, 1), {}, ()).error
        return place(line, problem)

    def thread_index(self, axis: str) -> ast.expr:
        if self.block[ir.AXES.index(axis)] == 1:
            return ast.Constant(0)
        return name(f"threadIdx_{axis}")

    def place(self, called: str, axis: str) -> ast.expr:
        """`cuda.grid` or `cuda.gridsize` along one axis."""
        threads = self.block[ir.AXES.index(axis)]
        one = f"blockIdx_{axis}" if called == "grid" else f"gridDim_{axis}"
        if threads > 1:
            one += f" * {threads}"
            one += f" + threadIdx_{axis}" if called == "grid" else ""
        return expression(one)

    def thread(self) -> str:
        """The number of a thread in its block, as an expression."""
        bx, by, bz = self.block
        terms = ["threadIdx_x" if bx > 1 else "0"]
        terms += [f"threadIdx_y * {bx}"] if by > 1 else []
        terms += [f"threadIdx_z * {bx * by}"] if bz > 1 else []
        return " + ".join(terms)


class _Function:
    """Translates one function: the kernel, or a device function where it is called."""

    def __init__(self, function: Any, unit: _Unit, rename: dict[str, ast.expr]):
        self.function, self.unit, self.rename = function, unit, rename
        code = function.__code__
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except OSError as e:
            raise KernelError(
                f"{code.co_filename}:{code.co_firstlineno}: {function.__name__}: its "
                "source is not at hand; define the kernel in a file"
            ) from e
        tree = ast.parse(source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise KernelError(
                f"{code.co_filename}:{code.co_firstlineno}: a kernel is a function "
                "written with def"
            )
        first = unit.file(code.co_filename) * ir.FILE + code.co_firstlineno - 1
        self.tree = ast.increment_lineno(tree, first)
        unit.kernel = unit.kernel or tree.name
        self.params = [a.arg for a in tree.args.args]
        if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs:
            raise unit.error(tree, "takes only plain parameters")
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        closure = {n: c.cell_contents for n, c in cells}
        self.scope = {**vars(builtins), **function.__globals__, **closure}
        self.body, self.result = without_returns(copy.deepcopy(tree).body)
        stored = [ir.names(s, store=True) for s in self.body]
        self.locals = set(self.params).union(*stored)
        for n in sorted(self.locals & ir.RESERVED):
            raise unit.error(
                tree, f"{n} is a name of the compiler's own: choose another"
            )
        unit.taken |= ir.names(tree) | self.locals
        self.before: list[ast.stmt] = []
        self.grids: set[str] = set()  # variables that hold cg.this_grid()

    def place(self, node: ast.stmt) -> str:
        return f"{self.function.__code__.co_filename}:{node.lineno % ir.FILE}"

    def fail(self, node: ast.AST, problem: str) -> KernelError:
        return self.unit.error(node, problem)

    # ---- what a name stands for

    def object(self, node: ast.AST) -> Any:
        """The Python object of a global name or dotted name, else None."""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            return self.scope.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.object(node.value)
            if base is not None and not isinstance(base, np.ndarray):
                return getattr(base, node.attr, None)
        return None

    def cuda_name(self, node: ast.AST) -> str | None:
        """`grid`, `atomic.add` ... if the expression names something of numba.cuda."""
        return _CUDA.get(id(self.object(node)))

    def value(self, node: ast.expr) -> ast.expr | None:
        """The constant, type or function that a global name stands for."""
        o = self.object(node)
        if isinstance(o, (np.bool_, np.number)):  # first: a np.float64 is a float
            kind = self.type_name(numpy_support.from_dtype(o.dtype))
            return ir.call(kind, ast.Constant(o.item()))
        for plain in (bool, int, float, complex):
            if isinstance(o, plain):
                exact: Any = plain  # an IntEnum's member is an int, and not its repr
                return ast.Constant(exact(o))
        if isinstance(o, tuple) and all(isinstance(i, (int, float)) for i in o):
            return expression(repr(o))
        if isinstance(o, numba.types.Type):
            return name(self.type_name(o))
        if isinstance(o, type) and issubclass(o, np.generic):
            return name(self.type_name(numpy_support.from_dtype(np.dtype(o))))
        if isinstance(o, np.ndarray):
            return name(self.constant(o, ast.unparse(node).split(".")[-1]))
        return None

    def type_name(self, kind: Any) -> str:
        kind = numba.types.boolean if kind.name == "bool" else kind
        stem = "boolean" if kind is numba.types.boolean else kind.name
        self.unit.imports[stem] = f"{stem} = numba.types.{stem}"
        return stem

    def constant(self, values: np.ndarray, stem: str) -> str:
        """The name under which the launch hands over a global array."""
        for known, array in self.unit.constants.items():
            if array is values:
                return known
        new = self.unit.fresh(stem)
        self.unit.constants[new] = values
        self.unit.ndim[new] = values.ndim
        return new

    # ---- expressions

    def expr(self, node: ast.expr) -> ast.expr:
        """The expression in plain names; what must come first goes to `before`."""
        new: ast.expr = at(self.translate(node), getattr(node, "lineno", 0))
        return new

    def translate(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant():
                return node
            case ast.Name(id, ctx):
                if id in self.rename:
                    new = copy.deepcopy(self.rename[id])
                    if isinstance(new, ast.Name):
                        new.ctx = ctx
                    return new
                if id in self.locals:
                    return name(id, isinstance(ctx, ast.Store))
                return self.value(node) or self.unknown(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.IfExp() | ast.BoolOp():
                return self.short_circuit(node)
            case ast.Subscript(value, index, ctx):
                base, place = self.sequence([value, index])
                self.no_negative(node, base, place)
                return self.element(base, place, ctx)
            case _ if isinstance(node, _EXPRESSIONS):
                return _fold(self.generic(node))
        raise self.fail(node, f"{type(node).__name__} is not supported in a kernel")

    def unknown(self, node: ast.expr) -> ast.expr:
        text = ast.unparse(node)
        o = self.object(node)
        if o is None:
            raise self.fail(node, f"name {text} is not defined")
        what = getattr(type(o), "__name__", "object")
        raise self.fail(node, f"{text} ({what}) is not supported; pass it as argument")

    def generic(self, node: ast.expr) -> ast.expr:
        """The node with its operands translated."""
        new = copy.copy(node)
        spots = [
            (field, i)
            for field, value in ast.iter_fields(node)
            for i in (range(len(value)) if isinstance(value, list) else [None])
            if isinstance(value if i is None else value[i], ast.expr)
        ]
        old = [getattr(node, f) if i is None else getattr(node, f)[i] for f, i in spots]
        for (field, i), operand in zip(spots, self.sequence(old), strict=True):
            if i is None:
                setattr(new, field, operand)
            else:
                values = list(getattr(new, field))
                values[i] = operand
                setattr(new, field, values)
        return new

    def sequence(self, nodes: Iterable[ast.expr]) -> list[ast.expr]:
        """Operands from left to right. If one needs statements, those left of it that
        read memory are computed first, as Python would."""
        done: list[ast.expr] = []
        for node in nodes:
            start = len(self.before)
            value = self.expr(node)
            if len(self.before) > start:
                for i, earlier in enumerate(done):
                    if ir.loads(earlier):
                        spilled = self.unit.fresh("left")
                        line = getattr(node, "lineno", 0)
                        self.before.insert(start, assign(spilled, earlier, line))
                        done[i] = at(name(spilled), line)
                        start += 1
            done.append(value)
        return done

    def attribute(self, node: ast.Attribute) -> ast.expr:
        base = self.cuda_name(node.value)
        if base == "threadIdx" and node.attr in ir.AXES:
            return self.unit.thread_index(node.attr)
        if base in ("blockIdx", "gridDim") and node.attr in ir.AXES:
            return name(f"{base}_{node.attr}")
        if base == "blockDim" and node.attr in ir.AXES:
            return ast.Constant(self.unit.block[ir.AXES.index(node.attr)])
        match self.cuda_name(node):
            case "laneid":
                return expression(f"({self.unit.thread()}) % {warps.SIZE}")
            case "warpsize":
                return ast.Constant(warps.SIZE)
        known = self.value(node)
        if known is not None:
            return known
        if self.object(node) is not None:
            return self.unknown(node)
        value = self.expr(node.value)
        view = self.view(value)
        if view is not None and node.attr == "shape":
            return ast.Tuple(view.sizes(), ast.Load())
        if view is not None and node.attr == "size":
            return reduce(lambda n, m: ast.BinOp(n, ast.Mult(), m), view.sizes())
        part = vectors.component(value, node.attr, self.unit.vectors)
        return part or ast.Attribute(value, node.attr, node.ctx)

    def element(
        self, base: ast.expr, place: ast.expr, ctx: ast.expr_context
    ) -> ast.expr:
        """An element of an array, of what a view is of, or of a tuple."""
        if isinstance(base, ast.Tuple) and isinstance(place, ast.Constant):
            return base.elts[place.value]  # type: ignore[index]
        view = self.view(base)
        if view is None:
            return ast.Subscript(base, place, ctx)
        given = place.elts if isinstance(place, ast.Tuple) else [place]
        whole = ast.Tuple(view.element(given), ast.Load())
        inside = whole.elts[0] if len(whole.elts) == 1 else whole
        return ast.Subscript(name(view.array), inside, ctx)

    def view(self, node: ast.expr) -> View | None:
        return self.unit.views.get(node.id) if isinstance(node, ast.Name) else None

    def short_circuit(self, node: ast.IfExp | ast.BoolOp) -> ast.expr:
        """`a if c else b`, `a and b`: with statements in a branch, an `if`."""
        first, *others = (
            [node.test, node.body, node.orelse]
            if isinstance(node, ast.IfExp)
            else node.values
        )
        test = self.expr(first)
        branches = [self.apart(e) for e in others]
        if not any(needed for needed, _ in branches):
            values = [v for _, v in branches]
            if isinstance(node, ast.BoolOp):
                return ast.BoolOp(node.op, [test, *values])
            if isinstance(test, ast.Constant):
                return values[0 if test.value else 1]
            return ast.IfExp(test, *values)
        line, result = node.lineno, self.unit.fresh("either")
        if isinstance(node, ast.IfExp):
            both = [
                [*needed, assign(result, value, line)] for needed, value in branches
            ]
            self.before.append(at(ast.If(test, *both), line))
            return name(result)
        self.before.append(assign(result, test, line))
        for needed, value in branches:
            go_on: ast.expr = name(result)
            if isinstance(node.op, ast.Or):
                go_on = ast.UnaryOp(ast.Not(), go_on)
            self.before.append(
                at(ast.If(go_on, [*needed, assign(result, value, line)], []), line)
            )
        return name(result)

    def apart(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """An expression, and the statements it needs, kept out of `before`."""
        outer, self.before = self.before, []
        value = self.expr(node)
        needed, self.before = self.before, outer
        return needed, value

    def no_negative(self, node: ast.Subscript, base: ast.expr, place: ast.expr) -> None:
        parts = place.elts if isinstance(place, ast.Tuple) else [place]
        if not isinstance(base, ast.Name):
            return
        for part in parts:
            if (
                isinstance(part, ast.Constant)
                and isinstance(part.value, int)
                and part.value < 0
                and base.id in self.unit.ndim
            ):
                raise self.fail(
                    node,
                    f"negative index in {ast.unparse(node)}: CUDA reads what lies "
                    "before the array; count from its shape",
                )

    # ---- calls

    def call(self, node: ast.Call) -> ast.expr:
        cuda_name = self.cuda_name(node.func)
        function = self.object(node.func)
        if cuda_name is not None and not _is_device(function):
            return self.cuda_call(cuda_name, node)
        if _is_device(function):
            return self.inline(python_function(function), node)
        if any(k.arg is None for k in node.keywords) or any(
            isinstance(a, ast.Starred) for a in node.args
        ):
            raise self.fail(node, "* and ** are not supported in a kernel")
        args = self.sequence(node.args)
        view = self.view(args[0]) if function is len and args else None
        if view is not None:
            return view.sizes()[0]
        keywords = [ast.keyword(k.arg, self.expr(k.value)) for k in node.keywords]
        callee = self.callee(node)
        if callee is not None:
            return ast.Call(callee, args, keywords)
        if self.grid_sync(node):
            return ast.Constant(None)
        if isinstance(node.func, ast.Attribute) and function is None:
            method = ast.Attribute(self.expr(node.func.value), node.func.attr)
            return ast.Call(method, args, keywords)
        raise self.fail(node, f"{ast.unparse(node.func)} is not supported in a kernel")

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
        self.unit.sites.append(str(self.fail(node, problem)))
        several = expression(" * ".join(ir.GRID) + " != 1")
        site = ast.Constant(len(self.unit.sites) - 1)
        refuse = ast.If(several, [ast.Expr(ir.call(ir.REFUSE, site))], [])
        barrier = ast.Expr(ir.call(ir.BARRIER))
        self.before += [at(refuse, node.lineno), at(barrier, node.lineno)]
        return True

    def callee(self, node: ast.Call) -> ast.expr | None:
        """The name of a builtin, ufunc, function of `math` or type that is called."""
        function = self.object(node.func)
        if isinstance(function, (np.ufunc, BuiltinFunctionType)) or (
            isinstance(function, type) and function in _BUILTINS
        ):
            return self.known_function(node, function)
        return self.value(node.func)  # float32(x)

    def known_function(self, node: ast.Call, function: Any) -> ast.expr:
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
        unit, line = self.unit, node.lineno
        if called in ("grid", "gridsize"):
            given = self.expr(node.args[0]) if node.args else None
            axes = given.value if isinstance(given, ast.Constant) else None
            if not isinstance(axes, int) or axes not in (1, 2, 3):
                raise self.fail(node, f"cuda.{called} takes 1, 2 or 3")
            each = [unit.place(called, a) for a in ir.AXES[:axes]]
            return each[0] if len(each) == 1 else ast.Tuple(each, ast.Load())
        if called == "syncthreads":
            self.before.append(at(ast.Expr(ir.call(ir.BARRIER)), line))
            return ast.Constant(None)
        if called in _OMITTED:  # the threads of a run see each other's writes anyway
            return ast.Constant(None)
        if called in ("shared.array", "local.array"):  # within an expression
            held = unit.fresh("array")
            self.declare(name(held, True), node)
            return name(held)
        if called == "const.array_like":
            values = self.object(node.args[0])
            if not isinstance(values, np.ndarray):
                raise self.fail(node, "const.array_like takes a global NumPy array")
            return name(self.constant(values, ast.unparse(node.args[0])))
        args = self.sequence(node.args)
        vector = vectors.layout(called)
        if vector:
            return self.vector(vector[0], vector[1], args, node)
        if called == "selp":
            return ast.IfExp(*args)
        if called.startswith("atomic.") and called[7:] in warps.ATOMICS:
            if self.view(args[0]):
                element = self.element(args[0], args[1], ast.Load())
                assert isinstance(element, ast.Subscript)
                args[:2] = element.value, element.slice
            function = f"atomic_{called[7:].rstrip('_')}"
            unit.imports[function] = f"from snref.simt.runtime import {function}"
            return ir.call(function, *args)
        if called in warps.PLAIN:
            function = warps.PLAIN[called]
            unit.imports[function] = f"from snref.simt.runtime import {function}"
            return ir.call(function, *args)
        lowered = warps.lower(called, args, unit.thread(), unit.fresh, unit.block)
        if lowered is None:
            raise self.fail(
                node, f"cuda.{called} is not supported by the compiled CPU device"
            )
        statements, result, needs = lowered
        for needed in needs:
            unit.imports[needed] = f"from snref.simt.runtime import {needed}"
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

    def inline(self, function: Any, node: ast.Call) -> ast.expr:
        """The statements of a device function, in place; its result as a value."""
        if function in self.unit.calling:
            raise self.fail(
                node,
                f"{function.__name__} is called by a function that it calls; "
                "write a loop",
            )
        inner = _Function(function, self.unit, {})
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

    def outlined(self, inner: _Function, node: ast.Call) -> ast.expr:
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

    # ---- statements

    def block(self, stmts: Iterable[ast.stmt]) -> list[ast.stmt]:
        outer, self.before = self.before, []
        out: list[ast.stmt] = []
        for stmt in stmts:
            translated = self.statement(stmt)
            out += [*self.before, *translated]
            self.before = []
        self.before = outer
        return out

    def statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        line = stmt.lineno
        match stmt:
            case ast.Pass() | ast.Assert() | ast.Expr(ast.Constant()):
                return []
            case ast.Break() | ast.Continue():
                return [stmt]
            case ast.AnnAssign(target, _, value) if value is not None:
                return self.assign(target, value, line)
            case ast.Assign([target], value):
                return self.assign(target, value, line)
            case ast.AugAssign(target, op, value):
                left, right = self.sequence([target, value])
                assert isinstance(left, (ast.Name, ast.Subscript))
                return [at(ast.AugAssign(left, op, right), line)]
            case ast.Expr(value):
                result = self.expr(value)
                effect = isinstance(result, ast.Call)
                return [at(ast.Expr(result), line)] if effect else []
            case ast.If(test, body, orelse):
                decides = self.expr(test)
                if isinstance(decides, ast.Constant):
                    return self.block(body if decides.value else orelse)
                return [at(ast.If(decides, self.block(body), self.block(orelse)), line)]
            case ast.For(target, values, body, []):
                return self.loop(stmt, target, values, body)
            case ast.While(test, body, []):
                needed, decides = self.apart(test)
                inside = self.block(body)
                if not needed:
                    return [at(ast.While(decides, inside, []), line)]
                leave = ast.If(ast.UnaryOp(ast.Not(), decides), [ast.Break()], [])
                always = ast.Constant(True)
                whole = [*needed, at(leave, line), *inside]
                return [at(ast.While(always, whole, []), line)]
        what = {ast.For: "for ... else", ast.While: "while ... else"}.get(
            type(stmt), type(stmt).__name__.lower()
        )
        raise self.fail(stmt, f"{what} is not supported in a kernel")

    def loop(
        self, stmt: ast.For, target: ast.expr, values: ast.expr, body: list[ast.stmt]
    ) -> list[ast.stmt]:
        if not isinstance(target, ast.Name):
            raise self.fail(stmt, "a for loop has one variable")
        line, over = stmt.lineno, self.expr(values)
        if isinstance(values, ast.Call) and self.object(values.func) is range:
            new = ast.For(self.expr(target), over, self.block(body), [])
            return [at(new, line)]
        k = self.unit.fresh("k")  # over the elements of a tuple or of a 1-d array
        if isinstance(over, ast.Tuple):
            size: ast.expr = ast.Constant(len(over.elts))
        elif isinstance(over, ast.Name) and self.unit.ndim.get(over.id) == 1:
            view = self.view(over)
            size = view.sizes()[0] if view else expression(f"{over.id}.shape[0]")
        else:
            raise self.fail(
                stmt, "a for loop must run over range(...), a tuple or a 1-d array"
            )
        element = self.element(over, name(k), ast.Load())
        if isinstance(over, ast.Tuple):
            element = ast.Subscript(over, name(k), ast.Load())
        first = ast.Assign([self.expr(target)], element)
        rounds = ir.call("range", size)
        return [
            at(ast.For(name(k, True), rounds, [first, *self.block(body)], []), line)
        ]

    def assign(self, target: ast.expr, value: ast.expr, line: int) -> list[ast.stmt]:
        if isinstance(target, ast.Name) and self.declare(target, value):
            return []
        if isinstance(target, ast.Name) and self.is_grid(value):
            self.grids.add(target.id)
            return []
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.unpack(target.elts, self.expr(value), line)
        if isinstance(target, ast.Subscript):
            right, left = self.sequence([value, target])
        else:
            right, left = self.expr(value), self.expr(target)
        if isinstance(left, ast.Name):
            return self.store(left.id, right, line)
        return [at(ast.Assign([left], right), line)]

    def store(self, target: str, value: ast.expr, line: int) -> list[ast.stmt]:
        """A variable gets a value; a vector, each of its components."""
        if target in self.unit.views:
            text = f"{target.lstrip('_')} is part of an array: give it one meaning"
            raise self.unit.error(ast.Pass(lineno=line), text)
        kept: list[ast.stmt] = []

        def keep(index: ast.expr) -> ast.expr:
            if not isinstance(index, ast.Constant):
                kept.append(assign(self.unit.fresh(target), index, line))
                index = name(kept[-1].targets[0].id)  # type: ignore[attr-defined]
            return index

        view = view_of(value, self.unit.ndim, keep)
        if view is not None:
            self.unit.views[target], self.unit.ndim[target] = view, view.ndim
            return kept
        held = self.unit.vectors
        parts = vectors.copied(value, held)
        if parts:
            return vectors.make(target, parts, held, self.unit.fresh, line)
        return [assign(target, value, line)]

    def unpack(
        self, targets: list[ast.expr], value: ast.expr, line: int
    ) -> list[ast.stmt]:
        left = [self.expr(t) for t in targets]
        if not isinstance(value, ast.Tuple):
            if not isinstance(value, (ast.Name, ast.Attribute)):
                self.before.append(
                    assign(whole := self.unit.fresh("tuple"), value, line)
                )
                value = name(whole)
            parts: list[ast.expr] = [
                ast.Subscript(copy.deepcopy(value), ast.Constant(i), ast.Load())
                for i in range(len(left))
            ]
            return [
                at(ast.Assign([t], v), line) for t, v in zip(left, parts, strict=True)
            ]
        if len(value.elts) != len(left):
            raise self.fail(
                targets[0], f"{len(left)} targets for {len(value.elts)} values"
            )
        changed = set().union(*(ir.names(t, store=True) for t in left))
        later = set().union(*map(ir.names, value.elts[1:])) if left[1:] else set()
        stores = any(isinstance(t, ast.Subscript) for t in left)
        if later & changed or (stores and any(map(ir.loads, value.elts))):
            held = [self.unit.fresh("swap") for _ in left]
            return [
                assign(h, v, line) for h, v in zip(held, value.elts, strict=True)
            ] + [
                at(ast.Assign([t], name(h)), line)
                for t, h in zip(left, held, strict=True)
            ]
        return [
            at(ast.Assign([t], v), line) for t, v in zip(left, value.elts, strict=True)
        ]

    def declare(self, target: ast.Name, value: ast.expr) -> bool:
        """`s = cuda.shared.array(shape, dtype)` becomes an array of the kernel."""
        called = self.cuda_name(value.func) if isinstance(value, ast.Call) else None
        if called not in ("shared.array", "local.array"):
            return False
        assert isinstance(value, ast.Call)
        given = dict(zip(("shape", "dtype"), value.args, strict=False))
        given |= {k.arg: k.value for k in value.keywords if k.arg}
        if not {"shape", "dtype"} <= set(given):
            raise self.fail(value, f"cuda.{called} takes a shape and a dtype")
        try:
            shape = ast.literal_eval(self.expr(given["shape"]))
        except ValueError:
            raise self.fail(
                value,
                f"the shape of a {called.split('.')[0]} array must be constant: a "
                "number, a global or a closure variable",
            ) from None
        dtype = self.object(given["dtype"])
        if not isinstance(dtype, numba.types.Type):
            dtype = numpy_support.from_dtype(np.dtype(dtype))
        space: Any = called.split(".")[0]
        shape = shape if isinstance(shape, tuple) else (shape,)
        if space == "shared" and shape == (0,):
            space, shape = "dynamic", (self.unit.dynamic // ir.itemsize(dtype),)
        renamed = self.rename.get(target.id)
        new = renamed.id if isinstance(renamed, ast.Name) else target.id
        if new in self.unit.arrays:
            raise self.fail(value, f"{target.id} is declared twice")
        self.unit.arrays[new] = Array(space, shape, dtype, value.lineno)
        self.unit.ndim[new] = len(shape)
        return True


def _is_device(o: Any) -> bool:
    """A function written in Python: `@cuda.jit(device=True)` or a plain one."""
    return isinstance(python_function(o), FunctionType) and id(o) not in _CUDA


def _fold(node: ast.expr) -> ast.expr:
    """Compute what is made of constants only."""
    operands: dict[type, Callable[[Any], list[ast.expr]]] = {
        ast.BinOp: lambda n: [n.left, n.right],
        ast.UnaryOp: lambda n: [n.operand],
        ast.Compare: lambda n: [n.left, *n.comparators],
    }
    if type(node) not in operands:
        return node
    parts = operands[type(node)](node)
    if not all(isinstance(p, ast.Constant) for p in parts):
        return node
    try:
        code = compile(ast.Expression(at(copy.deepcopy(node), 1)), "", "eval")
        return ast.Constant(eval(code, {"__builtins__": {}}))
    except (ArithmeticError, TypeError, ValueError):
        return node
