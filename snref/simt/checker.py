"""Check mode: every access is checked against the shadow words of its element.

Each element of each array has two shadow words: of its last write and its last read.
A word packs when and by whom, the most significant bits first:

    block + 1 (18 bits)   epoch (21 bits)   site (10 bits)   thread (13 bits)

The epoch counts the barriers that the block and its warps have passed, the site is the
place in the kernel's text. Two accesses of an element, one of them a write, race if
they come from different threads and nothing orders them. A barrier orders the threads
of a block; a barrier of a warp (`syncwarp`, a shuffle, a vote) those of the warp. A
fence and an atomic operation order blocks, as the last block to count itself relies on;
a fence and one that may take a lock order the threads of a block.
Atomics do not race with atomics, nor does a write of the value that is there already.
Besides its number (10 bits), the thread's field says whether the access is atomic, and
whether other threads accessed the element likewise since the barrier.

So one run in one order finds a race in any order: it does not have to happen.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numba
import numpy as np

from snref.simt import ir, parts
from snref.simt.assignment import with_flags
from snref.simt.ir import Kernel, KernelError
from snref.simt.limits import Three
from snref.simt.run import Compiled, Module, in_c_order, memory
from snref.simt.shadow import (
    ABSENT,
    ACQUIRED,
    ATOMIC,
    BLOCK,
    BOUNDS,
    COLUMNS,
    COUNT,
    EPOCH,
    EXITED,
    GIVEN,
    HOLDER,
    INDEX,
    LANES,
    MANY,
    MAY_EXIT,
    NEVER,
    RAW,
    ROWS,
    SITE,
    THREAD,
    UNASSIGNED,
    UNSET,
    WAR,
    WARP,
    WAW,
    site,
)
from snref.simt.storage import Storage
from snref.simt.style import Style, expand_slots

# ------------------------------------------------------------------ the text


class Checked(Style):
    """Prints each access as a look at its shadow words and one at its element."""

    rows = False
    independent = False
    exact = True  # even a load that all threads share is every thread's own
    prepared = staticmethod(with_flags)
    wrap = "from snref.simt.shadow import wrap as _wrap"
    imports = (
        "from snref.simt.shadow import inside1, inside2, inside3, inside4, inside5",
        "from snref.simt.shadow import arrived, changed, fence, lanes, note, present",
        "from snref.simt.shadow import same, saw, took, wrote",
        "from snref.simt.runtime import borrowed",
        "from numba import int64 as _int64",
        parts.IMPORT,
    )

    def __init__(self, kernel: Kernel, store: Storage):
        super().__init__(kernel, store)
        self.arrays = _arrays(kernel)
        self.parameters = [*(f"{a}_shadow" for a in self.arrays), "_here", "_fences"]
        self.parameters.append("_report")
        self.sites: list[int] = []  # the line of each access
        self.unassigned: list[str] = []  # variables that may be read too early
        self.sums: list[tuple[int, str]] = []  # atomic sums of floats: line and array
        # arrays that a loop of compare-and-swap works on: it may read them plainly
        calls = [n for s in kernel.body for n in ast.walk(s) if isinstance(n, ast.Call)]
        self.swapped = {
            ast.unparse(c.args[0]) for c in calls if ir.calls(c, _SWAPS) and c.args
        }
        loops = (
            n for s in kernel.body for n in ast.walk(s) if isinstance(n, ast.While)
        )
        self.tried = {ast.unparse(n) for loop in loops for n in ast.walk(loop)}

    def once(self) -> list[str]:
        flat = [f"{a}_flat = borrowed({a}.reshape({a}.size))" for a in self.arrays]
        return flat + [f"{p} = borrowed({p})" for p in self.parameters]

    def prologue(self) -> list[str]:
        return [
            f"if _report[0, {COUNT}]: return 0",
            f"_begin = _since = _now = (_b + 1) << {BLOCK}",
            f"_report[0, {ACQUIRED}] = _report[0, {HOLDER}] = 0",
        ]

    def barrier(self) -> list[str]:
        full = f"if _report[0, {COUNT}] == {ROWS - 1}: return 0"
        return [f"_now += {1 << EPOCH}", "_since = _now", full]

    def warp_barrier(self, stmt: ast.stmt) -> list[str]:
        assert isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
        lines = [f"_now += {1 << EPOCH}"]
        if stmt.value.args:
            me = self.word(stmt.lineno, "")
            mask = f"_int64({ast.unparse(stmt.value.args[0])})"
            lines.insert(0, f"lanes(_here, {mask}, {me}, _report)")
            # what absent threads bring is not defined: a loop may not end by it
            lines.append(f"if _report[0, {ABSENT}] > {_UNDEFINED}: return 0")
        return lines

    def word(self, line: int, thread: str = " + _t") -> str:
        """The word of an access at this line, a new site."""
        self.sites.append(line)
        if len(self.sites) > 1 << (EPOCH - SITE):
            raise self.kernel.error(line, "too many accesses for check mode: 1024")
        return f"_now + {(len(self.sites) - 1) << SITE}{thread}"

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
            "unassigned": tuple(self.unassigned),
            "sums": tuple(self.sums),
        }

    def statement(self, stmt: ast.stmt, inside: bool) -> list[str]:
        new = _Accesses(self, stmt.lineno).visit(copy.deepcopy(stmt))
        new = new if isinstance(new, list) else [new]
        return ir.text(map(ast.fix_missing_locations, new))

    def expression(self, node: ast.expr, inside: bool) -> str:
        parts.refuse(self.kernel, node, getattr(node, "lineno", self.kernel.line))
        new = _Accesses(self, getattr(node, "lineno", 0)).visit(copy.deepcopy(node))
        return ast.unparse(ast.fix_missing_locations(new))

    def place(self, node: ast.Subscript, line: int) -> ast.expr:
        """The number of the element that is accessed; -1 if there is none."""
        assert isinstance(node.value, ast.Name)
        a = node.value.id
        places = parts.element(self.kernel, node)
        assert places is not None  # parts are taken apart
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
        return ir.call(f"inside{ndim}", *places, *sizes, ir.name("_report"))

    def look(self, how: str, a: str, at: ast.expr, line: int) -> ast.Call:
        """The check of an access: a call of `saw`, `wrote`, `changed` or `took`."""
        me = self.word(line)
        if how == "saw" and a in self.swapped:
            me += f" + {ATOMIC}"
        number = 2 * list(self.arrays).index(a) + (a in self.kernel.arrays)
        rest = f"{me}, _begin, _since, _int64({number}), _fences, _report"
        checked = ir.expression(f"{how}({a}_shadow, 0, {rest})")
        assert isinstance(checked, ast.Call)
        checked.args[1] = at
        return checked

    def atomic(self, operation: str, a: str, line: int) -> None:
        """Note a sum whose result depends on the order of the threads."""
        known = self.kernel.types.get(a) or self.kernel.arrays[a]
        whole = isinstance(known.dtype, numba.types.Integer)
        if operation in ("atomic_add", "atomic_sub") and not whole:
            self.sums.append((line, a))

    def read(self, node: ast.Subscript, line: int) -> ast.expr:
        a = ast.unparse(node.value)
        look = self.look("saw", a, self.place(node, line), line)
        return ast.Subscript(ir.name(f"{a}_flat"), ir.call("_u", look))

    def write(
        self, left: ast.expr, node: ast.Subscript, line: int, value: ast.expr
    ) -> list[ast.stmt]:
        """Assign to the element, or to the part `left` of it."""
        a = ast.unparse(node.value)
        at, new = f"_at{len(self.sites)}", f"_new{len(self.sites)}"
        place = ir.assign(at, self.place(node, line))
        look = self.look("wrote", a, ir.name(at), line)
        same = ir.expression(f"same({a}_flat, {at}, {new})")
        look.args.append(same if left is node else ast.Constant(False))
        element = ast.Subscript(
            ir.name(f"{a}_flat"), ir.call("_u", ir.name(at)), ast.Store()
        )
        whole: ast.expr = element
        if left is not node:
            element.ctx = ast.Load()
            whole = _Replaced(node, element).visit(left)
        allowed = ast.If(
            ir.expression(f"{at} >= 0"), [ast.Assign([whole], ir.name(new))], []
        )
        stmts = [ir.assign(new, value), place, ir.assign(at, look), allowed]
        return [ir.at(s, line) for s in stmts]

    def part(
        self, part: parts.Part, line: int, look: Callable[[ast.expr], list[ast.stmt]]
    ) -> list[ast.stmt]:
        """A look at each element of the part, given its number."""

        def each(places: list[ast.expr]) -> list[ast.stmt]:
            inside = ast.Tuple(places, ast.Load())
            node = ast.Subscript(ir.name(part.array), inside, ast.Load())
            at = self.fresh("at")
            return [ir.assign(at, self.place(node, line)), *look(ir.name(at))]

        return part.each(each)

    def in_parts(
        self, taken: parts.Apart, stmts: list[ast.stmt], line: int
    ) -> list[ast.stmt]:
        """The statement, if all its elements are there, and a look at each of them."""
        ok, old, n = map(self.fresh, ("ok", "old", "n"))

        def there(at: ast.expr) -> list[ast.stmt]:
            return ast.parse(f"{ok} = {ok} and {ast.unparse(at)} >= 0").body

        def saw(at: ast.expr) -> list[ast.stmt]:
            return [*there(at), ast.Expr(self.look("saw", a, at, line))]

        def wrote(same: str, at: ast.expr) -> list[ast.stmt]:
            look = self.look("wrote", a, at, line)
            look.args.append(ir.expression(same.format(ast.unparse(at))))
            return [ast.Expr(look), *ast.parse(f"{n} += 1").body]

        out: list[ast.stmt] = [ir.assign(ok, ast.Constant(True))]
        for part in taken.loaded:
            a = part.array
            out += self.part(part, line, saw)
        if taken.stored is None:
            return [*out, ast.If(ir.name(ok), stmts, [])]
        a = taken.stored.array
        out += [*self.part(taken.stored, line, there), ir.assign(n, ast.Constant(0))]
        before = ir.expression(f"{taken.stored.name}.copy().ravel()")
        same = partial(wrote, f"same({a}_flat, {{}}, {old}[{n}])")
        done = [ir.assign(old, before), *stmts, *self.part(taken.stored, line, same)]
        refused = self.part(taken.stored, line, partial(wrote, "False"))
        return [*out, ast.If(ir.name(ok), done, refused)]


_UNDEFINED = 1000  # operations with absent threads until check mode ends the launch
_SWAPS = {"atomic_cas", "atomic_compare_and_swap"}
_LOCKS = _SWAPS | {"atomic_exch"}  # which may take a lock


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


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

    def compound(self, node: Any) -> Any:
        parts.refuse(self.style.kernel, ir.test(node), node.lineno)
        return self.generic_visit(node)

    visit_If = visit_While = visit_For = compound

    def root(self, node: ast.expr) -> ast.Subscript | None:
        """The element of a known array that this is, or is a field of."""
        if isinstance(node, ast.Subscript) and self.known(node):
            return node
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            return self.root(node.value)
        return None

    def visit_Expr(self, stmt: ast.Expr) -> Any:
        match stmt.value:
            case ast.Call(ast.Name(ir.FENCE)):
                new = "fence(_fences, _now, _t)"
            case ast.Call(ast.Name(ir.LANE)):
                new = "arrived(_here, _t)"
            case ast.Call(ast.Name(ir.PRESENT)):
                new = f"present(_here, {self.style.word(self.line, '')}, _report)"
            case ast.Call(ast.Name(ir.UNASSIGNED), [ast.Constant(str(v))]):
                self.style.unassigned.append(v)
                me, number = self.style.word(self.line), len(self.style.unassigned) - 1
                kinds = f"_int64({UNASSIGNED}), {me}, {me}, _int64({number}), _int64(0)"
                new = f"note(_report, {kinds})"
            case _:
                return self.parts(stmt) or self.generic_visit(stmt)
        return ir.at(ast.Expr(ir.expression(new)), self.line)

    def parts(self, stmt: Any) -> list[ast.stmt]:
        """The statement with a look at its parts of arrays; empty if it has none."""
        style = self.style
        taken = parts.apart(style.kernel, stmt, style.fresh, style.local)
        if taken is None:
            return []
        named = {p.name for p in (*taken.loaded, taken.stored) if p is not None}
        before = [
            s if ir.names(s, store=True) <= named else self.visit(s)
            for s in taken.before
        ]
        visited = self.visit(ir.at(taken.stmt, stmt.lineno))
        all_ = visited if isinstance(visited, list) else [visited]
        new = [*before, *style.in_parts(taken, all_, stmt.lineno)]
        return [ir.at(s, stmt.lineno) for s in new]

    def visit_Assign(self, stmt: ast.Assign) -> Any:
        if of_parts := self.parts(stmt):
            return of_parts
        (left,) = stmt.targets
        root = self.root(left)
        if root is None:
            return self.generic_visit(stmt)
        value = self.visit(stmt.value)
        root.slice = self.visit(root.slice)
        return self.style.write(left, root, self.line, value)

    def visit_AugAssign(self, stmt: ast.AugAssign) -> Any:
        if of_parts := self.parts(stmt):
            return of_parts
        left = stmt.target
        root = self.root(left)
        if root is None:
            return self.generic_visit(stmt)
        root.slice = self.visit(root.slice)
        old = self.style.read(root, self.line)
        old = old if left is root else _Replaced(root, old).visit(copy.copy(left))
        value = ast.BinOp(old, stmt.op, self.visit(stmt.value))
        return self.style.write(left, root, self.line, value)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        expanded = expand_slots(self, node)
        if expanded is not None:
            return expanded
        if isinstance(node.func, ast.Name) and node.func.id.startswith("atomic_"):
            tried = ast.unparse(node) in self.style.tried  # again and again
            operation = node.func.id
            whole = operation == ir.WHOLE_SWAP
            node = node if whole else parts.of_array(node)
            a, *rest = node.args
            i = ast.Constant(0) if whole else self.visit(rest.pop(0))
            element = ast.Subscript(a, i, ast.Load())
            self.style.atomic(operation, ast.unparse(a), self.line)
            at = self.style.place(element, self.line)
            lock = operation in _LOCKS and tried
            how = "took" if lock else "changed"
            allowed = self.style.look(how, ast.unparse(a), at, self.line)
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

_KINDS = {
    BOUNDS: ("out-of-bounds", "is out of bounds"),
    UNSET: ("uninitialised", "is read before anything was written there"),
    RAW: ("race", "is read here and written"),
    WAW: ("race", "is written here and also"),
    WAR: ("race", "is written here and read"),
    UNASSIGNED: ("unassigned", "has no value here: no statement gave this thread one"),
    LANES: (
        "absent-lanes",
        "the mask of this operation names threads of the warp that do not take part; "
        "name those that do, or move it out of the branch",
    ),
    EXITED: (
        "exited-before-barrier",
        "a thread of the block has returned before this barrier. GPUs since Volta do "
        "not wait for it, older ones may wait for ever. Let it come to the barrier, or "
        'allow it: simt.check(kernel, allow=("exited-before-barrier",))',
    ),
}
_TOLD = 10  # mistakes whose messages are printed
_ATOMIC = "; threads that change one element use cuda.atomic."
ALLOWABLE = (_KINDS[EXITED][0],)  # findings that a user may allow
# Kinds that no row of the report tells of.
MORE_KINDS = (
    *("never-written", "unordered-sum"),
    *("divergent-barrier", "endless-wait", "raised", "refused"),
)


@dataclass(frozen=True)
class Finding:
    """A mistake that check mode found.

    `kind` is out-of-bounds, uninitialised, race, unassigned (a variable), absent-lanes
    (a warp operation), exited-before-barrier (of which `thread` is one that has
    returned), never-written (an array of `outputs`), unordered-sum (with `exact`), or
    what ended the launch: divergent-barrier, endless-wait, raised, or refused, which is
    a kernel that cannot be compiled. Of a race, `other_line`, `other_thread` and
    `other_block` tell of the earlier access. Threads and blocks are numbers, or tuples
    where they have several dimensions.
    """

    kind: str
    line: int
    thread: int | tuple[int, ...] | None
    block: int | tuple[int, ...] | None
    name: str  # of the array or variable
    element: tuple[int, ...]
    message: str
    other_line: int | None = None
    other_thread: int | tuple[int, ...] | None = None
    other_block: int | tuple[int, ...] | None = None


class Check(Compiled):
    """A kernel with every access checked: `check(kernel)[grid, block](*arguments)`."""

    style = Checked

    def __init__(
        self,
        kernel: Any,
        outputs: Iterable[str] = (),
        scratch: Iterable[str] = (),
        allow: Iterable[str] = (),
        exact: bool = False,
    ):
        super().__init__(kernel, threads=1)
        self.exact = exact
        self.allowed = set(allow)
        for rule in self.allowed - set(ALLOWABLE):
            raise ValueError(f"allow takes {', '.join(ALLOWABLE)}, not {rule!r}")
        self.outputs = set(outputs)
        self.blank = self.outputs | set(scratch)
        unknown = self.blank - set(inspect.signature(self.function).parameters)
        if unknown:
            raise ValueError(f"{self.__name__} has no parameter {sorted(unknown)[0]}")

    def launch(
        self, grid: Three, block: Three, dynamic: int, arguments: Sequence[Any]
    ) -> None:
        try:
            self.checked(grid, block, dynamic, arguments)
        except KernelError as error:
            if not error.findings:
                error.findings = (_ended(error, grid),)
            raise

    def checked(
        self, grid: Three, block: Three, dynamic: int, arguments: Sequence[Any]
    ) -> None:
        most = (1 << (62 - BLOCK)) - 1
        if prod(grid) > most:
            raise ValueError(f"check mode runs up to {most} blocks, not {prod(grid)}")
        module = self.module(block, dynamic, arguments)
        names = list(inspect.signature(self.function).parameters)
        given = dict(zip(names, arguments, strict=False))
        given |= dict(zip(module.constant_names, module.constants, strict=True))
        arrays = {n: given[n] for n, shape in module.facts["arrays"] if not shape}
        shadow = self.shadow(arrays)
        for n, shape in module.facts["arrays"]:
            if shape:
                shadow[n] = np.zeros((prod(shape), 2), np.int64)
        report = np.zeros((ROWS, COLUMNS), np.int64)
        report[0, MAY_EXIT] = _KINDS[EXITED][0] in self.allowed
        here = np.zeros(prod(block), np.bool_)
        fences = np.zeros(prod(grid) + prod(block), np.int64)
        words = [shadow[n] for n, _ in module.facts["arrays"]]
        ended = None
        with in_c_order(arguments) as mine:  # as the numbers of elements are
            try:
                module.run(0, prod(grid), grid, mine, (*words, here, fences, report))
            except KernelError as stop:
                ended = stop
        found = [
            self.finding(module, row, grid, block, given)
            for row in report[1 : report[0, COUNT] + 1]
        ]
        if self.exact:
            found += self.unordered(module)
        if ended is not None:
            found.append(_ended(ended, grid))
        elif not found:
            found = list(self.never_written(module, shadow, given))
        if found:
            error = KernelError(_summary(found))
            error.findings = tuple(found)
            raise error

    def shadow(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The shadow words of the arguments. What shares memory shares its words."""
        made: dict[str, np.ndarray] = {}
        for names in _sharing(arrays):
            first = min(arrays[n].ctypes.data for n in names)
            starts = {
                n: (arrays[n].ctypes.data - first) // arrays[n].itemsize for n in names
            }
            size = max(start + arrays[n].size for n, start in starts.items())
            words = np.full((size, 2), (NEVER, 0), np.int64)
            for n, start in starts.items():
                made[n] = words[start : start + arrays[n].size]
                if n not in self.blank:  # GIVEN, if it is under one name
                    made[n][:, 0] = GIVEN
        return made

    def never_written(
        self, module: Module, shadow: Mapping[str, np.ndarray], given: Mapping[str, Any]
    ) -> Iterable[Finding]:
        """Elements of the outputs that no thread wrote."""
        for n in sorted(self.outputs):
            missing = np.flatnonzero(shadow[n][:, 0] == NEVER)
            if missing.size:
                where = tuple(map(int, np.unravel_index(missing[0], given[n].shape)))
                what = f"{_element(n, where)} is never written"
                if missing.size > 1:
                    what += f", nor are {missing.size - 1} more of its elements"
                kernel = module.read()
                error = kernel.error(kernel.line, what)
                line = error.line or 0
                yield Finding("never-written", line, None, None, n, where, str(error))

    def unordered(self, module: Module) -> Iterable[Finding]:
        """Atomic sums of numbers that are not whole."""
        for line, a in module.facts["sums"]:
            what = (
                f"an atomic sum in {a}, which has no whole numbers: its result depends "
                "on the order of the threads"
            )
            text = str(ir.located(module.sources, line, self.__name__, what))
            _, number = ir.line_of_file(module.sources, line)
            yield Finding("unordered-sum", number, None, None, a, (), text)

    def finding(
        self,
        module: Module,
        row: np.ndarray,
        grid: Three,
        block: Three,
        given: Mapping[str, Any],
    ) -> Finding:
        """A row of the report as data and in words."""
        kind, me, other, array = (int(n) for n in row[:INDEX])
        says, what = _KINDS[kind]
        n, index = "", tuple[int, ...]()
        if kind == UNASSIGNED:
            n = ir.own_name(module.facts["unassigned"][array])
            what = f"{n} {what}"
        elif kind not in (LANES, EXITED):
            n, shape = module.facts["arrays"][array >> 1]
            shape = shape or given[n].shape
            place = row[INDEX : INDEX + len(shape)].tolist()
            if kind != BOUNDS:
                place = [int(i) for i in np.unravel_index(row[INDEX], shape)]
            index = tuple(place)
            if n in module.facts["local"]:
                index = index[:-1]  # the thread's own copy
            what = f"{_element(n, index)} {what}"
        line = module.facts["accesses"][site.py_func(me)]
        mine, block_of_me = _who(me, block, grid)
        both, others = [line], {}
        if kind in (RAW, WAW, WAR):
            line2 = module.facts["accesses"][site.py_func(other)]
            both = sorted({line, line2})
            theirs, block_of_other = _who(other, block, grid)
            _, line_of_other = ir.line_of_file(module.sources, line2)
            what += f" in line {line_of_other} by {theirs} of block {block_of_other}"
            what += (
                ", and nothing orders blocks; use an atomic or a second launch"
                if block_of_me != block_of_other
                else ", with no barrier between"
            )
            what += f" (here: {mine} of block {block_of_me})"
            if kind == WAW and line == line2:
                what += _instead(ir.source_line(module.sources, line).strip(), n)
            others = {
                "other_line": line_of_other,
                "other_thread": _index(other & THREAD, block),
                "other_block": block_of_other,
            }
        else:
            what += f" ({mine} of block {block_of_me})"
        quoted = "".join(
            f"\n    {ir.line_of_file(module.sources, i)[1]}: "
            f"{ir.source_line(module.sources, i).strip()}"
            for i in both
        )
        text = str(ir.located(module.sources, line, self.__name__, what + quoted))
        _, number = ir.line_of_file(module.sources, line)
        thread = _index(me & THREAD, block)
        return Finding(says, number, thread, block_of_me, n, index, text, **others)


