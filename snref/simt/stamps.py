"""Check mode: every access is checked against the stamps of its element.

Each element of each array carries two stamps: of its last write and of its last read.
A stamp packs when and by whom, the most significant bits first:

    block + 1 (19 bits)   epoch (22 bits)   site (10 bits)   thread (11 bits)

The epoch counts the barriers that the block has passed, the site is the place in the
kernel's text. Two accesses of an element, one of them a write, race if they come from
different threads of a block in one epoch, or from different blocks: a barrier orders
the threads of one block, and nothing orders blocks. Atomics do not race with atomics.

So one run in one order finds a race in any order: it does not have to happen.
"""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.extending import overload

from snref.simt import ir
from snref.simt.emit import Style, expand_slots
from snref.simt.ir import Kernel, KernelError
from snref.simt.run import Compiled, Three, _Module
from snref.simt.storage import Storage

SITE, EPOCH, BLOCK = 11, 21, 43  # the lowest bit of each field
MANY, ATOMIC = 2047, 2046  # instead of a thread: several of them; an atomic operation
OTHERS = 1 << 62  # of a read stamp: another block has read it, too
GIVEN, NEVER = 0, -1  # instead of a write stamp: by the host; not at all
BOUNDS, UNSET, RAW, WAW, WAR = 1, 2, 3, 4, 5
KIND, ME, OTHER, ARRAY, INDEX = 0, 1, 2, 3, 4  # places in a report


# ------------------------------------------------------------------ compiled accesses


def place(a: Any, i: Any) -> int:
    """The number of element `i` of array `a` in C order; -1 if there is none."""
    raise NotImplementedError("compiled code only")


@overload(place)
def _place(a, i):
    def at1(a, i):
        x = i[0]
        return x if 0 <= x < a.shape[0] else -1

    def at2(a, i):
        x, y = i
        if 0 <= x < a.shape[0] and 0 <= y < a.shape[1]:
            return x * a.shape[1] + y
        return -1

    def at3(a, i):
        x, y, z = i
        n, m, k = a.shape
        if 0 <= x < n and 0 <= y < m and 0 <= z < k:
            return (x * m + y) * k + z
        return -1

    def at4(a, i):
        x, y, z, w = i
        n, m, k, j = a.shape
        if 0 <= x < n and 0 <= y < m and 0 <= z < k and 0 <= w < j:
            return ((x * m + y) * k + z) * j + w
        return -1

    def at5(a, i):
        x, y, z, w, v = i
        n, m, k, j, h = a.shape
        if 0 <= x < n and 0 <= y < m and 0 <= z < k and 0 <= w < j and 0 <= v < h:
            return (((x * m + y) * k + z) * j + w) * h + v
        return -1

    return {1: at1, 2: at2, 3: at3, 4: at4, 5: at5}.get(len(i))


@njit
def note(report, kind, me, other, array, i):
    """Keep the first problem."""
    if report[KIND] == 0:
        report[KIND], report[ME], report[OTHER], report[ARRAY] = kind, me, other, array
        for d in range(len(i)):
            report[INDEX + d] = i[d]


@njit
def raced(was, me, first):
    """Do these two accesses race? `first` is the first stamp of this block."""
    if was < first:  # of another block, or of the host
        return was > 0
    apart = was ^ me
    return apart >> EPOCH == 0 and apart & MANY != 0


@njit
def read(a, tags, i, me, first, private, array, report):
    """a[i], checked. `private`: a block's own array, empty when the block begins."""
    at = place(a, i)
    if at < 0:
        note(report, BOUNDS, me, 0, array, i)
        return a.dtype.type(0)
    was = tags[at, 0]
    if was < first and (private or was == NEVER):
        note(report, UNSET, me, 0, array, i)
    elif raced(was, me, first) and not (private and was < first):
        note(report, RAW, me, was, array, i)
    before = tags[at, 1]
    now = me
    if before & ~OTHERS >= first:
        if raced(before & ~OTHERS, me, first):
            now |= MANY
        now |= before & OTHERS
    elif before > 0 and not private:
        now |= OTHERS
    tags[at, 1] = now
    return a[i]


