"""Variables that are whole numbers, and those from which indices are computed."""

from __future__ import annotations

import ast

from numba import types

from snref.simt import ir
from snref.simt.ir import Kernel

WIDE = ("int", "int32", "int64", "intp")  # casts that keep every index
PLAIN = {"min", "max", "abs", "len", *WIDE}
COUNTS = {ir.COUNT, ir.VOTE, ir.WRAP, ir.CLIP, "len", "popc", "clz", "ffs"}
WHOLE_TYPES = types.integer_domain | {types.boolean}


def integers(kernel: Kernel) -> set[str]:
    """The variables that are whole numbers by every definition they have."""
    found: dict[str, list[ast.expr]] = {}
    for node in (n for s in kernel.body for n in ast.walk(s)):
        match node:
            case ast.Assign([ast.Name(id)], value):
                found.setdefault(id, []).append(value)
            case ast.AugAssign(ast.Name(id) as left, op, value):
                found.setdefault(id, []).append(ast.BinOp(left, op, value))
            case ast.For(ast.Name(id)):
                found.setdefault(id, []).append(ast.Constant(0))
    given = {p for p, kind in kernel.types.items() if is_whole_type(kind)}
    whole = {*ir.THREAD, *ir.BLOCK, *ir.GRID, *found, *given}
    whole -= {p for p in kernel.types if p in found} - given
    while True:
        wrong = {
            v
            for v in whole & found.keys()
            if not all(is_integer(e, whole, kernel) for e in found[v])
        }
        if not wrong:
            return whole
        whole -= wrong


def is_whole_type(kind: types.Type) -> bool:
    """Is it the type of a whole number, or of a tuple of such?"""
    if isinstance(kind, types.BaseTuple):
        return all(map(is_whole_type, kind))
    return isinstance(types.unliteral(kind), (types.Integer, types.Boolean))


def is_integer(node: ast.expr, whole: set[str], kernel: Kernel) -> bool:
    """Is the value surely a whole number, if these variables are?"""
    match node:
        case ast.Constant(value):
            return isinstance(value, int)
        case ast.Name(id) | ast.Call(ast.Name(ir.SLOT), [ast.Name(id), *_]):
            return id in whole
        case ast.Compare() | ast.UnaryOp(ast.Not()):
            return True
        case ast.BinOp(left, op, right):
            parts = [] if isinstance(op, (ast.Div, ast.Pow)) else [left, right]
        case ast.UnaryOp(_, operand):
            parts = [operand]
        case ast.BoolOp(_, values):
            parts = values
        case ast.IfExp(_, body, orelse):
            parts = [body, orelse]
        case ast.Attribute(ast.Name(), "size" | "ndim"):
            return True
        case ast.Subscript(ast.Attribute(ast.Name(), "shape")):
            return True
        case ast.Subscript(ast.Name(a)) if a in kernel.ndim:
            return is_whole_type(dtype_of(kernel, a))
        case ast.Subscript(ast.Name(t)):
            return t in whole
        case ast.Call(ast.Name("min" | "max" | "abs"), args):
            parts = args
        case ast.Call(ast.Name(function)):
            kind = getattr(types, function, None)
            return function in COUNTS or function == "int" or kind in WHOLE_TYPES
        case _:
            return False
    return bool(parts) and all(is_integer(p, whole, kernel) for p in parts)


def dtype_of(kernel: Kernel, a: str) -> types.Type:
    own = kernel.arrays.get(a)
    return own.dtype if own else kernel.types[a].dtype


def lasting(node: ast.expr) -> bool:
    """Does the value change only with the variables in it: is no element read?"""
    calls = (ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call))
    return not ir.loads(node) and PLAIN.issuperset(calls)


def wanted_for_indices(kernel: Kernel) -> set[str]:
    """The variables that indices are computed from."""
    sources: dict[str, set[str]] = {}
    found: set[str] = set()
    for node in (n for s in kernel.body for n in ast.walk(s)):
        match node:
            case ast.Assign([left], right) | ast.AugAssign(left, _, right):
                root = left.value if isinstance(left, ast.Subscript) else left
                if isinstance(root, ast.Name):
                    sources.setdefault(root.id, set()).update(ir.names(right))
            case ast.For(ast.Name(id), over):
                sources.setdefault(id, set()).update(ir.names(over))
            case ast.Subscript(_, place):
                found |= ir.names(place)
            case ast.Call(_, args) if ir.atomic(node):
                found |= set().union(*map(ir.names, args))
    todo = list(found)
    while todo:
        new = sources.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def by_atomics(stmt: ast.stmt) -> set[str]:
    """Arrays that atomic operations change."""
    return {
        ast.unparse(n.args[0])
        for n in ast.walk(stmt)
        if isinstance(n, ast.Call) and n.args and ir.atomic(n)
    }