def _summary(found: Iterable[Finding]) -> str:
    """The messages, one for all findings that are about the same lines."""
    told: dict[Any, str] = {}
    for f in found:
        both = frozenset((f.line, f.other_line or f.line))
        known = told.setdefault((f.kind, both, f.name), f.message)
        if _ATOMIC in f.message and _ATOMIC not in known:
            told[f.kind, both, f.name] = f.message
    messages = list(told.values())
    rest = len(messages) - _TOLD
    return "\n".join(messages[:_TOLD] + [f"(and {rest} more)"] * (rest > 0))


def _instead(line: str, name: str) -> str:
    """What to write for a sum that several threads add to, if the line is one."""
    by = {"+": "add", "-": "sub", "&": "and_", "|": "or_", "^": "xor"}
    found = re.match(rf"{re.escape(name)}\[(.*)\]\s*([-+&|^])=(?!=)\s*(.*)", line)
    if found is None:
        return ""
    i, operator, value = found.groups()
    i = f"({i})" if "," in i else i
    value = value.split("#")[0].strip()
    return f"{_ATOMIC}{by[operator]}({name}, {i}, {value})"


def _ended(error: KernelError, grid: Three) -> Finding:
    """What ended the launch, or kept it from beginning, as data."""
    block = None if error.block is None else _index(error.block, grid)
    return Finding(error.kind, error.line or 0, None, block, "", (), str(error))


