"""Part of an array under a name of its own, as indices of the whole array.

    row = a[i]                            _row1 = i
    row[j] += row.shape[0]        ->      a[_row1, j] += a.shape[1]
    odd = row[1::2]
    odd[k] = 0                            a[_row1, 1 + k * 2] = 0

A view is a name for other indices, not a value: nothing has to be kept for a thread,
and every access stays one of the array itself, which check mode and the profile see.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from snref.simt import ir


class Steps(NamedTuple):
    """An axis with a step between its elements."""

    start: ast.expr
    size: ast.expr
    step: ast.expr


Ends: TypeAlias = tuple[ast.expr, ast.expr | None]
Axis: TypeAlias = ast.expr | Ends | Steps


@dataclass(frozen=True)
class View:
    """An array with some indices given. Each axis of the array is an index, or, of the
    axes that the view still has, where it starts and (None: at its end) stops, or
    where it starts, how many elements it has and the step between them."""

    array: str
    axes: tuple[Axis, ...]

    @property
    def ndim(self) -> int:
        return sum(isinstance(axis, tuple) for axis in self.axes)

    def element(self, places: list[ast.expr]) -> list[ast.expr]:
        """Indices of the array for indices of the view; axes not indexed stay whole."""
        left, out = list(places), []
        for d, axis in enumerate(self.axes):
            if not isinstance(axis, tuple):
                out.append(copy.deepcopy(axis))
                continue
            whole = f"{self.array}.shape[{d}]"
            place = left.pop(0) if left else ast.Slice()
            if isinstance(axis, Steps):
                out.append(_on_steps(axis, place, whole))
            else:
                out.append(_inside(axis, place, whole))
        return out

    def sizes(self) -> list[ast.expr]:
        """The length of each axis of the view."""
        return [
            _size(axis, f"{self.array}.shape[{d}]")
            for d, axis in enumerate(self.axes)
            if isinstance(axis, tuple)
        ]


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _size(axis: Ends | Steps, whole: str) -> ast.expr:
    """The length of an axis of a view; `whole` is that of the array's."""
    if isinstance(axis, Steps):
        return copy.deepcopy(axis.size)
    start, stop = copy.deepcopy(axis)
    end = stop or ir.expression(whole)
    if _is_zero(start):
        return end
    return ir.call("max", ast.BinOp(end, ast.Sub(), start), ast.Constant(0))


def _inside(axis: Ends, place: ast.expr, whole: str) -> ast.expr:
    """The index of the array for one of the view (or a part of it, for a slice)."""
    start, stop = copy.deepcopy(axis)
    size = _size(axis, whole)
    if _is_zero(start) and stop is None:
        return place
    if isinstance(place, ast.Slice):
        lower = ir.call(ir.CLIP, place.lower, size) if place.lower else None
        upper = ir.call(ir.CLIP, place.upper, size) if place.upper else None
        return ast.Slice(
            _plus(start, lower) if lower else start,
            _plus(start, upper) if upper else stop,
            place.step,
        )
    known = isinstance(place, ast.Constant) and place.value >= 0  # type: ignore[operator]
    return _plus(start, place if known else ir.call(ir.WRAP, place, size))


def _plus(start: ast.expr, place: ast.expr) -> ast.expr:
    if _is_zero(start) or _is_zero(place):
        return place if _is_zero(start) else copy.deepcopy(start)
    return ast.BinOp(copy.deepcopy(start), ast.Add(), place)


def _on_steps(axis: Steps, place: ast.expr, whole: str) -> ast.expr:
    """The same, where there is a step between the elements of the view."""
    start, size, step = copy.deepcopy(axis)
    if not isinstance(place, ast.Slice):
        known = isinstance(place, ast.Constant) and place.value >= 0  # type: ignore[operator]
        place = place if known else ir.call(ir.WRAP, place, size)
        return _plus(start, ast.BinOp(place, ast.Mult(), step))
    first, stop, by = steps(place, size)
    count = _count(first, stop, by)
    by = ast.BinOp(copy.deepcopy(step), ast.Mult(), by)
    first = _plus(start, ast.BinOp(first, ast.Mult(), step))
    stop = ast.BinOp(first, ast.Add(), ast.BinOp(count, ast.Mult(), by))
    n, low, high = map(ast.unparse, (count, first, stop))
    # an end before the first element is counted from the end, and so below it
    high = f"-1 - {whole} if {high} < 0 else {high}"
    lower = ir.expression(f"{low} if {n} > 0 else 0")
    return ast.Slice(lower, ir.expression(f"({high}) if {n} > 0 else 0"), by)


