"""What the stages hand to each other: a kernel, its arrays, and the tree of a block.

Statements and expressions are Python's own `ast`, so every stage prints as Python
(`str(kernel)`, `listing(tree)`). Besides ordinary names they hold a few that only the
compiler writes:

    threadIdx_x, blockIdx_x, gridDim_x   one component of a CUDA index
    BARRIER()                            syncthreads (printed as _barrier(), and so on)
    CUT(mask)                            syncwarp; here all threads of the block wait
    FENCE()                              threadfence, for check mode
    STAYS(e)                             the test around the rest of a kernel: threads
                                         for which it is false have returned
    GUARD(e)                             the same, where no `return` ends the kernel
    UNASSIGNED(v)                        check mode: a variable is read without a value
    LANE()                               check mode: this thread takes part
    PRESENT()                            check mode: do all threads take part?
    ANY(m), COUNT(m), HIGHEST(e)         one value for the block, out of each thread's
    SLOT(v, i)                           the value of variable v in thread i
    CLEAR(v)                             v = 0 in every thread, taking part or not
    VOTE(how, v, here, mask, t)          what the warp of thread t says to v
    REFUSE(site)                         stop the launch: the threads disagree
    WRAP(i, n)                           an index of n elements; from the end if i < 0
    CLIP(i, n)                           an end of a slice: such an index within 0 to n
"""

from __future__ import annotations

import ast
import copy
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numba
from numba.np import numpy_support

BARRIER, CUT, FENCE = "_barrier", "_cut", "_fence"
STAYS, GUARD = "_stays", "_guard"
UNASSIGNED, LANE, PRESENT = "_unassigned", "_lane", "_present"
ANY, COUNT, HIGHEST = "_any", "_count", "_highest"
SLOT, CLEAR, VOTE, REFUSE = "_slot", "_clear", "_vote", "_refuse"
WRAP, CLIP = "_wrap", "_clip"
WHOLE_SWAP = "atomic_compare_and_swap"  # takes an array, and no index of an element
PRINTS = {"print", "say"}  # functions whose calls are seen
TOTALS = {ANY, COUNT, HIGHEST}

AXES = "xyz"
THREAD = tuple(f"threadIdx_{a}" for a in AXES)
BLOCK = tuple(f"blockIdx_{a}" for a in AXES)
GRID = tuple(f"gridDim_{a}" for a in AXES)

# Names of the generated text that a kernel cannot have for itself.
RESERVED = {"_t", "_b", "_u", "_lanes", "_arena", "_first", "_last", "_dynamic"}
RESERVED |= {"_now", "_begin", "_report", "_int64", "_where", "_seen", "_counts"}
RESERVED |= {"numba", "njit", "in_buffer", "on_stack", "launch", "Lanes"}
RESERVED |= {*THREAD, *BLOCK, *GRID}

# The number of line i of the n-th function is n * FUNCTION + i. Lines are counted from
# the function's first one, so what is made of it does not depend on where it stands.
FUNCTION = 1_000_000

Loop: TypeAlias = ast.For | ast.While
LOOPS = (ast.For, ast.While)
Compound: TypeAlias = ast.If | ast.For | ast.While
COMPOUNDS = (ast.If, ast.For, ast.While)


class KernelError(Exception):
    """A kernel breaks a rule, or check mode found a mistake.

    The message reads `file.py:LINE: kernel: what, why, what would be right`. Of check
    mode, `findings` holds the mistakes as data (see `checker.Finding`). `kind` is of
    those that end a launch, or else `refused`.
    """

    findings: tuple[Any, ...] = ()
    kind = "refused"
    file = ""  # its path
    line: int | None = None
    block: int | None = None  # its number in the grid, where one ended the launch
    thread: int | None = None  # its number in the block, where it is known
    raises: tuple[type[Exception], tuple[Any, ...]] | None = None  # by the kernel


@dataclass(frozen=True)
class Source:
    """Where a function stands: the path of its file, and its first line there."""

    file: str
    first: int


@dataclass(frozen=True)
class Array:
    """A shared or local array: its shape (of one thread's copy) and Numba type."""

    space: Literal["shared", "local", "dynamic"]
    shape: tuple[int, ...]
    dtype: Any
    line: int

    def bytes(self, threads: int) -> int:
        """Size in the frame of a block; `dynamic` arrays share one buffer."""
        copies = {"shared": 1, "local": threads, "dynamic": 0}[self.space]
        return prod(self.shape) * itemsize(self.dtype) * copies


