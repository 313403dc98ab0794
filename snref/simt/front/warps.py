"""Warp-wide and block-wide operations, as statements that go through memory.

A shuffle is a value that each thread puts down, a cut (every thread gets there before
any goes on), and a read of another thread's value. For 32 threads

    v += cuda.shfl_down_sync(m, v, 1)     _shuffle1 = v
                                    ->    _cut()
                                          v += _slot(_shuffle1, shuffle_down(t, 1, 32))
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import prod

from snref.simt import ir
from snref.simt.ir import assign, call, expression, name

SIZE = 32  # threads of a warp

ATOMICS = {
    *("add", "sub", "max", "min", "nanmax", "nanmin", "and_", "or_", "xor"),
    *("inc", "dec", "exch", "cas", "compare_and_swap"),
}
PLAIN = {"popc", "brev", "clz", "ffs", "fma", "cbrt"}  # functions of one thread
_HALF: dict[int, str] = {  # functions of `cuda.fp16`, by how many arguments they take
    1: """hneg habs hsin hcos hlog hlog2 hlog10 hexp hexp2 hexp10 hfloor hceil htrunc
        hrint hsqrt hrsqrt hrcp""",
    2: "hadd hsub hmul hdiv hmax hmin heq hne hlt hle hgt hge",
    3: "hfma",
}
HALF = {n: most for most, names in _HALF.items() for n in names.split()}
ARGUMENTS = {  # of names: how many they take
    ("syncthreads", "activemask", "lanemask_lt"): 0,
    ("threadfence", "threadfence_block", "threadfence_system"): 0,
    ("syncthreads_and", "syncthreads_or", "syncthreads_count", "syncwarp"): 1,
    ("grid", "gridsize", "nanosleep", "popc", "brev", "clz", "ffs", "cbrt"): 1,
    ("all_sync", "any_sync", "eq_sync", "ballot_sync"): 2,
    ("match_any_sync", "match_all_sync"): 2,
    ("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "selp", "fma"): 3,
    tuple(f"atomic.{n}" for n in ATOMICS if n != "cas"): 3,
    ("atomic.cas",): 4,
    ("const.array_like",): 1,
    **{tuple(f"fp16.{n}" for n in names.split()): k for k, names in _HALF.items()},
}
_SHUFFLES = {
    "shfl_sync": "shuffle",
    "shfl_up_sync": "shuffle_up",
    "shfl_down_sync": "shuffle_down",
    "shfl_xor_sync": "shuffle_xor",
}
_VOTES = {
    "all_sync": "vote_all",
    "any_sync": "vote_any",
    "eq_sync": "vote_equal",
    "ballot_sync": "vote_ballot",
    "match_any_sync": "match_any",
    "match_all_sync": "match_all",
}
_COUNTS = {"syncthreads_or": ir.ANY, "syncthreads_count": ir.COUNT}

Lowered = tuple[list[ast.stmt], ast.expr, list[str]]


def lower(
    called: str,
    args: Sequence[ast.expr],
    fresh: Callable[[str], str],
    block: tuple[int, int, int],
) -> Lowered | None:
    """Statements to go before, the result, and the runtime functions it needs.

    None if `cuda.<called>` is no operation of this kind.
    """
    mask = args[0] if args else ast.Constant(0xFFFFFFFF)
    named = [mask] if called != "activemask" and isinstance(mask, ast.Constant) else []
    cut = ast.Expr(call(ir.CUT, *named))
    thread = ir.thread_number(block)
    number, threads = expression(thread), ast.Constant(prod(block))
    if called == "lanemask_lt":
        return [], expression(f"(1 << ({thread}) % {SIZE}) - 1"), []
    if called == "syncwarp":
        return [cut], ast.Constant(None), []
    if called in _SHUFFLES:
        _, value, lane = args
        held, result = fresh("shuffle"), fresh("shuffled")
        source = call(_SHUFFLES[called], number, lane, threads)
        read = assign(result, call(ir.SLOT, name(held), source))
        put = assign(held, value)
        return [put, cut, read], name(result), [_SHUFFLES[called]]
    if called in _VOTES or called == "activemask":
        vote = args[1] if len(args) > 1 else ast.Constant(True)
        how = _VOTES.get(called, "vote_ballot")
        held, result = fresh("vote"), fresh("voted")
        matches = called.startswith("match")
        put = assign(held, vote if matches else _truth(vote))
        # a thread that is not here has no vote
        clear = ast.Expr(call(ir.CLEAR, name(held)))
        active = fresh("here")
        here = assign(active, ast.Constant(True))
        clear2 = ast.Expr(call(ir.CLEAR, name(active)))
        count = call(ir.VOTE, name(how), name(held), name(active), mask, number)
        read = assign(result, count)
        answer: ast.expr = name(result)
        if called == "match_all_sync":
            every = ast.Compare(name(result), [ast.NotEq()], [ast.Constant(0)])
            answer = ast.Tuple([answer, every], ast.Load())
        return [clear, clear2, put, here, cut, read], answer, [how]
    if called in _COUNTS:
        result, part = fresh("total"), fresh("part")
        put = assign(part, _truth(args[0]))
        total = assign(result, call(_COUNTS[called], name(part)))
        barrier = ast.Expr(call(ir.BARRIER))
        return [put, total, barrier], name(result), []
    if called == "syncthreads_and":
        result, part = fresh("total"), fresh("part")
        put = assign(part, ast.UnaryOp(ast.Not(), args[0]))
        total = assign(result, call(ir.ANY, name(part)))
        barrier = ast.Expr(call(ir.BARRIER))
        return [put, total, barrier], ast.UnaryOp(ast.Not(), name(result)), []
    return None


def _truth(value: ast.expr) -> ast.expr:
    return ast.IfExp(value, ast.Constant(True), ast.Constant(False))
