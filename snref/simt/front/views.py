"""Part of an array under a name of its own, as indices of the whole array.

    row = a[i]                            _row1 = i
    row[j] += row.shape[0]        ->      a[_row1, j] += a.shape[1]

A view is a name for other indices, not a value: nothing has to be kept for a thread,
and every access stays one of the array itself, which check mode and the profile see.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from snref.simt import ir


@dataclass(frozen=True)
class View:
    """An array with some indices given. Each axis of the array is an index, or, of the
    axes that the view still has, where it starts and (None: at its end) stops."""

    array: str
    axes: tuple[ast.expr | tuple[ast.expr, ast.expr | None], ...]

    @property
    def ndim(self) -> int:
        return sum(isinstance(axis, tuple) for axis in self.axes)

    def element(self, places: list[ast.expr]) -> list[ast.expr]:
        """Indices of the array for indices of the view; axes not indexed stay whole."""
        left, out = list(places), []
        for d, axis in enumerate(self.axes):
            if not isinstance(axis, tuple):
                out.append(copy.deepcopy(axis))
            elif not left:
                out.append(ast.Slice(*copy.deepcopy(axis)))
            else:
                place, size = left.pop(0), _size(axis, f"{self.array}.shape[{d}]")
                out.append(_inside(axis, place, size))
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


def _size(axis: tuple[ast.expr, ast.expr | None], whole: str) -> ast.expr:
    """The length of an axis of a view; `whole` is that of the array's."""
    start, stop = copy.deepcopy(axis)
    end = stop or ir.expression(whole)
    if _is_zero(start):
        return end
    return ir.call("max", ast.BinOp(end, ast.Sub(), start), ast.Constant(0))


def _inside(
    axis: tuple[ast.expr, ast.expr | None], place: ast.expr, size: ast.expr
) -> ast.expr:
    """The index of the array for one of the view (or a part of it, for a slice)."""
    start, stop = copy.deepcopy(axis)
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
    if a not in ndim or len(places) > ndim[a] or any(s.step for s in slices):
        return None
    if len(places) == ndim[a] and not slices:
        return None
    axes: list[ast.expr | tuple[ast.expr, ast.expr | None]] = []
    for d, p in enumerate(places + [ast.Slice()] * (ndim[a] - len(places))):
        if isinstance(p, ast.Slice):
            size = ir.expression(f"{a}.shape[{d}]")
            start = keep(_clipped(p.lower, size)) if p.lower else ast.Constant(0)
            axes.append((start, keep(_clipped(p.upper, size)) if p.upper else None))
        else:
            axes.append(keep(p))
    return View(a, tuple(axes))


def _clipped(end: ast.expr, size: ast.expr) -> ast.expr:
    return end if _is_zero(end) else ir.call(ir.CLIP, end, size)
