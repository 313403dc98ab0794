"""CUDA's vector types: a vector is as many variables as it has components.

v = float32x2(a, 1)                   v_x = float32(a)
w = v                         ->      v_y = float32(1)
s += w.x * w.y                        w_x = v_x
                                      w_y = v_y
                                      s += w_x * w_y
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Mapping, Sequence

from numba import cuda

from snref.simt.ir import assign, call, name

Vectors = dict[str, dict[str, str]]  # variable -> component -> its own variable


def layout(called: str) -> tuple[str, int] | None:
    """The type and number of components of a vector type; None if it is none.

    >>> layout("float2"), layout("grid")
    (('float32', 2), None)
    """
    full = getattr(getattr(cuda, called, None), "__name__", "")
    found = re.fullmatch(r"((?:u?int|float)\d+)x([1-4])", full)
    return (found[1], int(found[2])) if found else None


def components(values: Sequence[ast.expr], vectors: Vectors) -> list[ast.expr]:
    """The arguments of a constructor: numbers, and vectors by their components."""
    parts: list[ast.expr] = []
    for value in values:
        held = _of(value, vectors)
        parts += [name(v) for v in held.values()] if held else [value]
    return parts


def make(
    target: str,
    parts: Mapping[str, ast.expr],
    vectors: Vectors,
    fresh: Callable[[str], str],
    line: int,
) -> list[ast.stmt]:
    """Statements that give a vector its components."""
    held = vectors.setdefault(target, {c: fresh(f"{target}_{c}") for c in parts})
    return [assign(held[c], part, line) for c, part in parts.items()]


def converted(kind: str, values: Sequence[ast.expr]) -> dict[str, ast.expr]:
    """Components as numbers of the vector's type."""
    return {c: call(kind, v) for c, v in zip("xyzw", values, strict=False)}


def copied(value: ast.expr, vectors: Vectors) -> dict[str, ast.expr] | None:
    """The components of a vector, also of one of a tuple; None if the value is none."""
    match value:
        case ast.Subscript(ast.Tuple(each), place) if each:
            held = [_of(v, vectors) or {} for v in each]
            if held[0] and all(h.keys() == held[0].keys() for h in held):
                return {
                    c: ast.Subscript(
                        ast.Tuple([name(h[c]) for h in held], ast.Load()),
                        copy.deepcopy(place),
                        ast.Load(),
                    )
                    for c in held[0]
                }
    found = _of(value, vectors)
    return {c: name(v) for c, v in found.items()} if found else None


def component(value: ast.expr, attribute: str, vectors: Vectors) -> ast.expr | None:
    """`v.x`; None if `v` is no vector with such a component."""
    held = (_of(value, vectors) or {}).get(attribute)
    return name(held) if held else None


def _of(value: ast.expr, vectors: Vectors) -> dict[str, str] | None:
    return vectors.get(value.id) if isinstance(value, ast.Name) else None
