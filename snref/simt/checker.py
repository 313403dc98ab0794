"""Check mode: every access is checked against the shadow words of its element.

Each element of each array has two shadow words: of its last write and its last read.
A word packs when and by whom, the most significant bits first:

    block + 1 (18 bits)   epoch (22 bits)   site (10 bits)   thread (12 bits)

The epoch counts the barriers that the block has passed, the site is the place in the
kernel's text. Two accesses of an element, one of them a write, race if they come from
different threads of a block in one epoch, or from different blocks: a barrier orders
the threads of one block, and nothing orders blocks. Atomics do not race with atomics.
Besides its number (10 bits), the thread's field says whether the access is atomic, and
whether other threads accessed the element likewise since the barrier.

So one run in one order finds a race in any order: it does not have to happen.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numba
import numpy as np

from snref.simt import ir
from snref.simt.ir import Kernel, KernelError
from snref.simt.limits import Three
from snref.simt.run import Compiled, Module, in_c_order, memory
from snref.simt.shadow import (
    ATOMIC,
    BLOCK,
    BOUNDS,
    EPOCH,
    GIVEN,
    INDEX,
    KIND,
    MANY,
    NEVER,
    RAW,
    SITE,
    THREAD,
    UNSET,
    WAR,
    WAW,
)
from snref.simt.storage import Storage
from snref.simt.style import Style, expand_slots, no_whole_arrays, one_element

# ------------------------------------------------------------------ the text


class Checked(Style):
    """Prints each access as a look at its shadow words and one at its element."""

    rows = False
    independent = False
    exact = True  # even a load that all threads share is every thread's own
    imports = (
        "from snref.simt.shadow import inside1, inside2, inside3, inside4, inside5",
        "from snref.simt.shadow import changed, saw, wrote",
        "from snref.simt.runtime import borrowed",
        "from numba import int64 as _int64",
    )

    def __init__(self, kernel: Kernel, store: Storage):
        super().__init__(kernel, store)
        self.arrays = _arrays(kernel)
        self.parameters = [*(f"{a}_shadow" for a in self.arrays), "_report"]
        self.sites: list[int] = []  # the line of each access

    def once(self) -> list[str]:
        flat = [f"{a}_flat = borrowed({a}.reshape({a}.size))" for a in self.arrays]
        return flat + [f"{p} = borrowed({p})" for p in self.parameters]

    def prologue(self) -> list[str]:
        return [f"_begin = _now = (_b + 1) << {BLOCK}"]

    def barrier(self) -> list[str]:
        return [f"_now += {1 << EPOCH}", "if _report[0]: return 0"]

    def facts(self) -> dict[str, Any]:
        arrays: list[tuple[str, tuple[int, ...]]] = []
        for n in self.arrays:  # the shape of a parameter is known at the launch
            shape = self.kernel.arrays[n].shape if n in self.kernel.arrays else ()
            copies = (self.kernel.threads,) if n in self.local else ()
            arrays.append((n, shape + copies))
        return {
            "accesses": tuple(self.sites),
            "arrays": tuple(arrays),
            "local": tuple(sorted(self.local)),
        }

    def statement(self, stmt: ast.stmt, inside: bool) -> list[str]:
        no_whole_arrays(self.kernel, stmt)
        new = _Accesses(self, stmt.lineno).visit(copy.deepcopy(stmt))
        new = new if isinstance(new, list) else [new]
        return ir.text(map(ast.fix_missing_locations, new))

    def expression(self, node: ast.expr, inside: bool) -> str:
        new = _Accesses(self, getattr(node, "lineno", 0)).visit(copy.deepcopy(node))
        return ast.unparse(ast.fix_missing_locations(new))

    def look(self, how: str, node: ast.Subscript, line: int) -> ast.Call:
        """The check of an access: a call of `saw`, `wrote` or `changed`."""
        assert isinstance(node.value, ast.Name)
        a = node.value.id
        self.sites.append(line)
        if len(self.sites) > 1 << (EPOCH - SITE):
            raise self.kernel.error(line, "too many accesses for check mode: 1024")
        places = one_element(self.kernel, node, line)
        if a in self.local:
            places = [*places, ir.name("_t")]
        ndim = len(places)
        if ndim > 5:
            raise self.kernel.error(
                line,
                f"check mode takes up to 5 dimensions; {a} has {ndim}, a local "
                "array's thread counted",
            )
        sizes = [ir.expression(f"_int64({a}.shape[{d}])") for d in range(ndim)]
        places = [ir.call("_int64", p) for p in places]
        at = ir.call(f"inside{ndim}", *places, *sizes, ir.name("_report"))
        me = ir.expression(f"_now + {(len(self.sites) - 1) << SITE} + _t")
        number = 2 * list(self.arrays).index(a) + (a in self.kernel.arrays)
        array = ir.expression(f"_int64({number})")
        tail = (ir.name("_begin"), array, ir.name("_report"))
        return ir.call(how, ir.name(f"{a}_shadow"), at, me, *tail)

    def read(self, node: ast.Subscript, line: int) -> ast.expr:
        flat = ir.name(f"{ast.unparse(node.value)}_flat")
        return ast.Subscript(flat, ir.call("_u", self.look("saw", node, line)))

    def write(self, node: ast.Subscript, line: int, value: ast.expr) -> list[ast.stmt]:
        look = self.look("wrote", node, line)
        at, new = f"_at{len(self.sites)}", f"_new{len(self.sites)}"
        flat = ir.name(f"{ast.unparse(node.value)}_flat")
        element = ast.Subscript(flat, ir.call("_u", ir.name(at)), ast.Store())
        allowed = ir.expression(f"{at} >= 0")
        store = ast.Assign([element], ir.name(new))
        return [
            ir.at(s, line)
            for s in (
                ir.assign(new, value),
                ir.assign(at, look),
                ast.If(allowed, [store], []),
            )
        ]


class _Accesses(ast.NodeTransformer):
    def __init__(self, style: Checked, line: int):
        self.style, self.line = style, line

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt):
            self.line = node.lineno
        return super().visit(node)

    def known(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in self.style.arrays
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not self.known(node):
            return self.generic_visit(node)
        node.slice = self.visit(node.slice)
        return self.style.read(node, self.line)

    def visit_Assign(self, stmt: ast.Assign) -> Any:
        (left,) = stmt.targets
        if not isinstance(left, ast.Subscript) or not self.known(left):
            return self.generic_visit(stmt)
        value = self.visit(stmt.value)
        left.slice = self.visit(left.slice)
        return self.style.write(left, self.line, value)

    def visit_AugAssign(self, stmt: ast.AugAssign) -> Any:
        left = stmt.target
        if not isinstance(left, ast.Subscript) or not self.known(left):
            return self.generic_visit(stmt)
        left.slice = self.visit(left.slice)
        old = self.style.read(left, self.line)
        value = ast.BinOp(old, stmt.op, self.visit(stmt.value))
        return self.style.write(left, self.line, value)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        expanded = expand_slots(self, node)
        if expanded is not None:
            return expanded
        if isinstance(node.func, ast.Name) and node.func.id.startswith("atomic_"):
            a, *rest = node.args
            whole = node.func.id == "atomic_compare_and_swap"
            i = ast.Constant(0) if whole else self.visit(rest.pop(0))
            element = ast.Subscript(a, i, ast.Load())
            allowed = self.style.look("changed", element, self.line)
            given = [a, *([] if whole else [i]), *map(self.visit, rest)]
            zero = ir.expression(f"{ast.unparse(a)}.dtype.type(0)")
            return ast.IfExp(allowed, ast.Call(node.func, given, []), zero)
        return self.generic_visit(node)


def _arrays(kernel: Kernel) -> dict[str, str]:
    """Arrays a kernel may access, and the space of each."""
    given = {
        n: "global" for n, t in kernel.types.items() if isinstance(t, numba.types.Array)
    }
    return {**given, **{n: a.space for n, a in kernel.arrays.items()}}


# ------------------------------------------------------------------ the launch


class Check(Compiled):
    """A kernel with every access checked: `check(kernel)[grid, block](*arguments)`."""

    style = Checked

    def __init__(self, kernel: Any, outputs: Iterable[str] = ()):
        super().__init__(kernel, threads=1)
        self.outputs = set(outputs)
        unknown = self.outputs - set(inspect.signature(self.function).parameters)
        if unknown:
            raise ValueError(f"{self.__name__} has no parameter {sorted(unknown)[0]}")

    def launch(
        self, grid: Three, block: Three, dynamic: int, arguments: Sequence[Any]
    ) -> None:
        most = (1 << (62 - BLOCK)) - 1
        if prod(grid) > most:
            raise ValueError(f"check mode runs up to {most} blocks, not {prod(grid)}")
        module = self.module(block, dynamic, arguments)
        names = list(inspect.signature(self.function).parameters)
        given = dict(zip(names, arguments, strict=False))
        given |= dict(zip(module.constant_names, module.constants, strict=True))
        shadows: list[np.ndarray] = []
        held: dict[
            Any, np.ndarray
        ] = {}  # an array given twice has one set of shadow words
        for n, shape in module.facts["arrays"]:
            size = prod(shape) if shape else given[n].size
            cells = np.zeros((size, 2), np.int64)
            cells[:, 0] = NEVER if n in self.outputs else GIVEN
            if not shape:
                first = held.setdefault(memory(given[n]), cells)
                np.maximum(first, cells, out=first)  # GIVEN, if it is under one name
                cells = first
            shadows.append(cells)
        report = np.zeros(16, np.int64)
        with in_c_order(arguments) as mine:  # as the numbers of elements are
            module.run(0, prod(grid), grid, mine, (*shadows, report))
        if report[KIND]:
            raise self.problem(module, report, grid, block, given)

    def problem(
        self,
        module: Module,
        report: np.ndarray,
        grid: Three,
        block: Three,
        given: Mapping[str, Any],
    ) -> KernelError:
        kind, me, other, array = (int(n) for n in report[:INDEX])
        n, shape = module.facts["arrays"][array >> 1]
        line = module.facts["accesses"][_site(me)]
        shape = shape or given[n].shape
        index = report[INDEX : INDEX + len(shape)].tolist()
        if kind != BOUNDS:
            index = [int(i) for i in np.unravel_index(report[INDEX], shape)]
        if n in module.facts["local"]:
            index.pop()  # the thread's own copy
        element = f"{n}[{', '.join(map(str, index))}]"
        mine, block_of_me = _who(me, block, grid)
        says = {
            BOUNDS: "is out of bounds",
            UNSET: "is read before anything was written there",
            RAW: "is read here and written",
            WAW: "is written here and also",
            WAR: "is written here and read",
        }[kind]
        what = f"{element} {says}"
        if kind in (RAW, WAW, WAR):
            line2 = module.facts["accesses"][_site(other)]
            theirs, block_of_other = _who(other, block, grid)
            apart = block_of_me != block_of_other
            line_of_other = ir.line_of_file(module.sources, line2)[1]
            what += f" in line {line_of_other} by {theirs} of block {block_of_other}"
            what += (
                ", and nothing orders blocks; use an atomic or a second launch"
                if apart
                else ", with no barrier between"
            )
            what += f" (here: {mine} of block {block_of_me})"
            both = sorted({line, line2})
        else:
            what += f" ({mine} of block {block_of_me})"
            both = [line]
        quoted = "".join(
            f"\n    {ir.line_of_file(module.sources, i)[1]}: "
            f"{ir.source_line(module.sources, i).strip()}"
            for i in both
        )
        return ir.located(module.sources, line, self.__name__, what + quoted)


def _site(word: int) -> int:
    return word >> SITE & (1 << EPOCH - SITE) - 1


def _who(word: int, block: Three, grid: Three) -> tuple[str, str]:
    """The thread and the block of a word, in words."""
    b = (word >> BLOCK & (1 << (62 - BLOCK)) - 1) - 1
    who = f"thread {_index(word & THREAD, block)}"
    if word & MANY:
        who = "several threads"
    if word & ATOMIC:
        who = f"an atomic operation of {who}"
    return who, _index(b, grid)


def _index(number: int, size: Three) -> str:
    """`5` in one dimension, `(1, 2)` in two."""
    x, y, z = size
    i = (number % x, number // x % y, number // (x * y))
    dims = 3 if z > 1 else 2 if y > 1 else 1
    return str(i[:dims]) if dims > 1 else str(i[0])