@dataclass(frozen=True)
class Kernel:
    """One kernel for one block shape and one tuple of argument types."""

    name: str
    sources: tuple[Source, ...]  # of the kernel and the functions it calls
    line: int
    block: tuple[int, int, int]
    types: Mapping[str, Any]  # parameters and their Numba types, in order
    body: tuple[ast.stmt, ...]
    arrays: Mapping[str, Array] = field(default_factory=dict)
    imports: Mapping[str, str] = field(default_factory=dict)  # name -> statement
    constants: Mapping[str, Any] = field(default_factory=dict)  # read-only arrays
    dynamic: int = 0  # bytes of dynamic shared memory
    sites: tuple[KernelError, ...] = ()  # what ends the launch: numbers of REFUSE
    assumed: tuple[str, ...] = ()  # parameters that are taken not to be negative
    waits: bool = False  # has it a loop that only another thread can end?

    @property
    def threads(self) -> int:
        return prod(self.block)

    @cached_property
    def ndim(self) -> dict[str, int]:
        """How many indices each array has, the kernel's own and the parameters."""
        given = {
            n: t.ndim for n, t in self.types.items() if isinstance(t, numba.types.Array)
        }
        return given | {n: len(a.shape) for n, a in self.arrays.items()}

    def error(self, line: int, text: str, kind: str = "refused") -> KernelError:
        return located(self.sources, line, self.name, text, kind)

    def with_body(self, body: Iterable[ast.stmt], **changes: Any) -> Kernel:
        return replace(self, body=tuple(body), **changes)

    def __str__(self) -> str:
        head = f"{self.name}({', '.join(self.types)})  block {self.block}"
        arrays = [
            f"    {a.space} {name}: {a.dtype}{list(a.shape)}"
            for name, a in self.arrays.items()
        ]
        return "\n".join([head, *arrays, *text(self.body, 1)]) + "\n"


def located(
    sources: Sequence[Source],
    line: int,
    kernel: str,
    text: str,
    kind: str = "refused",
) -> KernelError:
    """The error to raise for a problem at this line."""
    file, number = line_of_file(sources, line)
    error = KernelError(f"{Path(file).name}:{number}: {kernel}: {text}")
    error.kind, error.file, error.line = kind, file, number
    return error


def ending(site: int, thread: ast.expr | None = None) -> ast.expr:
    """What the machine code returns if a site, the n-th of `sites`, ends the launch.

    >>> came_to(eval(ast.unparse(ending(3, ast.Constant(31))), {"_b": 5}))
    (3, 31, 5)
    """
    who = f" + ({ast.unparse(thread)} + 1 << 16)" if thread is not None else ""
    return expression(f"{site + 1}{who} + (_b << 28)")


def came_to(status: int) -> tuple[int, int | None, int]:
    """The site, the thread if it is known, and the block that `ending` speaks of."""
    thread = status >> 16 & 0xFFF
    return (status & 0xFFFF) - 1, thread - 1 if thread else None, status >> 28


@contextmanager
def told_of(sources: Sequence[Source], line: int, kernel: str) -> Iterator[None]:
    """Turn a failure of the compiler into a KernelError that names this line."""
    try:
        yield
    except KernelError:
        raise
    except Exception as e:
        problem = f"the compiler fails here ({type(e).__name__}): write it otherwise"
        problem += ", in simpler statements"
        raise located(sources, line, kernel, problem, "failed") from e


