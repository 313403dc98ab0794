"""Stage 2: one name for each independent value.

A variable that is used again with another meaning becomes two, so that the later
stages may take a name for one value of one type:

    i = threadIdx_x                       i = threadIdx_x
    s[i] = a[i]                           s[i] = a[i]
    for i in range(3):          ->        for i_2 in range(3):
        x += s[i]                             x += s[i_2]

Definitions that can reach a common use form a web (reaching definitions; Muchnick,
"Advanced Compiler Design and Implementation", section 16.3.3).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from snref.simt import ir
from snref.simt.ir import Kernel

# The definitions of each variable that can reach a point: the names assigned there.
_Reaching: TypeAlias = dict[str, frozenset[ast.Name]]


def webs(kernel: Kernel) -> Kernel:
    """Rename the variables of the kernel, a name a web."""
    body = [*_starts(kernel), *copy.deepcopy(kernel.body)]
    finder = Webs()
    entry = {p: ir.name(p, store=True) for p in kernel.types}
    reaching: _Reaching = {}
    for parameter in entry.values():  # the first web of its name: keeps it
        finder.define(parameter, reaching)
    finder.walk(body, reaching)

    taken = set(kernel.types) | set(kernel.arrays)
    taken = taken.union(*map(ir.names, body)) if body else taken
    chosen: dict[ast.Name, str] = {}
    seen: set[str] = set()
    for node, definition in finder.web_of.items():
        web = finder.find(definition)
        if web not in chosen:
            new, number = node.id, 1
            while new in seen or (number > 1 and new in taken):
                number += 1
                new = f"{node.id}_{number}"
            seen.add(new)
            chosen[web] = new
    for node, definition in finder.web_of.items():
        node.id = chosen[finder.find(definition)]
    return kernel.with_body(_one_name(kernel, body))


def _one_name(kernel: Kernel, body: list[ast.stmt]) -> list[ast.stmt]:
    """A second name of an array, `x = a`, is a where neither ever changes."""
    changes = Counter(n for s in body for n in _stores(s))
    same: dict[str, str] = {}
    for stmt in body:
        for node in ast.walk(stmt):
            match node:
                case ast.Assign([ast.Name(x)], ast.Name(a)) if changes[x] == 1:
                    a = same.get(a, a)
                    if a in kernel.ndim and not changes[a]:
                        same[x] = a
    return _Renamed(same).block(body) if same else body


def _stores(stmt: ast.stmt) -> list[str]:
    names = (n for n in ast.walk(stmt) if isinstance(n, ast.Name))
    return [n.id for n in names if isinstance(n.ctx, ast.Store)]


class _Renamed(ast.NodeTransformer):
    def __init__(self, same: dict[str, str]):
        self.same = same

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [new for s in body if (new := self.visit(s)) is not None]

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in self.same:
            return None
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.same.get(node.id, node.id)
        return node


def _starts(kernel: Kernel) -> Iterable[ast.stmt]:
    """A variable of its own for each parameter that the kernel assigns to: what one
    block assigns, the next must not find in the parameter."""
    first: dict[str, int] = {}  # parameter -> line
    for stmt in kernel.body:
        for node in ast.walk(stmt):
            match node:
                case ast.AugAssign(ast.Name(p)) if p in kernel.ndim:
                    continue  # changes the elements
                case ast.Assign([ast.Name(p)]) | ast.AugAssign(ast.Name(p)):
                    first.setdefault(p, node.lineno)
                case ast.For(ast.Name(p)):
                    first.setdefault(p, node.lineno)
    for p in kernel.types:
        if p in first:
            yield ir.assign(p, ir.name(p), first[p])


class Webs:
    def __init__(self) -> None:
        self.parent: dict[ast.Name, ast.Name] = {}  # union-find over definitions
        self.rank: dict[ast.Name, int] = {}  # their order in the text
        self.web_of: dict[ast.Name, ast.Name] = {}  # each occurrence -> a definition
        self.jumps: list[list[_Reaching]] = []  # at the jumps of the loops around

    def find(self, definition: ast.Name) -> ast.Name:
        while self.parent[definition] is not definition:
            definition = self.parent[definition]
        return definition

    def union(self, definitions: Iterable[ast.Name]) -> None:
        roots = sorted({self.find(d) for d in definitions}, key=self.rank.__getitem__)
        for root in roots[1:]:  # the oldest names the web
            self.parent[root] = roots[0]

    def use(self, node: ast.AST | None, reaching: _Reaching) -> None:
        for n in ast.walk(node) if node is not None else ():
            if isinstance(n, ast.Name) and reaching.get(n.id):
                self.union(reaching[n.id])
                self.web_of[n] = next(iter(reaching[n.id]))

    def define(
        self, n: ast.Name, reaching: _Reaching, also: Iterable[ast.Name] = ()
    ) -> None:
        self.parent.setdefault(n, n)
        self.rank.setdefault(n, len(self.rank))
        self.web_of[n] = n
        self.union([*also, n])
        reaching[n.id] = frozenset([n])

    def walk(self, stmts: Sequence[ast.stmt], reaching: _Reaching) -> _Reaching:
        """The definitions that reach the end of the statements."""
        for stmt in stmts:
            match stmt:
                case ast.Assign([ast.Name() as target], value):
                    self.use(value, reaching)
                    self.define(target, reaching)
                case ast.AugAssign(ast.Name() as target, _, value):
                    self.use(value, reaching)
                    self.define(target, reaching, reaching.get(target.id, ()))
                case ast.If(test, body, orelse):
                    self.use(test, reaching)
                    reaching = _join(
                        self.walk(body, dict(reaching)),
                        self.walk(orelse, dict(reaching)),
                    )
                case ast.For() | ast.While():
                    reaching = self.loop(stmt, reaching)
                case ast.Break() | ast.Continue():
                    self.jumps[-1].append(dict(reaching))
                    return {}
                case _:
                    self.use(stmt, reaching)
        return reaching

    def loop(self, stmt: ir.Loop, reaching: _Reaching) -> _Reaching:
        if isinstance(stmt, ast.For):
            self.use(stmt.iter, reaching)
        for _ in range(2):  # what the first round defines reaches the second
            self.jumps.append([])
            inside = dict(reaching)
            if isinstance(stmt, ast.For):
                if isinstance(stmt.target, ast.Name):
                    self.define(stmt.target, inside)
                else:  # a tuple, in the source
                    self.use(stmt.target, inside)
            else:
                self.use(stmt.test, inside)
            end = self.walk(stmt.body, inside)
            reaching = _join(reaching, end, *self.jumps.pop())
        if isinstance(stmt, ast.While):
            self.use(stmt.test, reaching)
        return reaching


def _join(*states: _Reaching) -> _Reaching:
    return {
        v: frozenset().union(*(s.get(v, frozenset()) for s in states))
        for v in set().union(*states)
    }
