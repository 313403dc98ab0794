"""What a kernel would ask of a GPU, counted line by line on the CPU.

For each source line and each execution of it by a warp (32 threads of successive
number): the 32-byte sectors of global memory that its loads and stores touch, the
passes over the 32 banks that an access of shared memory takes, whether a branch sends
its threads both ways, and the floating-point operations of its threads.

Accesses of a warp belong together if they are its threads' n-th time at that place in
a run. Sectors count by address: the 32 threads of a perfectly coalesced float32 load
touch four, of a column of a matrix 32. Caches are not modelled.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numba
import numpy as np

from snref.simt import ir, parts
from snref.simt.ir import Kernel
from snref.simt.limits import Three
from snref.simt.recorder import BRANCH, LOAD, ROUNDS, SECTOR, SHARED, STORE
from snref.simt.run import Compiled, in_c_order
from snref.simt.storage import Storage
from snref.simt.style import Style, expand_slots

_FLOPS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


@dataclass(frozen=True)
class Line:
    """The counts of one source line, summed over the launch."""

    file: str
    line: int
    source: str
    loads: int = 0  # warps' load instructions of global memory
    load_sectors: int = 0
    stores: int = 0
    store_sectors: int = 0
    shared: int = 0  # warps' accesses of shared memory
    shared_passes: int = 0  # one each without conflicts of banks
    branches: int = 0  # warps' branches
    divergent: int = 0  # of those, with threads both ways
    flops: int = 0  # floating-point operations of all threads

    @property
    def bank_conflicts(self) -> int:
        return self.shared_passes - self.shared


@dataclass(frozen=True, repr=False)
class Report:
    """The counts of a launch: `lines`, and their sums. Prints as a table."""

    kernel: str
    lines: tuple[Line, ...]

    def total(self, count: str) -> int:
        """The sum of one count, `flops` or `load_sectors`, over the lines."""
        return int(sum(getattr(line, count) for line in self.lines))

    @property
    def flops(self) -> int:
        return self.total("flops")

    @property
    def bytes(self) -> int:
        """Bytes of global memory in the sectors touched: what a GPU without caches
        would move."""
        return SECTOR * (self.total("load_sectors") + self.total("store_sectors"))

    @property
    def intensity(self) -> float:
        """Floating-point operations a byte: the place on a roofline."""
        return self.flops / self.bytes if self.bytes else float("inf")

    def __str__(self) -> str:
        title = f"{'line':>5} {'ld/warp':>8} {'st/warp':>8} {'conflicts':>9} "
        title += f"{'divergent':>9} {'flops':>12}  source"
        rows = [self.kernel, title]
        for n in self.lines:
            loads = n.load_sectors / n.loads if n.loads else 0
            stores = n.store_sectors / n.stores if n.stores else 0
            split = f"{100 * n.divergent / n.branches:.0f} %" if n.branches else ""
            rows.append(
                f"{n.line:>5} {_blank(loads, '8.1f')} {_blank(stores, '8.1f')} "
                f"{_blank(n.bank_conflicts, '9d')} {split:>9} "
                f"{_blank(n.flops, '12d')}  {n.source.strip()}"
            )
        total = f"{self.flops} flops, {self.bytes} bytes of sectors"
        total += f", {self.intensity:.2f} flops a byte" if self.bytes else ""
        return "\n".join([*rows, total, _LEGEND]) + "\n"

    __repr__ = __str__  # a notebook shows the table, too


_LEGEND = """\
ld/warp, st/warp: sectors (32 bytes of global memory) that a warp loads, stores at once
conflicts: further passes over the banks of shared memory, of all warps together
divergent: how many of the warps' branches send threads both ways
flops: floating-point operations of all threads"""


def _blank(value: float, form: str) -> str:
    text = f"{value:{form}}"
    return text if value else " " * len(text)


# ------------------------------------------------------------------ the text


class Counting(Style):
    """Prints each access, branch and operation with a note to a recorder beside it."""

    rows = False
    independent = False
    exact = True
    imports = (
        "from snref.simt.recorder import branch, flop, note, settle",
        "from snref.simt.runtime import borrowed",
        "from numba import int64 as _int64",
        parts.IMPORT,
    )
    parameters = ("_where", "_seen", "_kinds", "_sizes", "_counts", "_flops")

    def __init__(self, kernel: Kernel, store: Storage):
        super().__init__(kernel, store)
        self.sites: list[tuple[int, int, int]] = []  # line, kind and bytes of each
        self.settled = 0  # sites of runs that are printed
        self.lines: list[int] = []  # the lines with arithmetic
        self.masks = {m for run in ir.runs(store.tree) for m in run.masks}
        arrays = [
            n for n, t in kernel.types.items() if isinstance(t, numba.types.Array)
        ]
        self.sizes = {n: ir.itemsize(kernel.types[n].dtype) for n in arrays}
        shared = {n: a for n, a in kernel.arrays.items() if a.space != "local"}
        self.sizes |= {n: ir.itemsize(a.dtype) for n, a in shared.items()}

    def once(self) -> list[str]:
        flat = [f"{a}_flat = borrowed({a}.reshape({a}.size))" for a in self.sizes]
        return flat + [f"{p} = borrowed({p})" for p in self.parameters]

    def after_run(self) -> list[str]:
        first, self.settled = self.settled, len(self.sites)
        if first == self.settled:
            return []
        given = ", ".join(self.parameters[:-1])
        return [f"settle({given}, _int64({first}), _int64({self.settled}))"]

    def facts(self) -> dict[str, Any]:
        return {"sites_noted": tuple(self.sites), "lines": tuple(self.lines)}

    def statement(self, stmt: ast.stmt, inside: bool) -> list[str]:
        new = _Notes(self, stmt.lineno, inside).stmts([copy.deepcopy(stmt)])
        return ir.text(map(ast.fix_missing_locations, new))

    def expression(self, node: ast.expr, inside: bool) -> str:
        parts.refuse(self.kernel, node, getattr(node, "lineno", self.kernel.line))
        notes = _Notes(self, getattr(node, "lineno", 0), inside)
        new = ast.fix_missing_locations(notes.visit(copy.deepcopy(node)))
        return ast.unparse(new)

    def site(self, line: int, kind: int, size: int = 0) -> str:
        """The recorder's arguments for a new site."""
        self.sites.append((line, kind, size))
        return f"_where, _seen, _int64({len(self.sites) - 1}), _t"

    def counter(self, line: int, inside: bool) -> str:
        """The place of a line's operations, and how often one counts."""
        if line not in self.lines:
            self.lines.append(line)
        times = 1 if inside else self.kernel.threads  # once here: in all threads there
        return f"_flops, _int64({self.lines.index(line)}), _int64({times})"


