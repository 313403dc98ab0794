"""The source of a function, and what the global names in it stand for.

FACTOR, np.pi           ->   3, 3.141592653589793     numbers as they are now
TABLE                   ->   _TABLE1                  an array: an argument more
float32, np.float32     ->   float32                  a Numba type
cuda.threadIdx, grid    ->   "threadIdx", "grid"      whatever it was imported as
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import textwrap
from collections import Counter
from contextlib import suppress
from enum import Enum, EnumType
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import cuda
from numba.np import numpy_support

from snref.simt import ir
from snref.simt.front import warps
from snref.simt.front.desugar import desugar
from snref.simt.front.rebound import rebound
from snref.simt.front.returns import without_returns
from snref.simt.front.unit import Unit
from snref.simt.ir import KernelError, at, name


def python_function(kernel: Any) -> Any:
    """The Python function behind a `@cuda.jit` dispatcher, or the function itself."""
    return getattr(kernel, "py_func", kernel)


def is_device_function(o: Any) -> bool:
    """A function written in Python: `@cuda.jit(device=True)` or a plain one."""
    return isinstance(python_function(o), FunctionType) and id(o) not in _CUDA


def _cuda_names() -> dict[int, str]:
    """The object behind each name of `numba.cuda` that a kernel may use, and the name.

    Looked up by object: a kernel may have written `from numba.cuda import grid as g`.
    """
    import_module("numba.cuda.libdevice")
    with suppress(ImportError):  # numba-cuda has a module where Numba has a class
        import_module("numba.cuda.fp16")
    spaces = ("atomic", "shared", "local", "const", "cg", "fp16")
    known: dict[int, str] = {}
    for space in ("", *spaces):
        inside = getattr(cuda, space, None) if space else cuda
        for n in dir(inside) if inside is not None else ():
            if not n.startswith("_") and not isinstance(
                getattr(inside, n), (ModuleType, int, str, numba.types.Type)
            ):
                known.setdefault(id(getattr(inside, n)), f"{space}.{n}" if space else n)
    stubs = vars(cuda.libdevice).items()
    functions = {n: f for n, f in stubs if isinstance(f, FunctionType)}
    return known | {id(f): f"libdevice.{n}" for n, f in functions.items()}


_CUDA = _cuda_names()
_NAMED = (ModuleType, Enum, np.ndarray)
INDICES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}


class Scope:
    """A function's text and names; `rename` says what its local names have become."""

    def __init__(self, function: Any, unit: Unit, outer: Scope | None = None):
        """`function` is a Python function, or the tree of one within `outer`."""
        self.function, self.unit = function, unit
        self.rename: dict[str, ast.expr] = {}
        self.nested: dict[str, tuple[ast.FunctionDef, Scope]] = {}
        if outer is None:
            code = function.__code__
            tree = ast.increment_lineno(
                _read(function), unit.source(code) * ir.FUNCTION
            )
            cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
            closure = {n: c.cell_contents for n, c in cells}
            self.scope = {**vars(builtins), **function.__globals__, **closure}
        else:
            tree, self.scope, self.nested = function, outer.scope, dict(outer.nested)
        self.tree, self.outer = tree, outer
        kernel = not unit.kernel  # is it the kernel, or a function that it calls?
        unit.kernel = unit.kernel or tree.name
        if tree.args.kwarg:
            raise self.fail(tree, f"**{tree.args.kwarg.arg}: give parameters a name")
        by_place = [*tree.args.posonlyargs, *tree.args.args]
        self.by_place = [a.arg for a in by_place]
        self.params = [a.arg for a in (*by_place, *tree.args.kwonlyargs)]
        self.rest = tree.args.vararg.arg if tree.args.vararg else None
        inner = {s: _function_within(s) for s in tree.body}
        self.nested |= {f.name: (f, self) for f in inner.values() if f is not None}
        plain = [copy.deepcopy(s) for s, f in inner.items() if f is None]
        body = desugar(plain, ir.names(tree), self.fail)
        self.body, self.result = without_returns(body, kernel)
        unit.taken |= ir.names(tree)
        results = [self.result] if isinstance(self.result, str) else self.result or ()
        read = [at(ast.Expr(name(n)), tree.lineno) for n in results]  # by the caller
        self.several = rebound([*self.body, *read], self.params, unit.taken)
        stored = [ir.names(s, store=True) for s in self.body]
        self.locals = set(self.params).union(self.nested, *stored)
        if self.rest:
            self.locals.add(self.rest)
        if outer is not None:  # variables of the function around
            for n in ir.names(tree) & outer.locals - self.locals:
                self.rename[n] = outer.rename.get(n, name(n))
            self.locals |= self.rename.keys()
        for n in sorted(self.locals & ir.RESERVED):
            problem = f"{n} is a name of the compiler's own: choose another"
            raise self.fail(tree, problem)
        unit.taken |= ir.names(tree) | self.locals
        self.aliases = self.other_names()
        self.locals -= self.aliases.keys()
        self.scope = {**self.scope, **self.aliases}

    def other_names(self) -> dict[str, Any]:
        """Local variables that only name something global that is no number.

        As `f = math.sin`, `lane = cuda.laneid` or `kind = float32`.
        """
        found: dict[str, Any] = {}
        nodes = [n for s in self.body for n in ast.walk(s)]
        stores = Counter(
            n.id
            for n in nodes
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        for node in nodes:
            match node:
                case ast.Assign([ast.Name(v)], ast.Name() | ast.Attribute() as value):
                    o = self.object(value)
                    once = stores[v] == 1 and v not in self.params
                    if once and (callable(o) or isinstance(o, _NAMED)):
                        found[v] = o
        return found

    def parameters(self, given: int) -> list[str]:
        """The parameters of a kernel for this many arguments, those of `*rest` as new
        names."""
        more = range(given - len(self.params)) if self.rest else ()
        names = [self.unit.fresh(str(self.rest)) for _ in more]
        if self.rest:
            values: list[ast.expr] = [name(n) for n in names]
            self.rename[self.rest] = ast.Tuple(values, ast.Load())
        return [*self.params, *names]

    def defaults(self) -> dict[str, Any]:
        """The default values of parameters: objects, or trees of a function within."""
        given = self.tree.args
        names = [a.arg for a in given.kwonlyargs]
        if self.outer is None:
            last = self.function.__defaults__ or ()
            named = self.function.__kwdefaults__ or {}
        else:
            last = given.defaults
            named = dict(zip(names, given.kw_defaults, strict=True))
            named = {n: d for n, d in named.items() if d is not None}
        behind = self.by_place[len(self.by_place) - len(last) :]
        return {**dict(zip(behind, last, strict=True)), **named}

    def fail(self, node: ast.AST, problem: str) -> KernelError:
        return self.unit.error(node, problem)

    def constant_definition(self, variable: str) -> ast.expr | None:
        """What a local variable is defined as, if it has one definition only."""
        stmts = [n for s in self.body for n in ast.walk(s)]
        stores = [n for n in stmts if isinstance(n, ast.Name) and n.id == variable]
        stores = [n for n in stores if isinstance(n.ctx, ast.Store)]
        for stmt in stmts:
            if isinstance(stmt, ast.Assign) and stmt.targets == stores:
                return None if variable in self.params else stmt.value
        return None

    def object(self, node: ast.AST) -> Any:
        """The Python object of a global name or dotted name, else None."""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            return self.scope.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.object(node.value)
            if base is not None and not isinstance(base, np.ndarray):
                return getattr(base, node.attr, None)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            base = self.object(node.value)
            if isinstance(base, EnumType):  # `Colour["RED"]`
                return base.__members__.get(str(node.slice.value))
        return None

    def cuda_name(self, node: ast.AST) -> str | None:
        """`grid`, `atomic.add` ... if the expression names something of numba.cuda."""
        return _CUDA.get(id(self.object(node)))

    def value(self, node: ast.expr) -> ast.expr | None:
        """The constant, type or function that a global name stands for."""
        match self.cuda_name(node):
            case "laneid":
                thread = ir.thread_number(self.unit.block)
                return ir.expression(f"({thread}) % {warps.SIZE}")
            case "warpsize":
                return ast.Constant(warps.SIZE)
        return self.literal(self.object(node), ast.unparse(node).split(".")[-1])

    def literal(self, o: Any, stem: str) -> ast.expr | None:
        """The expression that an object is in a kernel; `stem` is how it is called."""
        if isinstance(o, (np.bool_, np.number)):  # first: a np.float64 is a float
            kind = self.type_name(numpy_support.from_dtype(o.dtype))
            return ir.call(kind, ir.constant(o.item()))
        for plain in (bool, int, float, complex, str):
            if isinstance(o, plain):
                exact: Any = plain  # an IntEnum's member is an int, and not its repr
                return ir.constant(exact(o))
        if isinstance(o, tuple):
            parts = [self.literal(part, stem) for part in o]
            known = [part for part in parts if part is not None]
            return ast.Tuple(known, ast.Load()) if len(known) == len(o) else None
        if isinstance(o, Enum):  # members can be compared, and that is all: a text
            return ast.Constant(f"{type(o).__qualname__}.{o.name}")
        if isinstance(o, numba.types.Type):
            return name(self.type_name(o))
        if isinstance(o, type) and issubclass(o, np.generic):
            return name(self.type_name(numpy_support.from_dtype(np.dtype(o))))
        if isinstance(o, np.ndarray):
            return name(self.constant(o, stem))
        return None

    def unknown(self, node: ast.expr) -> KernelError:
        """The error for a global name that stands for nothing a kernel can have."""
        text = ast.unparse(node)
        o = self.object(node)
        if o is None:
            return self.fail(node, f"name {text} is not defined")
        cuda_name = self.cuda_name(node)
        if cuda_name in INDICES:
            return self.fail(node, f"write {text}.x, {text}.y or {text}.z")
        if cuda_name or callable(o):
            return self.fail(node, f"{text} is no value: call it")
        if isinstance(o, ModuleType):
            return self.fail(node, f"{text} is a module: name what you need of it")
        problem = "a kernel knows numbers, tuples of numbers and NumPy arrays"
        what = getattr(type(o), "__name__", "object")
        return self.fail(node, f"{text} is a {what}; {problem}")

    def type_name(self, kind: Any) -> str:
        """The name that the generated text has for a Numba type."""
        kind = numba.types.boolean if kind.name == "bool" else kind
        stem = "boolean" if kind is numba.types.boolean else str(kind.name)
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


def _read(function: Any) -> ast.FunctionDef:
    """The function's source as a tree whose first line is 1."""
    code = function.__code__
    place = f"{code.co_filename}:{code.co_firstlineno}"
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError) as e:
        raise KernelError(
            f"{place}: {function.__name__}: its source is not at hand; define the "
            "kernel by def, in a file or a notebook"
        ) from e
    if isinstance(tree.body[0], ast.FunctionDef):
        return tree.body[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and _code(node) == code.co_code:
            return as_function(node, "function")
    raise KernelError(f"{place}: a kernel is a function written with def")


def as_function(node: ast.Lambda, called: str) -> ast.FunctionDef:
    result = at(ast.Return(node.body), node.lineno)
    return ast.copy_location(ast.FunctionDef(called, node.args, [result], []), node)


def _function_within(stmt: ast.stmt) -> ast.FunctionDef | None:
    """The function that a statement of another one defines, if it does."""
    match stmt:
        case ast.FunctionDef():
            return stmt
        case ast.Assign([ast.Name(called)], ast.Lambda() as value):
            return as_function(value, called)
    return None


def _code(node: ast.Lambda) -> bytes:
    """The bytecode of the function that a lambda makes."""
    module = compile(ast.Expression(node), "", "eval")
    return next(c.co_code for c in module.co_consts if isinstance(c, CodeType))