@njit
def write(a, tags, i, value, me, first, private, array, report):
    """a[i] = value, checked."""
    at = place(a, i)
    if at < 0:
        note(report, BOUNDS, me, 0, array, i)
        return
    stamp(tags, at, i, me, first, private, array, report)
    a[i] = value


@njit
def stamp(tags, at, i, me, first, private, array, report):
    """Check and note a write of the element."""
    was = tags[at, 0]
    if raced(was, me, first) and not (private and was < first):
        if not (was & MANY == ATOMIC and me & MANY == ATOMIC):
            note(report, WAW, me, was, array, i)
    before = tags[at, 1]
    if before > 0:
        last = before & ~OTHERS
        if not private and (before & OTHERS or last < first):
            note(report, WAR, me, last, array, i)
        elif last >= first and raced(last, me, first):
            note(report, WAR, me, last, array, i)
    tags[at, 0] = me


@njit
def atomic(a, tags, i, me, first, private, array, report):
    """May the atomic operation on a[i] take place?"""
    at = place(a, i)
    if at < 0:
        note(report, BOUNDS, me, 0, array, i)
        return False
    was = tags[at, 0]
    if was < first and (private or was == NEVER):
        note(report, UNSET, me, 0, array, i)
    stamp(tags, at, i, me & ~MANY | ATOMIC, first, private, array, report)
    return True


# ------------------------------------------------------------------ the text


