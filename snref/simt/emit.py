"""Stage 8: the tree of a block -> the text of a Python module for Numba.

Every run becomes a loop over the threads of the block, `threadIdx.x` innermost. Slots
and local arrays get a last axis for the thread. Indices are unsigned: Numba's test for
negative ones would cost each access a comparison. `_first` and `_last` bound the blocks
of one call. With blocks of 32 threads, a tree and what is printed for it:

    for k in range(n):                    for k in range(n):
        run:                                  for threadIdx_x in range(32):
            load s                ->              _t = threadIdx_x
            s += a[k, threadIdx_x]                s = s_of[_t]
            store s                               s += a[_u(k), _u(threadIdx_x)]
                                                  s_of[_t] = s
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numba
from numba.np import numpy_support

from snref.simt import ir
from snref.simt.frame import Frame
from snref.simt.guards import bounded, integers
from snref.simt.ir import LOOPS, Control, Kernel, Run, Scalar, Tree
from snref.simt.storage import Plan, Storage
from snref.simt.style import Style, slot

ROW_ACCUMULATORS = 32  # a thread's local elements that still fit the registers of a row
NJIT = '@njit(nogil=True, error_model="numpy", fastmath={"contract"})'
LANES = NJIT.replace(")", ", pipeline_class=Lanes)")  # threads of a run: independent


def emit(
    store: Storage,
    kernel: Kernel,
    dtypes: Mapping[str, Any],
    style: type[Style] = Style,
) -> str:
    """The module whose function `launch` runs blocks first to last of the grid.

    Beside it, `FACTS` is what the launch must know about the kernel.
    """
    used = set(kernel.types).union(*map(ir.names, kernel.body))
    for v in sorted(v for v in store.slots if slot(v) in used):
        problem = f"{slot(v)} is where the compiler keeps {v}: choose another name"
        raise kernel.error(kernel.line, problem)
    printer = _Printer(kernel, store, style(kernel, store), whole=integers(kernel))
    printer.tree(store.tree, 2)
    frame = Frame.of(kernel, dtypes)
    facts = {
        "constants": tuple(kernel.constants),
        "ordered": kernel.waits or any(map(ir.atomic, kernel.body)),
        "assumed": tuple(list(kernel.types).index(p) for p in kernel.assumed),
        "arena": frame.bytes if frame.large else 0,
        **printer.style.facts(),
    }
    return "\n".join([*_module(kernel, frame, printer), "", f"FACTS = {facts}"]) + "\n"


def _module(kernel: Kernel, frame: Frame, printer: _Printer) -> Iterator[str]:
    style = printer.style
    yield f"# Generated from {kernel.name}, block {kernel.block}"
    yield "import numba"
    yield "from numba import njit"
    yield "from snref.simt.runtime import in_buffer, on_stack, u as _u"
    independent = style.independent and not any(map(ir.atomic, kernel.body))
    if independent:
        yield "from snref.simt.lanes import Lanes"
    text = "\n".join(printer.lines)
    for n in ("divide", "modulo"):
        if f"_{n}(" in text:
            yield f"from snref.simt.elementary import {n} as _{n}"
    if f"{ir.WRAP}(" in text:
        yield style.wrap
    yield from style.imports
    yield from kernel.imports.values()
    yield ""
    heap = frame.large
    for n, (shape, dtype) in frame.arrays.items():
        made = f"in_buffer({{}}, {frame.offsets()[n]})" if heap else "on_stack({})"
        yield f"new_{n} = {made.format(f'{shape}, {_type(dtype)}')}"
    if frame.views:
        dynamic = (max(frame.dynamic, 1),)
        yield f"new__dynamic = on_stack({dynamic}, numba.types.uint8)"
    for n, (shape, dtype) in frame.views.items():
        yield f"new_{n} = in_buffer({shape}, {_type(dtype)}, 0)"
    yield ""
    yield LANES if independent else NJIT
    given = ["_first", "_last", *ir.GRID, *kernel.types, "_arena", *style.parameters]
    yield f"def launch({', '.join(given)}):"
    if frame.views:
        yield "    _dynamic = new__dynamic()"
    for n in frame.arrays:
        yield f"    {n} = new_{n}({'_arena' if heap else ''})"
    for n in frame.views:
        yield f"    {n} = new_{n}(_dynamic)"
    yield from ("    " + line for line in style.once())
    yield "    blockIdx_x = _first % gridDim_x"
    yield "    blockIdx_y = _first // gridDim_x % gridDim_y"
    yield "    blockIdx_z = _first // (gridDim_x * gridDim_y)"
    yield "    for _b in range(_first, _last):"
    yield from ("        " + line for line in style.prologue())
    yield from printer.lines
    # the next block: to divide would take as long as a small block itself
    yield "        blockIdx_x += 1"
    yield "        if blockIdx_x == gridDim_x:"
    yield "            blockIdx_x = 0"
    yield "            blockIdx_y += 1"
    yield "            if blockIdx_y == gridDim_y:"
    yield "                blockIdx_y = 0"
    yield "                blockIdx_z += 1"
    yield "    return 0"


def _type(dtype: Any) -> str:
    if isinstance(dtype, numba.types.Record):  # as NumPy writes it
        return f"numba.from_dtype(numpy.{numpy_support.as_dtype(dtype)!r})"
    name = "boolean" if dtype.name == "bool" else dtype.name
    return f"numba.types.{name}"


@dataclass
class _Printer:
    kernel: Kernel
    store: Storage
    style: Style
    lines: list[str] = field(default_factory=list)
    whole: frozenset[str] = frozenset()  # names of integers
    in_row: bool = False  # are the loops over y and z around this already?

    def put(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def tree(self, tree: Sequence[Tree], depth: int) -> None:
        start = len(self.lines)
        for node in tree:
            match node:
                case Run():
                    self.run(node, self.store.plan(node), depth)
                case Scalar(stmt):
                    self.put(depth, *self.scalar(stmt))
                case Control():
                    self.control(node, depth)
        if len(self.lines) == start:
            self.put(depth, "pass")

    def scalar(self, stmt: ast.stmt) -> list[str]:
        function = ir.called(stmt)
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
            argument = ast.unparse(stmt.value.args[0]) if stmt.value.args else ""
            if function == ir.BARRIER:
                return self.style.barrier()
            if function == ir.CUT:
                return self.style.warp_barrier(stmt)
            if function == ir.CLEAR:
                return [f"{slot(argument)}[:] = False"]
            if function == ir.REFUSE:
                return [f"return {ast.unparse(ir.ending(int(argument)))}"]
        return self.style.statement(stmt, False)

    def control(self, node: Control, depth: int) -> None:
        rows = self.style.rows and not self.in_row and self.rowwise(node)
        if rows:
            depth = self.loops("zy", depth)
            self.in_row = True
        decides = self.style.expression(ir.test(node.stmt), False)
        if isinstance(node.stmt, ast.For):
            self.put(depth, f"for {ast.unparse(node.stmt.target)} in {decides}:")
        else:
            word = type(node.stmt).__name__.lower()
            self.put(depth, f"{word} {decides}:")
        self.tree(node.body, depth + 1)
        if node.orelse:
            self.put(depth, "else:")
            self.tree(node.orelse, depth + 1)
        if rows:
            self.in_row = False

    def rowwise(self, node: Control) -> bool:
        """Is it a nest of loops with nothing but runs in it? Then a row of threads may
        go through all of it before the next row starts, its sums in registers."""
        if not isinstance(node.stmt, LOOPS) or self.kernel.block[1] == 1:
            return False
        used: set[str] = set()

        def pure(tree: Sequence[Tree]) -> bool:
            for n in tree:
                match n:
                    case Run(body, _, None):
                        used.update(*map(ir.names, body))
                    case Control(stmt, body, ()) if isinstance(stmt, LOOPS):
                        if not pure(body):
                            return False
                    case _:
                        return False
            return True

        sums = sum(
            prod(a.shape)
            for n, a in self.kernel.arrays.items()
            if a.space == "local" and n in used
        )
        return pure((node,)) and sums <= ROW_ACCUMULATORS

    def loops(self, axes: str, depth: int) -> int:
        for axis in axes:
            n = self.kernel.block[ir.AXES.index(axis)]
            if n > 1:
                self.put(depth, f"for threadIdx_{axis} in range({n}):")
                depth += 1
        return depth

    def run(self, run: Run, plan: Plan, depth: int) -> None:
        if not plan.body and not run.total and not plan.stores:
            return
        if run.total:
            start = "0" if run.total[1] != ir.ANY else "False"
            self.put(depth, f"{run.total[0]} = {start}")
        inside = [n for s in run.body for n in ast.walk(s)]
        where = [n.lineno for n in inside if isinstance(n, ast.stmt)]
        where = [line for line in where if line < ir.FUNCTION]  # of the kernel itself
        if where:
            low, high = min(where), max(where)
            self.put(depth, f"# line {low}" + (f"-{high}" if high > low else ""))
        row = depth if self.in_row else self.loops("zy", depth)
        guard = bounded(self.whole, run, plan) if self.style.independent else None
        if guard is not None and self.kernel.block[0] > 1:
            run, plan, count = guard
            threads = self.kernel.block[0]
            self.put(row, f"_lanes = min({threads}, {ast.unparse(count)})")
            self.put(row, "for threadIdx_x in range(_lanes):")
            inner = row + 1
        else:
            inner = self.loops("x", row)
        lines = self.thread(run, plan)
        if any(re.search(r"\b_t\b", line) for line in lines):
            self.put(inner, f"_t = {ir.thread_number(self.kernel.block)}")
        self.put(inner, *lines)
        self.put(depth, *self.style.after_run())

    def thread(self, run: Run, plan: Plan) -> list[str]:
        """What one thread does in a run."""
        loads = {v: f"{v} = {slot(v)}[_t]" for v in plan.loads}
        recomputed = {
            ast.unparse(s.targets[0]): self.style.statement(s, True)
            for s in plan.recomputed
            if isinstance(s, ast.Assign)
        }
        lines: list[str] = []
        pad = ""
        if run.masks:
            first = self.needed(run.masks, plan)
            for v in [v for v in loads if v in first]:
                lines.append(loads.pop(v))
            for v in [v for v in recomputed if v in first]:
                lines += recomputed.pop(v)
            lines.append(f"if {' and '.join(run.masks)}:")
            pad = "    "
        rest = list(loads.values())
        for text in recomputed.values():
            rest += text
        for stmt in plan.body:
            rest += self.style.statement(stmt, True)
        if run.total:
            n, how, part = run.total
            value = self.style.expression(part, True)
            rest.append(
                {
                    ir.ANY: f"{n} |= {value}",
                    ir.COUNT: f"{n} += {value}",
                    ir.HIGHEST: f"{n} = max({n}, {value})",
                }[how]
            )
        rest += [f"{slot(v)}[_t] = {v}" for v in plan.stores]
        return lines + [pad + line for line in rest or ["pass"]]

    def needed(self, masks: Sequence[str], plan: Plan) -> set[str]:
        """The masks and what their definitions need."""
        found = set(masks)
        for stmt in reversed(plan.recomputed):
            if isinstance(stmt, ast.Assign) and ir.names(stmt, store=True) & found:
                found |= ir.names(stmt.value)
        return found
