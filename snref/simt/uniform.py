"""Stage 4: what all threads of a block agree on.

A variable is uniform if every definition of it computes the same value in all threads,
and they all take part in it. A loop or branch is divergent if its condition may differ
between threads. In

    i = blockIdx_x * 64 + threadIdx_x
    n = a.shape[0] // 2
    for k in range(n):
        if i < k:
            m = k + 1

`i` varies; `n` and `k` are uniform and so is the loop; the branch is divergent. `m` is
uniform as long as it is used inside that branch only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from snref.simt import ir
from snref.simt.ir import COMPOUNDS, LOOPS, Compound, Kernel

# Inside which branches of which divergent statements a statement stands.
_Context: TypeAlias = tuple[tuple[ast.stmt, int], ...]


@dataclass(frozen=True)
class Uniformity:
    """The answer: which names vary between threads, which statements diverge."""

    varying: frozenset[str]
    divergent: frozenset[Compound]
    alone: frozenset[Compound]  # of those, what a thread that holds a lock does

    def varies(self, node: ast.AST) -> bool:
        """May the value of this expression differ between threads?"""
        return _varies(node, self.varying)

    def __str__(self) -> str:
        lines = sorted(f"line {s.lineno}: {ir.head(s)}" for s in self.divergent)
        return "\n".join(["vary: " + " ".join(sorted(self.varying)), *lines]) + "\n"


def uniform(kernel: Kernel) -> Uniformity:
    """Which values and statements of the kernel all threads of a block share."""
    local = {n for n, a in kernel.arrays.items() if a.space == "local"}
    slotted = set().union(*map(ir.seen_by_others, kernel.body))
    analysis = _Analysis({*ir.THREAD, *local, *slotted})
    while True:  # more varying names make more statements divergent, and so on
        before = len(analysis.varying)
        analysis.stores, analysis.loads = {}, {}
        analysis.walk(kernel.body, (), False)
        analysis.leave_branches()
        if len(analysis.varying) == before:
            found = analysis.varying, analysis.divergent, analysis.alone
            return Uniformity(*map(frozenset, found))  # type: ignore[arg-type]


def _varies(node: ast.AST, varying: set[str] | frozenset[str]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = node.func.id
        if function in ir.TOTALS:
            return False
        if function == ir.SLOT:
            return _varies(node.args[1], varying)
        if function in {ir.VOTE, *ir.PRINTS} or function.startswith("atomic_"):
            return True  # each thread its own; all other functions are pure
    if isinstance(node, ast.Name):
        return node.id in varying
    return any(_varies(part, varying) for part in ast.iter_child_nodes(node))


def _may_lock(stmt: ast.stmt) -> bool:
    """Is there a loop that goes on until an atomic operation succeeds?"""
    if ir.synchronises(stmt):
        return False
    loops = (n for n in ast.walk(stmt) if isinstance(n, ast.While))
    return any(map(ir.atomic, loops))


class _Analysis:
    def __init__(self, varying: set[str]):
        self.varying = varying
        self.divergent: set[Compound] = set()
        self.alone: set[Compound] = set()
        self.stores: dict[str, list[_Context]] = {}
        self.loads: dict[str, list[_Context]] = {}

    def varies(self, node: ast.AST) -> bool:
        return _varies(node, self.varying)

    def read(self, node: ast.AST, context: _Context) -> None:
        for n in ir.names(node, store=False):
            self.loads.setdefault(n, []).append(context)

    def define(self, n: str, context: _Context, varies: bool) -> None:
        self.stores.setdefault(n, []).append(context)
        if varies:
            self.varying.add(n)

    def walk(self, stmts: Iterable[ast.stmt], context: _Context, alone: bool) -> None:
        """`alone`: inside a divergent loop, which each thread runs by itself.

        Behind a loop with atomics a thread may hold a lock: up to the next barrier it
        runs by itself, too, or it would wait for others that wait for the lock.
        """
        around = alone
        for stmt in stmts:
            if ir.synchronises(stmt):
                alone = around
            if isinstance(stmt, COMPOUNDS):
                if alone and not around:
                    inside = (n for n in ast.walk(stmt) if isinstance(n, COMPOUNDS))
                    self.alone.update(inside)
                self.compound(stmt, context, alone)
                alone = alone or _may_lock(stmt)
                continue
            self.read(stmt, context)
            left = ir.target(stmt)
            if isinstance(left, ast.Name):
                assert isinstance(stmt, (ast.Assign, ast.AugAssign))
                if isinstance(stmt, ast.AugAssign):
                    self.loads.setdefault(left.id, []).append(context)
                self.define(left.id, context, alone or self.varies(stmt.value))

    def compound(self, stmt: Compound, context: _Context, alone: bool) -> None:
        self.read(ir.test(stmt), context)
        if self.varies(ir.test(stmt)) or self.parts_ways(stmt) or stmt in self.alone:
            self.divergent.add(stmt)
        diverges = stmt in self.divergent
        if isinstance(stmt, ast.If):
            # Threads that have returned take no part in the rest: what the others give
            # a value there is not read by those that skip it.
            apart = diverges and not ir.stays(stmt)
            for i, branch in enumerate((stmt.body, stmt.orelse)):
                inside = (*context, (stmt, i)) if apart else context
                self.walk(branch, inside, alone)
            return
        inside = (*context, (stmt, 0)) if diverges else context
        if isinstance(stmt, ast.For):
            assert isinstance(stmt.target, ast.Name)
            self.define(stmt.target.id, inside, diverges or alone)
        self.walk(stmt.body, inside, alone or diverges)

    def parts_ways(self, stmt: Compound) -> bool:
        """Do threads leave this loop at different times, or must it stay together?"""
        if not isinstance(stmt, LOOPS):
            return False
        # A loop with atomics is one step of a thread: their order is the threads'.
        if not ir.synchronises(stmt) and ir.atomic(stmt):
            return True
        return any(self.varies(i.test) for _, around in ir.jumps(stmt) for i in around)

    def leave_branches(self) -> None:
        """A value set in one branch and read outside it varies."""
        for n, stores in self.stores.items():
            first = stores[0]
            apart = len(set(stores)) > 1
            outside = any(c[: len(first)] != first for c in self.loads.get(n, ()))
            if apart or outside:
                self.varying.add(n)