def _sharing(arrays: Mapping[str, np.ndarray]) -> Iterable[list[str]]:
    """The names of the arrays, those together that lie in the same memory."""
    groups: list[list[str]] = []
    for n in sorted(arrays, key=lambda n: arrays[n].ctypes.data):
        joined = [n]
        for group in list(groups):
            if any(_shares(arrays, m, n) for m in group):
                groups.remove(group)
                joined = group + joined
        groups.append(joined)
    return groups


def _shares(arrays: Mapping[str, np.ndarray], m: str, n: str) -> bool:
    """Do these two share memory, element by element?"""
    a, b = arrays[m], arrays[n]
    if memory(a) == memory(b):
        return True
    if not np.shares_memory(a, b):
        return False
    aligned = (a.ctypes.data - b.ctypes.data) % a.itemsize == 0
    if aligned and a.dtype == b.dtype and a.flags.c_contiguous and b.flags.c_contiguous:
        return True
    raise ValueError(
        f"{m} and {n} overlap in part, with gaps or with elements of other types: "
        "check mode cannot follow that; give it a copy of one"
    )


def _element(array: str, index: Sequence[int]) -> str:
    return f"{array}[{', '.join(map(str, index))}]"


def _who(word: int, block: Three, grid: Three) -> tuple[str, Any]:
    """The thread of a word in words, and its block."""
    b = (word >> BLOCK & (1 << (62 - BLOCK)) - 1) - 1
    who = f"thread {_index(word & THREAD, block)}"
    if word & (MANY | WARP):
        who = "several threads"
    if word & ATOMIC:
        who = f"an atomic operation of {who}"
    return who, _index(b, grid)


def _index(number: int, size: Three) -> int | tuple[int, ...]:
    """`5` in one dimension, `(1, 2)` in two."""
    x, y, z = size
    i = (number % x, number // x % y, number // (x * y))
    dims = 3 if z > 1 else 2 if y > 1 else 1
    return i[:dims] if dims > 1 else i[0]