class _Notes(ast.NodeTransformer):
    def __init__(self, style: Counting, line: int, inside: bool):
        self.style, self.line, self.inside = style, line, inside

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt):
            self.line = node.lineno
        return super().visit(node)

    def stmts(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements with notes, those of parts of arrays beside them."""
        out: list[ast.stmt] = []
        for stmt in stmts:
            new = self.visit(stmt)
            out += new if isinstance(new, list) else [new] if new is not None else []
        return out

    def look(self, a: str, kind: int, places: list[ast.expr]) -> list[ast.stmt]:
        return [ast.Expr(self.noted(a, places, kind))]

    def parts(self, stmt: Any) -> list[ast.stmt]:
        """The statement with notes on its parts of arrays; empty if it has none."""
        style, line = self.style, stmt.lineno
        taken = parts.apart(style.kernel, stmt, style.fresh, style.local)
        if taken is None:
            return []
        every = [(p, LOAD) for p in taken.loaded]
        every += [(p, STORE) for p in (taken.stored,) if p is not None]
        named = {p.name for p, _ in every}
        out = [
            s if ir.names(s, store=True) <= named else self.visit(s)
            for s in taken.before
        ]
        for p, kind in every:
            if p.array not in style.local:  # which are registers
                out += p.each(partial(self.look, p.array, kind))
        out += self.stmts([ir.at(taken.stmt, line)])
        return [ir.at(s, line) for s in out]

    def visit_Expr(self, stmt: ast.Expr) -> Any:
        if ir.called(stmt) in (ir.FENCE, ir.LANE, ir.PRESENT):
            return None
        return self.parts(stmt) or self.generic_visit(stmt)

    def element(self, node: ast.Subscript, kind: int) -> ast.expr:
        """The element, its place noted; local arrays are registers."""
        assert isinstance(node.value, ast.Name)
        a, style = node.value.id, self.style
        found = parts.element(style.kernel, node)
        assert found is not None  # parts are taken apart
        places = [self.visit(p) for p in found]
        if a in style.local:
            inside = ast.Tuple([*places, ir.name("_t")], ast.Load())
            return ast.Subscript(node.value, inside, node.ctx)
        place = ir.call("_u", self.noted(a, places, kind))
        return ast.Subscript(ir.name(f"{a}_flat"), place, node.ctx)

    def noted(self, a: str, places: Sequence[ast.expr], kind: int) -> ast.expr:
        """The number of the element, noted."""
        flat = ast.unparse(places[0])
        for d, p in enumerate(places[1:], 1):
            flat = f"({flat}) * {a}.shape[{d}] + ({ast.unparse(p)})"
        kind = SHARED if a in self.style.kernel.arrays else kind
        site = self.style.site(self.line, kind, self.style.sizes[a])
        return ir.expression(f"note({site}, _int64({flat}))")

    def known(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in self.style.sizes.keys() | self.style.local
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not self.known(node):
            return self.generic_visit(node)
        return self.element(node, STORE if isinstance(node.ctx, ast.Store) else LOAD)

    def visit_AugAssign(self, stmt: ast.AugAssign) -> Any:
        if of_parts := self.parts(stmt):
            return of_parts
        old = copy.deepcopy(stmt.target)
        old.ctx = ast.Load()
        new = ast.Assign([stmt.target], ast.BinOp(old, stmt.op, stmt.value))
        counted: ast.AST = self.visit(ast.copy_location(new, stmt))
        return counted

    def visit_Assign(self, stmt: ast.Assign) -> Any:
        if of_parts := self.parts(stmt):
            return of_parts
        (left,) = stmt.targets
        mask = isinstance(left, ast.Name) and left.id in self.style.masks
        opposite = isinstance(stmt.value, ast.UnaryOp)  # of the mask beside it
        value = self.visit(stmt.value)
        if mask and not opposite:
            value = self.branch(value)
        return ast.Assign([self.visit(left)], value, lineno=stmt.lineno)

    def branch(self, test: ast.expr) -> ast.expr:
        site = self.style.site(self.line, BRANCH)
        return ir.expression(f"branch({site}, True if {ast.unparse(test)} else False)")

    def visit_If(self, stmt: ast.If) -> ast.AST:
        parts.refuse(self.style.kernel, stmt.test, stmt.lineno)
        stmt.test = self.branch(self.visit(stmt.test))
        stmt.body = self.stmts(stmt.body)
        stmt.orelse = self.stmts(stmt.orelse)
        return stmt

    def visit_While(self, stmt: ast.While) -> ast.AST:
        parts.refuse(self.style.kernel, stmt.test, stmt.lineno)
        stmt.test = self.branch(self.visit(stmt.test))
        stmt.body = self.stmts(stmt.body)
        return stmt

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        new = self.generic_visit(node)
        if not isinstance(node.op, _FLOPS):
            return new
        counter = self.style.counter(self.line, self.inside)
        return ir.expression(f"flop({ast.unparse(new)}, {counter})")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        expanded = expand_slots(self, node)
        if expanded is not None:
            return expanded
        if isinstance(node.func, ast.Name) and node.func.id.startswith("atomic_"):
            whole = node.func.id == ir.WHOLE_SWAP
            node = node if whole else parts.of_array(node)
            a, *rest = node.args
            i = ast.Constant(0) if whole else rest.pop(0)
            element = self.element(ast.Subscript(a, i, ast.Load()), STORE)
            assert isinstance(element, ast.Subscript)
            if a.id in self.style.local or whole:  # type: ignore[attr-defined]
                return self.generic_visit(node)
            given = [element.value, element.slice, *map(self.visit, rest)]
            return ast.Call(node.func, given, [])
        return self.generic_visit(node)


# ------------------------------------------------------------------ the launch


class Profile(Compiled):
    """A kernel that counts: `profile(kernel)[grid, block](*arguments)` is a Report."""

    style = Counting

    def __init__(self, kernel: Any):
        super().__init__(kernel, threads=1)

    def launch(
        self, grid: Three, block: Three, dynamic: int, arguments: Sequence[Any]
    ) -> Report:
        module = self.module(block, dynamic, arguments)
        sites, lines = module.facts["sites_noted"], module.facts["lines"]
        shape = (max(len(sites), 1), ROUNDS, prod(block))
        kinds = np.array([kind for _, kind, _ in sites] or [0])
        sizes = np.array([size for _, _, size in sites] or [0])
        counts = np.zeros((shape[0], 2), np.int64)
        flops = np.zeros(max(len(lines), 1), np.int64)
        seen = np.zeros((shape[0], shape[2]), np.int64)
        where = np.zeros(shape, np.int64)
        recorder = (where, seen, kinds, sizes, counts, flops)
        with in_c_order(arguments) as mine:
            module.run(0, prod(grid), grid, mine, recorder)
        return self.report(module.sources, sites, counts, lines, flops)

    def report(
        self,
        sources: Sequence[ir.Source],
        sites: Sequence[tuple[int, int, int]],
        counts: np.ndarray,
        lines: Sequence[int],
        flops: np.ndarray,
    ) -> Report:
        found: dict[int, dict[str, int]] = {}
        names = {
            LOAD: ("loads", "load_sectors"),
            STORE: ("stores", "store_sectors"),
            SHARED: ("shared", "shared_passes"),
            BRANCH: ("branches", "divergent"),
        }
        for (line, kind, _), both in zip(sites, counts.tolist(), strict=False):
            of_line = found.setdefault(line, {})
            for n, count in zip(names[kind], both, strict=True):
                of_line[n] = of_line.get(n, 0) + count
        for line, count in zip(lines, flops.tolist(), strict=False):
            found.setdefault(line, {})["flops"] = count
        of_report = []
        for line, of_line in sorted(found.items()):
            if any(of_line.values()):
                file, number = ir.line_of_file(sources, line)
                text = ir.source_line(sources, line)
                of_report.append(Line(Path(file).name, number, text, **of_line))
        return Report(self.__name__, tuple(of_report))