class Checked(Style):
    """Prints each access as a call of `read`, `write` or `atomic`."""

    rows = False
    exact = True  # even a load that all threads share is every thread's own
    imports = ("from snref.simt.stamps import atomic, read, write",)

    def __init__(self, kernel: Kernel, store: Storage):
        super().__init__(kernel, store)
        self.arrays = _arrays(kernel)
        self.parameters = [*(f"{a}_tags" for a in self.arrays), "_report"]
        self.sites: list[int] = []  # the line of each access

    def prologue(self) -> list[str]:
        return [f"_first = _now = (_b + 1) << {BLOCK}"]

    def barrier(self) -> list[str]:
        return [f"_now += {1 << EPOCH}", "if _report[0]: return 0"]

    def facts(self) -> dict[str, Any]:
        threads = self.kernel.threads
        arrays = [
            (n, -1, t.ndim) for n, t in self.kernel.types.items() if n in self.arrays
        ]
        for n, a in self.kernel.arrays.items():
            copies = threads if n in self.local else 1
            arrays.append((n, prod(a.shape) * copies, len(a.shape)))
        return {"accesses": tuple(self.sites), "arrays": tuple(arrays)}

    def statement(self, stmt: ast.stmt, inside: bool) -> list[str]:
        new = _Accesses(self, stmt.lineno).visit(copy.deepcopy(stmt))
        return ast.unparse(ast.fix_missing_locations(new)).splitlines()

    def expression(self, node: ast.expr, inside: bool) -> str:
        new = _Accesses(self, getattr(node, "lineno", 0)).visit(copy.deepcopy(node))
        return ast.unparse(ast.fix_missing_locations(new))

    def access(
        self, what: str, node: ast.Subscript, line: int, *value: ast.expr
    ) -> ast.Call:
        assert isinstance(node.value, ast.Name)
        a = node.value.id
        self.sites.append(line)
        if len(self.sites) > 1 << (EPOCH - SITE):
            raise self.kernel.error(line, "too many accesses for check mode: 1024")
        me = ir.expression(f"_now + {(len(self.sites) - 1) << SITE} + _t")
        i = node.slice
        places = list(i.elts) if isinstance(i, ast.Tuple) else [i]
        if a in self.local:
            places.append(ir.name("_t"))
        ndim = self.ndim(a)
        if len(places) != ndim or any(isinstance(p, ast.Slice) for p in places):
            raise self.kernel.error(
                line, f"{ast.unparse(node)} is not one element of {a}; index them all"
            )
        whole = ast.Tuple([ir.call("int", p) for p in places], ast.Load())
        private = ast.Constant(a in self.kernel.arrays)
        number = ast.Constant(list(self.arrays).index(a))
        tail = [me, ir.name("_first"), private, number, ir.name("_report")]
        return ir.call(what, ir.name(a), ir.name(f"{a}_tags"), whole, *value, *tail)

    def ndim(self, a: str) -> int:
        if a in self.kernel.arrays:
            return len(self.kernel.arrays[a].shape) + (a in self.local)
        return int(self.kernel.types[a].ndim)


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
        return self.style.access("read", node, self.line)

    def visit_Assign(self, stmt: ast.Assign) -> ast.AST:
        (left,) = stmt.targets
        if not isinstance(left, ast.Subscript) or not self.known(left):
            return self.generic_visit(stmt)
        value = self.visit(stmt.value)
        left.slice = self.visit(left.slice)
        return ast.Expr(self.style.access("write", left, self.line, value))

    def visit_AugAssign(self, stmt: ast.AugAssign) -> ast.AST:
        left = stmt.target
        if not isinstance(left, ast.Subscript) or not self.known(left):
            return self.generic_visit(stmt)
        left.slice = self.visit(left.slice)
        old = self.style.access("read", left, self.line)
        value = ast.BinOp(old, stmt.op, self.visit(stmt.value))
        return ast.Expr(self.style.access("write", left, self.line, value))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        expanded = expand_slots(self, node)
        if expanded is not None:
            return expanded
        if isinstance(node.func, ast.Name) and node.func.id.startswith("atomic_"):
            a, *rest = node.args
            whole = node.func.id == "atomic_compare_and_swap"
            i = ast.Constant(0) if whole else self.visit(rest.pop(0))
            element = ast.Subscript(a, i, ast.Load())
            allowed = self.style.access("atomic", element, self.line)
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
        if prod(grid) >= 1 << (62 - BLOCK):
            raise ValueError(f"check mode runs up to 524286 blocks, not {prod(grid)}")
        module = self.module(block, dynamic, arguments)
        names = list(inspect.signature(self.function).parameters)
        given = dict(zip(names, arguments, strict=False))
        given |= dict(zip(module.constant_names, module.constants, strict=True))
        tags = []
        for n, size, _ in module.facts["arrays"]:
            tags.append(np.zeros((given[n].size if size < 0 else size, 2), np.int64))
            tags[-1][:, 0] = NEVER if n in self.outputs else GIVEN
        report = np.zeros(16, np.int64)
        module.run(0, prod(grid), grid, arguments, (*tags, report))
        if report[KIND]:
            raise self.problem(module, report, grid, block)

    def problem(
        self, module: _Module, report: np.ndarray, grid: Three, block: Three
    ) -> KernelError:
        kind, me, other, array = (int(n) for n in report[:INDEX])
        n, _, ndim = module.facts["arrays"][array]
        line = module.facts["accesses"][_site(me)]
        place = ", ".join(str(int(i)) for i in report[INDEX : INDEX + ndim])
        element = f"{n}[{place}]"
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
            what += f" in line {line2 % ir.FILE} by {theirs} of block {block_of_other}"
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
            f"\n    {i % ir.FILE}: {_source(module.files, i)}" for i in both
        )
        file = Path(module.files[line // ir.FILE]).name
        return KernelError(f"{file}:{line % ir.FILE}: {self.__name__}: {what}{quoted}")


def _site(stamp: int) -> int:
    return stamp >> SITE & (1 << EPOCH - SITE) - 1


def _who(stamp: int, block: Three, grid: Three) -> tuple[str, str]:
    """The thread and the block of a stamp, in words."""
    thread, b = stamp & MANY, (stamp >> BLOCK & (1 << (62 - BLOCK)) - 1) - 1
    if thread == MANY:
        who = "several threads"
    elif thread == ATOMIC:
        who = "an atomic operation"
    else:
        who = f"thread {_index(thread, block)}"
    return who, _index(b, grid)


def _index(number: int, size: Three) -> str:
    """`5` in one dimension, `(1, 2)` in two."""
    x, y, z = size
    i = (number % x, number // x % y, number // (x * y))
    dims = 3 if z > 1 else 2 if y > 1 else 1
    return str(i[:dims]) if dims > 1 else str(i[0])


def _source(files: Sequence[str], line: int) -> str:
    return linecache.getline(files[line // ir.FILE], line % ir.FILE).strip()
