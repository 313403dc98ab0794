"""Stage 6: the statements of a thread -> the tree of a block.

Thread-loop fission (MCUDA; Stratton, Stone and Hwu 2008), cut at every uniform loop and
not only at barriers, so that the loop over threads is the innermost one and can be
vectorised. A divergent branch around a uniform loop becomes a mask:

    if i < n:                             run:
        for k in range(8):                    _mask1 = i < n
            s += a[k, i]          ->          _any1 = _any(_mask1)
                                          if _any1:
                                              for k in range(8):
                                                  run if _mask1:
                                                      s += a[k, i]
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from snref.simt import ir
from snref.simt.ir import (
    COMPOUNDS,
    LOOPS,
    Compound,
    Control,
    Kernel,
    Run,
    Scalar,
    Tree,
    assign,
    name,
)
from snref.simt.uniform import Uniformity


def split(
    kernel: Kernel, uniformity: Uniformity, exact: bool = False
) -> tuple[Tree, ...]:
    """The kernel as runs of all threads, uniform control and scalars.

    `exact`: every thread does its own loads, even where they are the same for all.
    """
    return _Splitter(kernel, uniformity, exact).split(kernel.body, ())


class _Splitter:
    def __init__(self, kernel: Kernel, uniformity: Uniformity, exact: bool):
        self.kernel, self.uniformity, self.exact = kernel, uniformity, exact
        self.taken = set(kernel.types).union(*map(ir.names, kernel.body))

    def fresh(self, stem: str) -> str:
        return ir.fresh(stem, self.taken)

    def split(
        self, stmts: Sequence[ast.stmt], masks: tuple[str, ...]
    ) -> tuple[Tree, ...]:
        out: list[Tree] = []
        pending: list[ast.stmt] = []

        def cut() -> None:
            if pending:
                out.append(Run(tuple(pending), masks))
                pending.clear()

        for stmt in stmts:
            function = ir.called(stmt)
            if function == ir.CUT:
                cut()
                if self.exact:
                    out += self.warp_barrier(stmt, masks)
            elif function in ir.TOTALS:
                assert isinstance(stmt, ast.Assign) and isinstance(stmt.value, ast.Call)
                assert isinstance(stmt.targets[0], ast.Name)
                total = (stmt.targets[0].id, function, stmt.value.args[0])
                out.append(Run(tuple(pending), masks, total))
                pending.clear()
            elif self.exact and isinstance(stmt, COMPOUNDS) and self.loads_first(stmt):
                cut()
                out += self.split(self.loads_first(stmt), masks)
            elif self.exact and self.once(stmt) and ir.loads(stmt):
                cut()
                load, *rest = self.loaded(stmt)
                out += [Run((load,), masks), *map(Scalar, rest)]
            elif self.once(stmt):
                if self.depends(stmt, pending):
                    cut()
                if function == ir.BARRIER and self.exact:
                    out += self.arrivals(stmt, masks)
                out.append(Scalar(stmt))
            elif isinstance(stmt, COMPOUNDS) and self.outside(stmt):
                cut()
                out.append(self.control(stmt, masks))
            elif isinstance(stmt, ast.If) and self.worth_a_mask(stmt):
                cut()
                out += self.masked(stmt, masks)
            else:
                assert not ir.synchronises(stmt)  # `lockstep` has seen to that
                pending.append(stmt)
        cut()
        return tuple(out)

    def warp_barrier(self, stmt: ast.stmt, masks: tuple[str, ...]) -> list[Tree]:
        """The CUT, for styles that look at it; with its mask where not every thread
        may take part."""
        assert isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
        if not masks or not stmt.value.args:
            return [Scalar(ir.at(ast.Expr(ir.call(ir.CUT)), stmt.lineno))]
        arrive = ir.at(ast.Expr(ir.call(ir.LANE)), stmt.lineno)
        return [Run((arrive,), masks), Scalar(stmt)]

    def arrivals(self, stmt: ast.stmt, masks: tuple[str, ...]) -> list[Tree]:
        """What comes before a BARRIER to which some threads may not come, for styles
        that look at it."""
        if not masks:
            return []
        arrive = ir.at(ast.Expr(ir.call(ir.LANE)), stmt.lineno)
        present = ir.at(ast.Expr(ir.call(ir.PRESENT)), stmt.lineno)
        return [Run((arrive,), masks), Scalar(present)]

    def once(self, stmt: ast.stmt) -> bool:
        """Is it the same for all threads?"""
        if isinstance(stmt, (ast.Break, ast.Continue)):
            return True
        if ir.called(stmt) in (ir.BARRIER, ir.CLEAR, ir.REFUSE):
            return True
        left = ir.target(stmt)
        return isinstance(left, ast.Name) and left.id not in self.uniformity.varying

    def depends(self, stmt: ast.stmt, pending: list[ast.stmt]) -> bool:
        """Must what the threads have yet to do come before it?"""
        left = ir.target(stmt)
        if not isinstance(left, ast.Name):
            return True
        used = any(left.id in ir.names(s) for s in pending)
        return used or ir.loads(stmt) or ir.calls(stmt, {ir.SLOT})

    def outside(self, stmt: Compound) -> bool:
        return stmt not in self.uniformity.divergent

    def control(self, stmt: Compound, masks: tuple[str, ...]) -> Control:
        body = list(stmt.body)
        new = copy.copy(stmt)
        varying = self.uniformity.varying
        if isinstance(new, ast.For) and ir.names(new.target) & varying:
            k = self.fresh("k")  # each thread keeps its own: it is read after the loop
            body.insert(0, ast.Assign([new.target], name(k), lineno=stmt.lineno))
            new.target = name(k, store=True)
        inside = self.split(body, masks)
        return Control(new, inside, self.split(getattr(stmt, "orelse", ()), masks))

    def loads_first(self, stmt: Compound) -> list[ast.stmt]:
        """A uniform statement whose condition reads memory, as a load of its own and
        the decision; empty if it is no such statement."""
        if not self.outside(stmt) or not ir.loads(ir.test(stmt)):
            return []
        new, line = copy.copy(stmt), stmt.lineno
        if isinstance(new, ast.For):
            assert isinstance(new.iter, ast.Call)
            values = [self.fresh("bound") for _ in new.iter.args]
            loads = [
                assign(v, e, line) for v, e in zip(values, new.iter.args, strict=True)
            ]
            new.iter = ir.at(ir.call("range", *map(name, values)), line)
            return [*loads, new]
        answer = self.fresh("answer")
        load = assign(answer, ir.test(stmt), line)
        if isinstance(new, ast.If):
            new.test = ir.at(name(answer), line)
            return [load, new]
        leave = ast.If(ast.UnaryOp(ast.Not(), name(answer)), [ast.Break()], [])
        new.test = ir.at(ast.Constant(True), line)
        new.body = [load, ir.at(leave, line), *stmt.body]
        return [new]

    def loaded(self, stmt: ast.stmt) -> list[ast.stmt]:
        """A statement that all threads do alike, as what each of them may do without
        harm and what is done once: s += a[k] done by each would add a[k] many times."""
        if not isinstance(stmt, (ast.Assign, ast.AugAssign)):
            return [stmt]
        left = ir.target(stmt)
        assert isinstance(left, ast.Name)
        if isinstance(stmt, ast.Assign) and left.id not in ir.names(stmt.value):
            return [stmt]
        new, value = copy.copy(stmt), self.fresh("value")
        new.value = ir.at(name(value), stmt.lineno)
        return [assign(value, stmt.value, stmt.lineno), new]

    def worth_a_mask(self, stmt: ast.If) -> bool:
        """Is there a uniform loop inside, or a cut?"""
        if ir.synchronises(stmt):
            return True
        return any(
            (isinstance(s, LOOPS) and self.outside(s))
            or (isinstance(s, ast.If) and self.worth_a_mask(s))
            for s in stmt.body + stmt.orelse
        )

    def masked(self, stmt: ast.If, masks: tuple[str, ...]) -> list[Tree]:
        mask = self.fresh("mask")
        branches = [(stmt.body, mask, ir.truth(ir.test(stmt)))]
        if stmt.orelse:
            opposite = ast.UnaryOp(ast.Not(), name(mask))
            branches.append((stmt.orelse, self.fresh("mask"), opposite))
        out: list[Tree] = []
        for body, m, condition in branches:
            some = self.fresh("any")
            define = assign(m, condition, stmt.lineno)
            out.append(Run((define,), masks, (some, ir.ANY, name(m))))
            control = ir.at(ast.If(name(some), [], []), stmt.lineno)
            out.append(Control(control, self.split(body, (*masks, m))))
        return out