def line_of_file(sources: Sequence[Source], line: int) -> tuple[str, int]:
    """The file and the line in it of a line number as the statements carry it."""
    source = sources[line // FUNCTION]
    return source.file, source.first + line % FUNCTION - 1


def source_line(sources: Sequence[Source], line: int) -> str:
    """The text of the line."""
    return linecache.getline(*line_of_file(sources, line)).rstrip()


def itemsize(dtype: Any) -> int:
    """Bytes of one element of a Numba type."""
    return int(numpy_support.as_dtype(dtype).itemsize)


# ------------------------------------------------------------------ the tree of a block


@dataclass(frozen=True)
class Run:
    """Statements between two cuts: every thread goes through them in a loop.

    `masks` names the conditions under which a thread takes part. `total` is a value
    of the whole block that the run computes: (name, ANY or HIGHEST, a thread's part).
    """

    body: tuple[ast.stmt, ...]
    masks: tuple[str, ...] = ()
    total: tuple[str, str, ast.expr] | None = None


@dataclass(frozen=True)
class Scalar:
    """A statement that is the same for all threads: done once."""

    stmt: ast.stmt


@dataclass(frozen=True)
class Control:
    """An `if`, `for` or `while` that all threads take alike: outside their loops."""

    stmt: Compound
    body: tuple[Tree, ...]
    orelse: tuple[Tree, ...] = ()


Tree: TypeAlias = Run | Scalar | Control


def runs(tree: Sequence[Tree]) -> Iterator[Run]:
    """Every run, in the order of the text."""
    for node in tree:
        match node:
            case Run():
                yield node
            case Control(_, body, orelse):
                yield from runs((*body, *orelse))


def listing(tree: Sequence[Tree], depth: int = 0) -> list[str]:
    """The tree as lines, each marked `run`, `once` or left as control."""
    lines: list[str] = []
    pad = "    " * depth
    for node in tree:
        match node:
            case Run(body, masks, total):
                lines.append(
                    f"{pad}run{' if ' + ' and '.join(masks) if masks else ''}:"
                )
                lines += text(body, depth + 1)
                if total:
                    name, how, part = total
                    lines.append(f"{pad}    {name} = {how}({ast.unparse(part)})")
            case Scalar(stmt):
                lines += [f"{pad}once: {line}" for line in text([stmt])]
            case Control(stmt, body, orelse):
                lines += [f"{pad}{head(stmt)}", *listing(body, depth + 1)]
                if orelse:
                    lines += [f"{pad}else:", *listing(orelse, depth + 1)]
    return lines


# ------------------------------------------------------------------ small tools on ast


def fresh(stem: str, taken: set[str]) -> str:
    """A name that is not taken yet; it is from now on.

    >>> taken = {"_k1"}
    >>> fresh("k", taken), fresh("k", taken)
    ('_k2', '_k3')
    """
    stem = "_" + stem.lstrip("_")
    number = 1
    while f"{stem}{number}" in taken:
        number += 1
    taken.add(f"{stem}{number}")
    return f"{stem}{number}"


def name(id: str, store: bool = False) -> ast.Name:
    return ast.Name(id, ast.Store() if store else ast.Load())


def constant(value: Any) -> ast.expr:
    """The number as an expression that prints as Python.

    >>> [ast.unparse(constant(float(number))) for number in ("nan", "inf")]
    ['1e309 - 1e309', '1e309']
    """
    if isinstance(value, float) and value != value:
        return expression("1e309 - 1e309")
    return ast.Constant(value)


def expression(source: str) -> ast.expr:
    """The expression, without the places of its parts."""
    node = ast.parse(source, mode="eval").body
    for part in ast.walk(node):
        for place in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            part.__dict__.pop(place, None)
    return node


def thread_number(block: tuple[int, int, int]) -> str:
    """The number of a thread in its block, as text.

    >>> thread_number((16, 4, 1))
    'threadIdx_y * 16 + threadIdx_x'
    """
    bx, by, bz = block
    terms = [f"threadIdx_z * {bx * by}"] if bz > 1 else []
    terms += [f"threadIdx_y * {bx}"] if by > 1 else []
    terms += ["threadIdx_x"] if bx > 1 else []
    return " + ".join(terms) or "0"


def call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(name(function), list(args), [])


def at(node: Any, line: int) -> Any:
    """The node, with this line wherever a part of it has none."""
    for part in ast.walk(node):
        if isinstance(part, (ast.stmt, ast.expr)) and not hasattr(part, "lineno"):
            part.lineno = part.end_lineno = line
            part.col_offset = part.end_col_offset = 0
    return node


def assign(target: str, value: ast.expr, line: int | None = None) -> ast.Assign:
    new = ast.Assign([name(target, True)], value)
    return new if line is None else at(new, line)


def calls(node: ast.AST, functions: Iterable[str]) -> bool:
    """Is one of these functions called anywhere inside?"""
    wanted = set(functions)
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in wanted
        for n in ast.walk(node)
    )


def called(stmt: ast.stmt) -> str | None:
    """The name of the function that the statement, or its right side, calls."""
    value = stmt.value if isinstance(stmt, (ast.Expr, ast.Assign)) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id
    return None


def names(node: ast.AST, store: bool | None = None) -> set[str]:
    """Names inside; only those assigned (store=True) or only those read (False)."""
    return {
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name)
        and (store is None or isinstance(n.ctx, ast.Store) == store)
    }


