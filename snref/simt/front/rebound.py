"""Names of arrays that get a new meaning: a name of its own for each of them.

row = a[i]                    row = a[i]
out[0] = row[0]        ->     out[0] = row[0]
row = b[i]                    row_2 = b[i]
out[1] = row[0]               out[1] = row_2[0]
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence

from snref.simt import ir
from snref.simt.webs import Webs


def rebound(
    body: Sequence[ast.stmt], params: Iterable[str], taken: set[str]
) -> set[str]:
    """Rename, in place, what is bound anew. Returns the names that several statements
    bind to one meaning, such as the two halves of an `if`."""
    webs = Webs()
    reaching: dict[str, frozenset[ast.Name]] = {}
    for p in params:
        webs.define(ir.name(p, store=True), reaching)
    webs.walk(list(body), reaching)

    wanted = _bound(body)
    chosen: dict[ast.Name, str] = {}
    times: Counter[str] = Counter()
    for node, definition in webs.web_of.items():
        if node.id not in wanted:
            continue
        web = webs.find(definition)
        if web not in chosen:
            new, number = node.id, 1
            while new in chosen.values() or (number > 1 and new in taken):
                number += 1
                new = f"{node.id}_{number}"
            chosen[web] = new
        times[chosen[web]] += node is definition
    for node, definition in webs.web_of.items():
        node.id = chosen.get(webs.find(definition), node.id)
    taken |= set(times)
    return {n for n, count in times.items() if count > 1}


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    """Names that may be bound to arrays, by plain assignments only."""
    arrays: set[str] = set()
    other: set[str] = set()
    plain: set[ast.expr] = set()
    for node in (n for s in body for n in ast.walk(s)):
        match node:
            case ast.Assign([ast.Name(v) as target], value):
                plain.add(target)
                if isinstance(value, (ast.Subscript, ast.Call)):
                    arrays.add(v)
            case ast.Lambda() | ast.FunctionDef():  # finds later what it uses
                other |= ir.names(node)
            case ast.Name(v, ast.Store()) if node not in plain:  # walked after those
                other.add(v)
    return arrays - other
