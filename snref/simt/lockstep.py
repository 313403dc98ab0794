"""Stage 5: divergent control flow that the threads of a block can walk together.

A loop whose bounds alone differ between threads becomes a uniform loop over as many
rounds as the longest needs, and a mask (what a GPU's warp does, too):

    for i in range(t, n, 64):             _span1 = n
        s += a[i]                 ->      for _k1 in range(0, _span1, 64):
                                              if t + _k1 < n:
                                                  i = t + _k1
                                                  s += a[i]

(thread 0 has the longest way; where that is not plain, `_highest(n - t)` finds out).

A loop with a warp operation inside that threads leave at different times, or jump in,
goes on until all have left it; those that have do nothing in it any more:

    while x > t:                          _go1 = True
        x -= shuffle(x)                   while True:
        if x == 5:                ->          if _go1: _go1 = x > t
            break                             _some1 = _any(_go1)
        x += 1                                if not _some1: break
                                              if _go1:
                                                  _here1 = True
                                                  x -= shuffle(x)
                                                  if x == 5: _go1 = _here1 = False
                                                  if _here1: x += 1

A barrier under a condition that may differ is legal CUDA as long as it does not at this
launch. All threads that have not returned must agree, or the launch ends:

    if i < n:                             _answer1 = i < n
        _barrier()                ->      _agreed1 = _any(_answer1)
                                          _odd1 = _any(_answer1 != _agreed1)
                                          if _odd1: _refuse(0)
                                          if _agreed1: _barrier()

Threads that have returned are not waited for: `if _stays(...)` is left as it is. So is
`if _guard(...)`, unless its threads disagree whatever the arguments and the grid are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence

from snref.simt import ir
from snref.simt.ir import (
    COMPOUNDS,
    LOOPS,
    Compound,
    Kernel,
    KernelError,
    assign,
    at,
    call,
    name,
)
from snref.simt.uniform import Uniformity


def lockstep(kernel: Kernel, uniformity: Uniformity) -> Kernel:
    """Make divergent loops and conditions uniform where that is possible."""
    rewriter = _Rewriter(kernel, uniformity)
    body = rewriter.block(kernel.body, False)
    return kernel.with_body(body, sites=tuple(rewriter.sites))


_PURE = {f.__name__: f for f in (min, max, abs, len, range, int, bool)}


class _Rewriter:
    def __init__(self, kernel: Kernel, uniformity: Uniformity):
        self.kernel, self.uniformity = kernel, uniformity
        self.taken = set(kernel.types).union(*map(ir.names, kernel.body))
        self.sites = list(kernel.sites)
        self.definitions: dict[str, list[ast.stmt]] = {}
        for stmt in kernel.body:
            for n in ast.walk(stmt):
                left = ir.target(n) if isinstance(n, ast.stmt) else None
                if isinstance(n, ast.For):
                    left = n.target
                if isinstance(left, ast.Name):
                    self.definitions.setdefault(left.id, []).append(n)  # type: ignore

    def fresh(self, stem: str) -> str:
        return ir.fresh(stem, self.taken)

    def block(self, stmts: Sequence[ast.stmt], alone: bool) -> list[ast.stmt]:
        """`alone`: inside a loop that each thread runs by itself."""
        out: list[ast.stmt] = []
        for stmt in stmts:
            if not isinstance(stmt, COMPOUNDS):
                out.append(stmt)
                continue
            diverges = stmt in self.uniformity.divergent
            if ir.calls(stmt, {ir.BARRIER}):
                out += self.agree(stmt, diverges)
            elif isinstance(stmt, ast.If) or not diverges:
                out.append(self.same(stmt, alone))
            else:
                by_itself = alone or stmt in self.uniformity.alone
                together = None if by_itself else self.together(stmt)
                if not together and ir.synchronises(stmt):
                    together = self.rounds(stmt)
                out += together or [self.same(stmt, True)]
        return out

    def same(self, stmt: Compound, alone: bool) -> ast.stmt:
        new = copy.copy(stmt)
        new.body = self.block(stmt.body, alone)
        new.orelse = self.block(stmt.orelse, alone)
        return new

    # ---- divergent bounds

    def together(self, loop: ir.Loop) -> list[ast.stmt] | None:
        """The loop as rounds of the whole block, or None if that cannot be done."""
        if isinstance(loop, ast.While) or ir.jumps(loop) or ir.atomic(loop):
            return None
        assert isinstance(loop.iter, ast.Call)
        start, stop, step = ir.bounds(loop.iter)
        if not _positive(step) or self.uniformity.varies(step):
            return None
        lowest = self.lowest(start)
        if self.uniformity.varies(stop) and lowest is not None:
            if not ir.synchronises(loop):
                return None  # each thread by itself: no more than it needs
            lowest = None
        line = loop.lineno
        first, last, span, k = map(self.fresh, ("start", "stop", "span", "k"))
        i = ast.BinOp(name(first), ast.Add(), name(k))
        before: list[ast.stmt] = [assign(first, start, line)]
        if isinstance(stop, ast.Constant):
            end: ast.expr = stop
        else:
            before.append(assign(last, stop, line))
            end = name(last)
        if lowest is None:
            length = ast.BinOp(copy.deepcopy(end), ast.Sub(), name(first))
            before.append(assign(span, call(ir.HIGHEST, length), line))
        else:  # thread 0 goes the longest way
            longest: ast.expr = copy.deepcopy(end)
            if not (isinstance(lowest, ast.Constant) and lowest.value == 0):
                longest = ast.BinOp(longest, ast.Sub(), lowest)
            before.append(assign(span, longest, line))
        assert isinstance(loop.target, ast.Name)
        here = ast.Compare(copy.deepcopy(i), [ast.Lt()], [copy.deepcopy(end)])
        rounds = call("range", ast.Constant(0), name(span), step)
        body = [assign(loop.target.id, i), *self.block(loop.body, False)]
        inner = ast.If(here, body, [])
        return [*before, at(ast.For(name(k, True), rounds, [inner], []), line)]

    # ---- warp operations in loops that threads leave at different times

    def rounds(self, loop: ir.Loop) -> list[ast.stmt]:
        """The loop as rounds of the whole block, until no thread goes on."""
        line = loop.lineno
        go, some, here, k = map(self.fresh, ("go", "some", "here", "k"))
        before, after = [assign(go, ast.Constant(True))], list[ast.stmt]()
        first: list[ast.stmt] = [assign(here, ast.Constant(True))]
        if isinstance(loop, ast.While):
            goes_on = ir.truth(loop.test)
        else:
            assert isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
            begin, by, trips = map(self.fresh, ("start", "step", "trips"))
            start, stop, step = ir.bounds(loop.iter)
            before += [assign(begin, start), assign(by, step)]
            length = call("len", call("range", name(begin), stop, name(by)))
            before += [assign(trips, length), assign(k, ast.Constant(0))]
            goes_on = ast.Compare(name(k), [ast.Lt()], [name(trips)])
            along = ast.BinOp(name(k), ast.Mult(), name(by))
            i = ast.BinOp(name(begin), ast.Add(), along)
            first.append(assign(loop.target.id, i))
            after.append(ast.AugAssign(name(k, True), ast.Add(), ast.Constant(1)))
        inside = [*first, *self.without_jumps(loop.body, go, here)]
        body = [
            ast.If(name(go), [assign(go, goes_on)], []),
            assign(some, call(ir.ANY, name(go))),
            ast.If(ast.UnaryOp(ast.Not(), name(some)), [ast.Break()], []),
            ast.If(name(go), inside, []),
            *after,
        ]
        whole = [*before, ast.While(ast.Constant(True), body, [])]
        return [at(stmt, line) for stmt in whole]

    def without_jumps(
        self, stmts: Sequence[ast.stmt], go: str, here: str
    ) -> list[ast.stmt]:
        """The statements, a jump told to those that come behind it."""
        out: list[ast.stmt] = []
        for n, stmt in enumerate(stmts):
            if isinstance(stmt, (ast.Break, ast.Continue)):
                left = [here, go] if isinstance(stmt, ast.Break) else [here]
                return out + [assign(v, ast.Constant(False), stmt.lineno) for v in left]
            if not isinstance(stmt, ast.If) or not _jumps(stmt):
                out += self.block([stmt], False)
                continue
            new = copy.copy(stmt)
            new.body = self.without_jumps(stmt.body, go, here)
            new.orelse = self.without_jumps(stmt.orelse, go, here)
            rest = self.without_jumps(stmts[n + 1 :], go, here)
            last = [at(ast.If(name(here), rest, []), stmt.lineno)] if rest else []
            return [*out, new, *last]
        return out

    def lowest(self, value: ast.expr) -> ast.expr | None:
        """The value in thread 0, if no thread has a lower one: a sum of uniform terms
        and multiples of the thread's index. Else None."""
        if not self.uniformity.varies(value):
            return copy.deepcopy(value)
        match value:
            case ast.Name(id) if id in ir.THREAD:
                return ast.Constant(0)
            case ast.Name(id) if len(self.definitions.get(id, ())) == 1:
                (definition,) = self.definitions[id]
                fixed = {*ir.THREAD, *ir.BLOCK, *ir.GRID, *self.kernel.types}
                fixed -= set(self.definitions)
                if (
                    isinstance(definition, ast.Assign)
                    and id not in self.kernel.types
                    and ir.names(definition.value) <= fixed
                ):
                    return self.lowest(definition.value)
            case ast.BinOp(left, ast.Add(), right):
                terms = self.lowest(left), self.lowest(right)
                if terms[0] is not None and terms[1] is not None:
                    return ast.BinOp(terms[0], ast.Add(), terms[1])
            case ast.BinOp(left, ast.Mult(), ast.Constant(int(n))) if n >= 0:
                term = self.lowest(left)
                return (
                    None if term is None else ast.BinOp(term, ast.Mult(), value.right)
                )
        return None

    # ---- barriers under a condition

    def agree(self, stmt: Compound, diverges: bool) -> list[ast.stmt]:
        """The statement with conditions that every thread answers alike."""
        new = copy.copy(stmt)
        if isinstance(stmt, LOOPS):
            odd = {
                i
                for _, around in ir.jumps(stmt)
                for i in around
                if self.uniformity.varies(i.test)
            }
            new.body = self.block(self.agree_on_jumps(stmt.body, odd, stmt), False)
        else:
            new.body = self.block(stmt.body, False)
            new.orelse = self.block(stmt.orelse, False)
        if not self.uniformity.varies(ir.test(stmt)):
            return [new]
        line = stmt.lineno
        if isinstance(stmt, ast.If) and ir.stays(stmt):
            guard = ir.calls(stmt.test, {ir.GUARD})
            if guard and self.split_by_construction(ir.test(stmt)):
                raise self.complaint(stmt, stmt)
            return [new]
        if isinstance(new, ast.If):
            before, new.test = self.agreed(stmt, new.test)
            return [*before, new]
        if isinstance(new, ast.While):
            before, go_on = self.agreed(stmt, new.test)
            leave = ast.If(ast.UnaryOp(ast.Not(), go_on), [ast.Break()], [])
            new.test = at(ast.Constant(True), line)
            new.body = [*before, at(leave, line), *new.body]
            return [new]
        assert isinstance(new.target, ast.Name) and isinstance(new.iter, ast.Call)
        first, k, by = map(self.fresh, ("start", "k", "step"))
        start, stop, step = ir.bounds(new.iter)
        trips = call("len", call("range", name(first), stop, name(by)))
        before, rounds = self.agreed(stmt, trips)
        along = ast.BinOp(name(k), ast.Mult(), name(by))
        i = ast.BinOp(name(first), ast.Add(), along)
        new.body = [assign(new.target.id, i, line), *new.body]
        new.target, new.iter = name(k, True), at(call("range", rounds), line)
        return [assign(first, start, line), assign(by, step, line), *before, new]

    def agree_on_jumps(
        self, stmts: Iterable[ast.stmt], odd: set[ast.If], loop: ir.Loop
    ) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for stmt in stmts:
            if not isinstance(stmt, ast.If):
                out.append(stmt)
                continue
            new = copy.copy(stmt)
            new.body = self.agree_on_jumps(stmt.body, odd, loop)
            new.orelse = self.agree_on_jumps(stmt.orelse, odd, loop)
            if stmt in odd and not ir.calls(stmt, {ir.BARRIER}):
                before, new.test = self.agreed(stmt, stmt.test, loop)
                out += before
            out.append(new)
        return out

    def agreed(
        self, stmt: Compound, value: ast.expr, around: Compound | None = None
    ) -> tuple[list[ast.stmt], ast.expr]:
        """Statements that make sure of one answer, and the answer."""
        answer, agreed, odd = map(self.fresh, ("answer", "agreed", "odd"))
        line = stmt.lineno
        trips = isinstance(stmt, ast.For)  # else the answer is yes or no
        problem = self.complaint(stmt, around or stmt)
        if self.split_by_construction(value):
            raise problem
        self.sites.append(problem)
        site = ast.Constant(len(self.sites) - 1)
        differs = ast.Compare(name(answer), [ast.NotEq()], [name(agreed)])
        refuse = ast.If(name(odd), [ast.Expr(call(ir.REFUSE, site))], [])
        return [
            assign(answer, value if trips else ir.truth(value), line),
            assign(agreed, call(ir.HIGHEST if trips else ir.ANY, name(answer)), line),
            assign(odd, call(ir.ANY, differs), line),
            at(refuse, line),
        ], at(name(agreed), line)

    def complaint(self, stmt: Compound, around: Compound) -> KernelError:
        barrier = next(
            n.lineno
            for n in ast.walk(around)
            if isinstance(n, ast.stmt) and ir.called(n) == ir.BARRIER
        )
        varying = ir.names(ir.test(stmt)) & self.uniformity.varying
        differ = sorted({ir.own_name(n) for n in varying if not n.startswith("_")})
        _, barrier = ir.line_of_file(self.kernel.sources, barrier)
        head = ir.source_line(self.kernel.sources, stmt.lineno).strip()
        what = f"{', '.join(differ) or 'it'} differ{'s' if len(differ) < 2 else ''}"
        text = (
            f"syncthreads() in line {barrier} depends on '{head}', and {what} between "
            "threads; all threads of a block must reach the same barrier"
        )
        return self.kernel.error(stmt.lineno, text, "divergent-barrier")

    def split_by_construction(self, value: ast.expr) -> bool:
        """Do the threads disagree whatever the arguments and the grid are?"""
        answers = set()
        for t in range(self.kernel.threads):
            bx, by, _ = self.kernel.block
            index = (t % bx, t // bx % by, t // (bx * by))
            known = dict(zip(ir.THREAD, index, strict=True))
            try:
                answers.add(self.evaluate(value, known, 0))
            except (NameError, ArithmeticError, TypeError, AttributeError):
                return False
        return len(answers) > 1

    def evaluate(self, value: ast.expr, known: dict[str, int], depth: int) -> object:
        """The value in one thread, if it follows from the thread's index alone."""
        for n in sorted(ir.names(value) - set(known)):
            found = self.definitions.get(n, ())
            if len(found) == 1 and isinstance(found[0], ast.Assign) and depth < 20:
                known = {**known, n: self.evaluate(found[0].value, known, depth + 1)}  # type: ignore[dict-item]
        code = compile(ast.Expression(at(copy.deepcopy(value), 1)), "", "eval")
        return eval(code, {"__builtins__": _PURE}, known)


def _jumps(branch: ast.If) -> bool:
    """Is there a jump inside, of the loop around the branch?"""
    return any(
        isinstance(s, (ast.Break, ast.Continue))
        or (isinstance(s, ast.If) and _jumps(s))
        for s in branch.body + branch.orelse
    )


def _positive(step: ast.expr) -> bool:
    if isinstance(step, ast.Constant):
        return isinstance(step.value, int) and step.value > 0
    parts = ir.names(step)
    return bool(parts) and parts <= set(ir.GRID)  # gridDim * a constant