def own_name(variable: str) -> str:
    """The variable as the source has it: `webs` numbers those of one name.

    >>> own_name("i_2"), own_name("threadIdx_x")
    ('i', 'cuda.threadIdx.x')
    """
    if variable in THREAD:
        return f"cuda.{variable.replace('_', '.')}"
    return re.sub(r"_\d+$", "", variable)


def test(stmt: Compound) -> ast.expr:
    """What decides: the condition of an `if` or `while`, the range of a `for`."""
    if isinstance(stmt, ast.For):
        return stmt.iter
    match stmt.test:
        case ast.Call(ast.Name(id), [condition]) if id in (STAYS, GUARD):
            return condition
    return stmt.test


def stays(stmt: ast.stmt) -> bool:
    """Is it the rest of a kernel, for the threads that have not returned before it?"""
    return isinstance(stmt, ast.If) and test(stmt) is not stmt.test


def truth(value: ast.expr) -> ast.expr:
    """The condition as a bool."""
    if isinstance(value, ast.Compare) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    ):
        return value
    return ast.IfExp(value, ast.Constant(True), ast.Constant(False))


def target(stmt: ast.stmt) -> ast.expr | None:
    """The left side of an assignment, plain or augmented."""
    if isinstance(stmt, ast.Assign):
        return stmt.targets[0]
    return stmt.target if isinstance(stmt, ast.AugAssign) else None


def loads(node: ast.AST) -> bool:
    """Does it read an element of an array (`a.shape[0]` is none)?"""
    return any(
        isinstance(n, ast.Subscript) and not isinstance(n.value, ast.Attribute)
        for n in ast.walk(node)
    )


def bounds(over: ast.Call) -> tuple[ast.expr, ast.expr, ast.expr]:
    """Start, stop and step of a call of `range`."""
    args = over.args
    if len(args) == 1:
        return ast.Constant(0), args[0], ast.Constant(1)
    return args[0], args[1], args[2] if len(args) == 3 else ast.Constant(1)


def seen_by_others(node: ast.AST) -> set[str]:
    """Variables that other threads read: each has a slot a thread, whatever it is."""
    read = {SLOT: slice(0, 1), VOTE: slice(1, 3)}
    return {
        a.id
        for n in ast.walk(node)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        for a in n.args[read.get(n.func.id, slice(0))]
        if isinstance(a, ast.Name)
    }


def synchronises(node: ast.AST) -> bool:
    """Is there a point inside that every thread gets to before any goes on?"""
    return calls(node, {BARRIER, CUT})


def atomic(node: ast.AST) -> bool:
    """Is there an atomic operation inside?"""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Name)
        and n.func.id.startswith("atomic_")
        for n in ast.walk(node)
    )


def jumps(loop: Loop) -> list[tuple[ast.stmt, tuple[ast.If, ...]]]:
    """Each `break` or `continue` of this loop, with the `if`s around it."""

    def walk(
        stmts: Iterable[ast.stmt], around: tuple[ast.If, ...]
    ) -> Iterator[tuple[ast.stmt, tuple[ast.If, ...]]]:
        for stmt in stmts:
            if isinstance(stmt, (ast.Break, ast.Continue)):
                yield stmt, around
            elif isinstance(stmt, ast.If):
                yield from walk(stmt.body + stmt.orelse, (*around, stmt))

    return list(walk(loop.body, ()))


def head(stmt: Compound) -> str:
    """The first line of a compound statement."""
    if isinstance(stmt, ast.For):
        return f"for {ast.unparse(stmt.target)} in {ast.unparse(stmt.iter)}:"
    return f"{type(stmt).__name__.lower()} {ast.unparse(test(stmt))}:"


def text(stmts: Iterable[ast.stmt], depth: int = 0) -> list[str]:
    """Statements as indented lines."""
    return [
        "    " * depth + line
        for s in stmts
        for line in ast.unparse(_with_pass(s)).splitlines()
    ]


def _with_pass(stmt: ast.stmt) -> ast.stmt:
    """The statement as Python must have it: `pass` where a body is empty."""
    if all(s.body for s in ast.walk(stmt) if isinstance(s, COMPOUNDS)):
        return stmt
    new = copy.deepcopy(stmt)
    for s in ast.walk(new):
        if isinstance(s, COMPOUNDS) and not s.body:
            s.body = [ast.Pass()]
    return new
