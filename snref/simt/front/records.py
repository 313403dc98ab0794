"""Elements with fields under a name of their own: another name for the element.

    r = a[i]                              _r1 = i
    r.x += r.v[2]                 ->      a[_r1].x += a[_r1].v[2]

As for a part of an array (see `views`), nothing has to be kept for a thread.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

from numba import types


def element_of(
    node: ast.expr, dtypes: Mapping[str, Any], keep: Callable[[ast.expr], ast.expr]
) -> ast.expr | None:
    """The element with fields, or the array in a field, that the expression names, with
    its indices as they are now; None if it is a number.

    `keep` turns an index into a name for its value now.
    """
    if not isinstance(type_of(node, dtypes), (types.Record, types.NestedArray)):
        return None
    new = copy.deepcopy(node)
    for part in ast.walk(new):
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Tuple):
            part.slice.elts = [keep(e) for e in part.slice.elts]
        elif isinstance(part, ast.Subscript):
            part.slice = keep(part.slice)
    return new


def type_of(node: ast.expr, dtypes: Mapping[str, Any]) -> Any:
    """The Numba type of an element or a field; None where that is not known."""
    match node:
        case ast.Subscript(ast.Name(a), _) if a in dtypes:
            return dtypes[a]
        case ast.Attribute(base, str(field)):
            record = type_of(base, dtypes)
        case ast.Subscript(base, ast.Constant(str(field))):
            record = type_of(base, dtypes)
        case _:
            return None
    is_field = isinstance(record, types.Record) and field in record.fields
    return record.typeof(field) if is_field else None
