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
        for axis in self.axes:
            if not isinstance(axis, tuple):
                out.append(copy.deepcopy(axis))
            elif not left:
                out.append(ast.Slice(*copy.deepcopy(axis)))
            else:
                out.append(_plus(axis[0], left.pop(0)))
        return out

    def sizes(self) -> list[ast.expr]:
        """The length of each axis of the view."""
        out: list[ast.expr] = []
        for d, axis in enumerate(self.axes):
            if isinstance(axis, tuple):
                start, stop = axis
                end = stop or ir.expression(f"{self.array}.shape[{d}]")
                whole = isinstance(start, ast.Constant) and start.value == 0
                end = copy.deepcopy(end)
                out.append(end if whole else ast.BinOp(end, ast.Sub(), start))
        return out


def _plus(start: ast.expr, place: ast.expr) -> ast.expr:
    """The index of the array for one of the view (or a part of it, for a slice)."""
    if isinstance(place, ast.Slice):
        lower = _plus(start, place.lower or ast.Constant(0))
        return ast.Slice(lower, _plus(start, place.upper) if place.upper else None)
    if isinstance(start, ast.Constant) and start.value == 0:
        return place
    return ast.BinOp(copy.deepcopy(start), ast.Add(), place)


def held(node: ast.expr, views: Mapping[str, View]) -> View | None:
    """The view that a name stands for; None if it is none."""
    return views.get(node.id) if isinstance(node, ast.Name) else None


def element(
    base: ast.expr, place: ast.expr, ctx: ast.expr_context, views: Mapping[str, View]
) -> ast.expr:
    """An element of an array, of what a view is of, or of a tuple."""
    if isinstance(base, ast.Tuple) and isinstance(place, ast.Constant):
        return base.elts[place.value]  # type: ignore[index]
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
    for p in places + [ast.Slice()] * (ndim[a] - len(places)):
        if isinstance(p, ast.Slice):
            start = keep(p.lower) if p.lower else ast.Constant(0)
            axes.append((start, keep(p.upper) if p.upper else None))
        else:
            axes.append(keep(p))
    return View(a, tuple(axes))
