"""Stage 7: where each thread's variables live.

A value that is read in another run than the one that made it must survive the end of
the loop over threads. Cheap index arithmetic is *recomputed* in each run that reads it,
so addresses stay affine in the thread's index; everything else gets one *slot* a
thread. Values that stay within a run are private to it and need neither. Liveness, the
analysis this project is about, decides which slots a run has to store:

    run:                                  run:
        i = blockIdx_x * 64 + t               s = a[blockIdx_x * 64 + t]
        s = a[i]                              store s
    _barrier()                    ->      _barrier()
    run:                                  run:
        c[i] = s                              load s
                                              i = blockIdx_x * 64 + t
                                              c[i] = s
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from snref.simt import ir
from snref.simt.ir import LOOPS, Control, Kernel, Run, Scalar, Tree
from snref.simt.uniform import Uniformity

# Where a statement stands: a list and the place in it, of each list around it. The
# statements of the i-th node of a tree are at (i, 1), (i, 2) ...: runs do not nest.
_Path: TypeAlias = tuple[tuple[int, tuple[int, int]], ...]


@dataclass(frozen=True)
class Storage:
    """How each run gets and keeps the variables of a thread."""

    tree: tuple[Tree, ...]
    slots: frozenset[str]
    plans: Mapping[int, Plan]  # by id of the run

    def plan(self, run: Run) -> Plan:
        return self.plans[id(run)]

    def __str__(self) -> str:
        lines = ["slots: " + " ".join(sorted(self.slots))]
        for i, run in enumerate(ir.runs(self.tree), 1):
            plan = self.plan(run)
            masks = " if " + " and ".join(run.masks) if run.masks else ""
            lines.append(f"run {i}{masks}:")
            lines += [f"    load {v}" for v in plan.loads]
            lines += [f"    recompute {line}" for line in ir.text(plan.recomputed)]
            lines += ir.text(plan.body, 1)
            if run.total:
                lines.append(
                    f"    {run.total[0]} = {run.total[1]}({ast.unparse(run.total[2])})"
                )
            lines += [f"    store {v}" for v in plan.stores]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Plan:
    """One run: slots to load, definitions to repeat, what is left of it, to store."""

    loads: tuple[str, ...]
    recomputed: tuple[ast.stmt, ...]
    body: tuple[ast.stmt, ...]
    stores: tuple[str, ...]


def storage(kernel: Kernel, tree: tuple[Tree, ...], uniformity: Uniformity) -> Storage:
    """Choose recomputation, a slot or nothing for every varying variable."""
    varying = set(uniformity.varying) - set(ir.THREAD) - set(kernel.arrays)
    varying |= {m for run in ir.runs(tree) for m in run.masks}
    kept = set().union(*map(ir.seen_by_others, kernel.body))
    recomputed = _recomputable(kernel, tree, varying, kept)
    slots = set(kept)
    for run in ir.runs(tree):
        slots |= _exposed(run)[0] & varying - set(recomputed)
    live = _Liveness(slots, kept)
    live.walk(tree, set())
    plans = {
        id(run): _plan(run, recomputed, slots, live.after[id(run)] | kept, varying)
        for run in ir.runs(tree)
    }
    return Storage(tree, frozenset(slots), plans)


# ------------------------------------------------------------------ what a run reads


def _own(node: ast.AST) -> set[str]:
    """Names a thread reads of its own: not the first argument of SLOT."""
    found: set[str] = set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        skip = {ir.SLOT: node.args[:1], ir.VOTE: node.args[:3]}.get(node.func.id, [])
        return found.union(*(_own(a) for a in node.args if a not in skip))
    if isinstance(node, ast.Name):
        found.add(node.id)
    return found.union(*map(_own, ast.iter_child_nodes(node)))


def _exposed(run: Run) -> tuple[set[str], set[str]]:
    """Names the run reads before it has surely written them; names surely written."""
    reads, written = _reads(run.body, set())
    if run.total:
        reads |= _own(run.total[2]) - written
    return reads | set(run.masks), set() if run.masks else written


def _reads(stmts: Iterable[ast.stmt], written: set[str]) -> tuple[set[str], set[str]]:
    reads: set[str] = set()
    written = set(written)
    for stmt in stmts:
        match stmt:
            case ast.Assign([ast.Name(id)], value):
                reads |= _own(value) - written
                written.add(id)
            case ast.If(test, body, orelse):
                reads |= _own(test) - written
                in_body, after_body = _reads(body, written)
                in_else, after_else = _reads(orelse, written)
                reads |= in_body | in_else
                written |= after_body & after_else
            case ast.For() | ast.While():
                reads |= _own(ir.test(stmt)) - written
                mine = {stmt.target.id} if isinstance(stmt, ast.For) else set()  # type: ignore[attr-defined]
                reads |= _reads(stmt.body, written | mine)[0]
            case _:
                reads |= _own(stmt) - written
    return reads, written


class _Liveness:
    """Which slots may still be read after each run: one sweep from the end."""

    def __init__(self, slots: set[str], kept: set[str]):
        self.slots, self.kept = slots, kept
        self.after: dict[int, set[str]] = {}

    def walk(self, tree: Sequence[Tree], live: set[str]) -> set[str]:
        """Live before the tree, given what is live after it."""
        for node in reversed(tree):
            match node:
                case Run():
                    self.after[id(node)] = self.after.get(id(node), set()) | live
                    reads, written = _exposed(node)
                    live = (live - written) | (reads & self.slots)
                case Control(stmt, body, orelse) if isinstance(stmt, LOOPS):
                    # Round the loop until nothing changes. Jumps may skip any part
                    # of the body, so what is live after the loop is live throughout.
                    around: set[str] = set()
                    while not around >= (
                        found := self.walk(body, live | around) | live
                    ):
                        around |= found
                    live = live | around
                    del orelse
                case Control(_, body, orelse):
                    live = self.walk(body, live) | self.walk(orelse, live)
                case Scalar():
                    pass
        return set(live)


# ------------------------------------------------------------------ recomputation


def _recomputable(
    kernel: Kernel, tree: Sequence[Tree], varying: set[str], kept: set[str]
) -> dict[str, ast.stmt]:
    """Varying variables that may be computed again at each use, with their definition.

    Defined once, in the same round of every loop and before all uses, from cheap
    arithmetic on values of the same kind. Those `kept` in slots are read there.
    """
    places = _Places()
    places.walk(tree, ())
    single = {
        v: found[0]
        for v, found in places.definitions.items()
        if len(found) == 1
        and all(_dominates(found[0][0], use) for use in places.uses.get(v, ()))
    }
    known = {*ir.THREAD, *ir.BLOCK, *ir.GRID}
    known |= {p for p in kernel.types if p not in places.definitions}
    known |= {v for v in single if v not in varying}
    recomputed: dict[str, ast.stmt] = {}
    changed = True
    while changed:
        changed = False
        for v, (_, stmt) in single.items():
            if v in kept or v in recomputed or v not in varying:
                continue
            if not isinstance(stmt, ast.Assign):
                continue
            if _cheap(stmt.value, known | set(recomputed)):
                recomputed[v] = stmt
                changed = True
    return recomputed


class _Places:
    """Where each variable is defined and read."""

    def __init__(self) -> None:
        self.definitions: dict[str, list[tuple[_Path, ast.stmt | None]]] = {}
        self.uses: dict[str, list[_Path]] = {}

    def define(self, node: ast.expr, path: _Path, stmt: ast.stmt | None = None) -> None:
        if isinstance(node, ast.Name):
            self.definitions.setdefault(node.id, []).append((path, stmt))
        else:
            self.read(node, path)

    def read(self, node: ast.AST, path: _Path) -> None:
        for v in ir.names(node):
            self.uses.setdefault(v, []).append(path)

    def walk(self, tree: Sequence[Tree], path: _Path) -> None:
        for i, node in enumerate(tree):
            here = (*path, (id(tree), (i, 0)))
            match node:
                case Run(body, masks, total):
                    for m in masks:
                        self.read(ir.name(m), here)
                    for j, stmt in enumerate(body, 1):
                        self.stmt(stmt, (*path, (id(tree), (i, j))))
                    if total:
                        end = (*path, (id(tree), (i, len(body) + 1)))
                        self.read(total[2], end)
                        self.define(ir.name(total[0]), end)
                case Scalar(stmt):
                    self.stmt(stmt, here)
                case Control(stmt, body, orelse):
                    self.read(ir.test(stmt), here)
                    if isinstance(stmt, ast.For):
                        self.define(stmt.target, (*here, (id(body), (-1, 0))))
                    self.walk(body, here)
                    self.walk(orelse, here)

    def stmt(self, stmt: ast.stmt, here: _Path) -> None:
        match stmt:
            case ast.Assign([target], value):
                self.read(value, here)
                self.define(target, here, stmt)
            case ast.AugAssign(target, _, value):
                self.read(value, here)
                self.define(target, here)
            case ast.If() | ast.For() | ast.While():
                self.read(ir.test(stmt), here)
                if isinstance(stmt, ast.For):
                    self.define(stmt.target, (*here, (id(stmt.body), (-1, 0))))
                for part in (stmt.body, stmt.orelse):
                    for i, inner in enumerate(part):
                        self.stmt(inner, (*here, (id(part), (i, 0))))
            case _:
                self.read(stmt, here)


def _dominates(definition: _Path, use: _Path) -> bool:
    """Does every path to the use, in its round of the loops, pass the definition?"""
    around, (where, position) = definition[:-1], definition[-1]
    if len(use) < len(definition) or use[: len(around)] != around:
        return False
    return use[len(around)][0] == where and use[len(around)][1] > position


_CHEAP = {"min", "max", ir.WRAP}


def _cheap(value: ast.expr, known: set[str]) -> bool:
    """Index arithmetic on known values: no memory, no division but by powers of 2."""
    for n in ast.walk(value):
        match n:
            case ast.Name(id) if id not in known and id not in _CHEAP:
                return False
            case ast.BinOp(_, ast.FloorDiv() | ast.Mod(), ast.Constant(int(d))):
                if d <= 0 or d & (d - 1):
                    return False
            case ast.BinOp(_, ast.FloorDiv() | ast.Mod() | ast.Div() | ast.Pow()):
                return False
            case ast.Subscript(ast.Attribute(_, "shape")):
                pass
            case ast.Subscript():
                return False
            case ast.Call(ast.Name(function)) if function in _CHEAP:
                pass
            case ast.Call():
                return False
    return True


# ------------------------------------------------------------------ one run


def _plan(
    run: Run,
    recomputed: Mapping[str, ast.stmt],
    slots: set[str],
    live: set[str],
    varying: set[str],
) -> Plan:
    written = {n for s in run.body for n in ir.names(s, store=True)}
    stores = sorted(written & slots & live)
    wanted = set(stores) | set(run.masks)
    wanted |= _own(run.total[2]) if run.total else set()
    body = _without_dead(run.body, wanted, varying)
    reads, sure = _reads(body, set())
    reads |= wanted - sure | set(run.masks)
    repeated = _closure(reads, recomputed)
    defined = {n for s in body for n in ir.names(s, store=True)}
    repeated = [v for v in repeated if v not in defined]
    reads |= {n for v in repeated for n in _own(recomputed[v])}
    partly = written - sure
    loads = sorted(v for v in slots if v in reads or (v in stores and v in partly))
    return Plan(
        tuple(loads), tuple(recomputed[v] for v in repeated), body, tuple(stores)
    )


def _closure(wanted: set[str], recomputed: Mapping[str, ast.stmt]) -> list[str]:
    """The wanted definitions and those they need, in the order of the text."""
    found: set[str] = set()
    todo = wanted & set(recomputed)
    while todo:
        v = todo.pop()
        found.add(v)
        todo |= (ir.names(recomputed[v]) & set(recomputed)) - found
    return [v for v in recomputed if v in found]


def _without_dead(
    stmts: Sequence[ast.stmt], wanted: set[str], varying: set[str]
) -> tuple[ast.stmt, ...]:
    """Drop definitions nobody reads here: other runs compute them again."""
    out: list[ast.stmt] = []
    wanted = set(wanted)
    for stmt in reversed(stmts):
        match stmt:
            case ast.Assign([ast.Name(id)], value) if not _effects(value):
                if id not in wanted and id in varying:
                    continue
                wanted = (wanted - {id}) | ir.names(value)
            case _:
                wanted |= ir.names(stmt)
        out.append(stmt)
    return tuple(reversed(out))


def _effects(value: ast.expr) -> bool:
    return ir.atomic(value) or ir.calls(value, ir.PRINTS)