def _count(start: ast.expr, stop: ast.expr, step: ast.expr) -> ast.expr:
    return ir.call("len", ir.call("range", *copy.deepcopy([start, stop, step])))


def steps(place: ast.Slice, size: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr]:
    """The bounds of a range of the indices that a slice of so many elements has."""
    step = place.step or ast.Constant(1)
    none, last = ast.Constant(-1), ast.BinOp(size, ast.Sub(), ast.Constant(1))
    low, high = place.lower, place.upper
    up = [_clipped(low, size) if low else ast.Constant(0)]
    up.append(_clipped(high, size) if high else size)
    down = [_clipped_down(low, size) if low else last]
    down.append(_clipped_down(high, size) if high else none)
    if isinstance(step, ast.Constant):
        start, stop = up if step.value > 0 else down  # type: ignore[operator]
    else:
        forward = ast.Compare(step, [ast.Gt()], [ast.Constant(0)])
        start, stop = (ast.IfExp(forward, *e) for e in zip(up, down, strict=True))
    start, stop, step = copy.deepcopy([start, stop, step])
    return start, stop, step


def _clipped_down(end: ast.expr, size: ast.expr) -> ast.expr:
    """An end of a slice that goes backward: within -1 and the last element."""
    i, n = ast.unparse(end), ast.unparse(size)
    within = f"min({ir.CLIP}({i}, {n}), ({n}) - 1)"
    return ir.expression(f"-1 if {i} < -({n}) else {within}")


def held(node: ast.expr, views: Mapping[str, View]) -> View | None:
    """The view that a name stands for; None if it is none."""
    return views.get(node.id) if isinstance(node, ast.Name) else None


def element(
    base: ast.expr, place: ast.expr, ctx: ast.expr_context, views: Mapping[str, View]
) -> ast.expr:
    """An element of an array, or of what a view is of."""
    view = held(base, views)
    if view is None:
        return ast.Subscript(base, place, ctx)
    given = place.elts if isinstance(place, ast.Tuple) else [place]
    whole = ast.Tuple(view.element(given), ast.Load())
    inside = whole.elts[0] if len(whole.elts) == 1 else whole
    return ast.Subscript(ir.name(view.array), inside, ctx)


class Values(ast.NodeTransformer):
    """Puts the part of the array in place of a view whose value is read as a whole."""

    def __init__(self, views: Mapping[str, View]):
        self.views = views

    def visit_Name(self, node: ast.Name) -> ast.expr:
        view = held(node, self.views)
        if view is None:
            return node
        part = element(node, ast.Slice(), ast.Load(), self.views)
        return ast.copy_location(part, node)


def view_of(
    node: ast.expr,
    ndim: Mapping[str, int],
    keep: Callable[[ast.expr], ast.expr],
) -> View | None:
    """The view that an indexed array is, or None if it is an element.

    `keep` turns an index into a name for its value now.
    """
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    a, i = node.value.id, node.slice
    places = list(i.elts) if isinstance(i, ast.Tuple) else [i]
    slices = [p for p in places if isinstance(p, ast.Slice)]
    if a not in ndim or len(places) > ndim[a]:
        return None
    if len(places) == ndim[a] and not slices:
        return None
    axes: list[Axis] = []
    for d, p in enumerate(places + [ast.Slice()] * (ndim[a] - len(places))):
        size = ir.expression(f"{a}.shape[{d}]")
        if isinstance(p, ast.Slice) and p.step:
            ends = [keep(e) if e else None for e in (p.lower, p.upper, p.step)]
            start, stop, step = steps(ast.Slice(*ends), size)
            start = keep(start)
            axes.append(Steps(start, keep(_count(start, stop, step)), step))
        elif isinstance(p, ast.Slice):
            start = keep(_clipped(p.lower, size)) if p.lower else ast.Constant(0)
            axes.append((start, keep(_clipped(p.upper, size)) if p.upper else None))
        else:
            axes.append(keep(p))
    return View(a, tuple(axes))


def _clipped(end: ast.expr, size: ast.expr) -> ast.expr:
    return end if _is_zero(end) else ir.call(ir.CLIP, end, size)
