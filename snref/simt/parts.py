"""Parts of arrays in a statement: check mode and the profile look at their elements.

    a[t, 1:] = b[t] * 2       ->      _part1 = b[t]
                                      _part2 = a[t, 1:]
                                      ... a look at each element of _part1
                                      _part2[:] = _part1 * 2
                                      ... a look at each element of _part2

A part is a row, a slice or a whole array. The statement itself is Numba's business.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import types

from snref.simt import ir
from snref.simt.ir import Kernel, assign

IMPORT = "from numpy import arange as _arange"


@dataclass(frozen=True)
class Part:
    """A part under a name of its own: each axis is an index (by name) or a slice."""

    name: str
    array: str
    axes: tuple[ast.expr, ...]

    def each(self, look: Callable[[list[ast.expr]], list[ast.stmt]]) -> list[ast.stmt]:
        """Loops over the elements, in the order of C, with a look at each.

        `look` is given the indices of the whole array.
        """
        axes = range(len(self.axes))
        places = [
            ir.name(f"{self.name}_{d}") if isinstance(axis, ast.Slice) else axis
            for d, axis in enumerate(self.axes)
        ]
        body = look(places)
        for d in reversed(axes):
            if isinstance(axis := self.axes[d], ast.Slice):
                every = ir.expression(f"_arange({self.array}.shape[{d}])")
                over = ast.Subscript(every, copy.deepcopy(axis), ast.Load())
                body = [ast.For(ir.name(f"{self.name}_{d}", True), over, body, [])]
        return body


@dataclass(frozen=True)
class Apart:
    """A statement with its parts taken out."""

    before: list[ast.stmt]  # names for the parts
    loaded: list[Part]
    stored: Part | None
    stmt: ast.stmt  # in these names


def element(kernel: Kernel, node: ast.Subscript) -> list[ast.expr] | None:
    """The indices of one element; None if it is a part of the array."""
    assert isinstance(node.value, ast.Name)
    a, i = node.value.id, node.slice
    ndim = kernel.ndim[a]
    places = list(i.elts) if isinstance(i, ast.Tuple) else [i]
    if isinstance(i, ast.Name) and _is_tuple(kernel, i.id, ndim):
        parts = [ast.Subscript(i, ast.Constant(d), ast.Load()) for d in range(ndim)]
        sizes = [ir.expression(f"{a}.shape[{d}]") for d in range(ndim)]
        return [ir.call(ir.WRAP, *both) for both in zip(parts, sizes, strict=True)]
    if len(places) != ndim or any(map(is_axis, places)):
        return None
    return places


def is_axis(place: ast.expr) -> bool:
    """Does it stand for one whole axis or several, and not for an index?"""
    special = isinstance(place, ast.Constant) and place.value in (None, ...)
    return special or isinstance(place, ast.Slice)


def _is_tuple(kernel: Kernel, v: str, size: int) -> bool:
    """Is the variable a tuple of so many indices?"""
    kind = kernel.types.get(v)
    if kind is not None:
        return isinstance(kind, types.BaseTuple) and len(kind) == size
    values = [
        n.value
        for s in kernel.body
        for n in ast.walk(s)
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == v
    ]
    return bool(values) and all(
        (isinstance(e, ast.Tuple) and len(e.elts) == size)
        or (isinstance(e, ast.Name) and e.id != v and _is_tuple(kernel, e.id, size))
        for e in values
    )


def of_array(node: ast.Call) -> ast.Call:
    """An atomic operation on an element of a row, as one on that of the array."""
    a, *rest = node.args
    if not isinstance(a, ast.Subscript) or not isinstance(a.value, ast.Name):
        return node
    row, i = (n.elts if isinstance(n, ast.Tuple) else [n] for n in (a.slice, rest[0]))
    place = ast.Tuple([*row, *i], ast.Load())
    return ast.Call(node.func, [a.value, place, *rest[1:]], [])


def apart(
    kernel: Kernel,
    stmt: ast.Assign | ast.AugAssign | ast.Expr,
    fresh: Callable[[str], str],
    local: set[str],
) -> Apart | None:
    """The statement apart from its parts of arrays; None if it has none.

    A part of a `local` array is that of the thread `_t`.
    """
    taken = _Taken(kernel, fresh, local, stmt.lineno)
    new = copy.copy(stmt)
    new.value = taken.visit(copy.deepcopy(stmt.value))
    left, stored = ir.target(stmt), None
    part: Any
    whole = isinstance(left, ast.Name) and left.id in kernel.ndim
    if isinstance(left, ast.Name) and _names(new.value) & taken.parts.keys():
        problem = (
            f"{ir.own_name(left.id)} stands for a part of an array, and not always for "
            "the same: its accesses cannot be followed; index the array itself"
        )
        raise kernel.error(stmt.lineno, problem)
    loaded = list(taken.parts.values())
    if left is not None and (whole or taken.is_part(left)):
        part = ast.Subscript(taken.part(left), ast.Slice(), ast.Store())
        stored = list(taken.parts.values())[-1]
        if isinstance(new, ast.AugAssign):
            new.target = part
            loaded.append(stored)
        else:
            assert isinstance(new, ast.Assign)
            new.targets = [part]
    elif isinstance(left, ast.Subscript):  # an element, whose index may read parts
        part = copy.deepcopy(left)
        part.slice = taken.visit(part.slice)
        loaded = list(taken.parts.values())
        if isinstance(new, ast.AugAssign):
            new.target = part
        elif isinstance(new, ast.Assign):
            new.targets = [part]
    if not loaded and stored is None:
        return None
    return Apart(taken.before, loaded, stored, new)


def refuse(kernel: Kernel, node: ast.expr, line: int) -> None:
    """Raise KernelError if there is a part of an array in a condition."""
    taken = _Taken(kernel, str, set(), line)
    taken.visit(copy.deepcopy(node))
    for part in taken.parts.values():
        problem = (
            f"a condition reads a part of {part.array}, at whose elements check mode "
            "and the profile cannot look there: compute it in an assignment before"
        )
        raise kernel.error(line, problem)


def _names(value: ast.expr) -> set[str]:
    """The variables of which one is the value."""
    if isinstance(value, ast.IfExp):
        return _names(value.body) | _names(value.orelse)
    return {value.id} if isinstance(value, ast.Name) else set()


class _Taken(ast.NodeTransformer):
    """Puts a name in place of each part that is read."""

    def __init__(
        self,
        kernel: Kernel,
        fresh: Callable[[str], str],
        local: set[str],
        line: int,
    ):
        self.kernel, self.fresh, self.local, self.line = kernel, fresh, local, line
        self.before: list[ast.stmt] = []
        self.parts: dict[str, Part] = {}

    def known(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.kernel.ndim

    def is_part(self, node: ast.expr) -> bool:
        known = isinstance(node, ast.Subscript) and self.known(node.value)
        return known and element(self.kernel, node) is None  # type: ignore[arg-type]

    def plain(self, value: ast.expr | None, stem: str) -> ast.expr | None:
        """An index or the end of a slice, evaluated once."""
        if value is None or isinstance(value, ast.Constant):
            return value
        new = self.fresh(stem)
        self.before.append(assign(new, value, self.line))
        return ir.name(new)

    def part(self, node: ast.expr) -> ast.expr:
        """The name for a part."""
        array, places = node, list[ast.expr]()
        if isinstance(node, ast.Subscript):
            array, i = node.value, node.slice
            places = list(i.elts) if isinstance(i, ast.Tuple) else [i]
        assert isinstance(array, ast.Name)
        a, ndim = array.id, self.kernel.ndim[array.id]
        if any(isinstance(p, ast.Constant) and p.value is None for p in places):
            problem = f"{ast.unparse(node)}: no axes can be added here; index {a}"
            raise self.kernel.error(self.line, problem)
        rest = [ast.Slice()] * (ndim - sum(not _is_dots(p) for p in places))
        dots = [i for i, p in enumerate(places) if _is_dots(p)]
        where = dots[0] if dots else len(places)
        axes = list[ast.expr]()
        for d, p in enumerate([*places[:where], *rest, *places[where + 1 :]]):
            if isinstance(p, ast.Slice):
                ends = [self.plain(e, "end") for e in (p.lower, p.upper, p.step)]
                axes.append(ast.Slice(*ends))
            else:
                index = ir.call(ir.WRAP, p, ir.expression(f"{a}.shape[{d}]"))
                place = self.plain(index, "index")
                assert place is not None
                axes.append(place)
        new = self.fresh("part")
        own = [ir.name("_t")] if a in self.local else []
        inside = ast.Tuple([*axes, *own], ast.Load())
        view = ast.Subscript(ir.name(a), inside, ast.Load())
        self.before.append(assign(new, view, self.line))
        self.parts[new] = Part(new, a, tuple(axes))
        return ir.name(new)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self.is_part(node):
            return self.part(node)
        if self.known(node.value):  # an element
            node.slice = self.visit(node.slice)
            return node
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.part(node) if self.known(node) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node if self.known(node.value) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node.func:
            case ast.Name(ir.SLOT | ir.VOTE | ir.UNASSIGNED | "len"):
                return node
            case ast.Name(function) if function.startswith("atomic_"):
                if function != ir.WHOLE_SWAP:
                    node = of_array(node)
                node.args[1:] = [self.visit(a) for a in node.args[1:]]
                return node
        return self.generic_visit(node)


def _is_dots(place: ast.expr) -> bool:
    return isinstance(place, ast.Constant) and place.value is ...
