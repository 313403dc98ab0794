"""Which types the variables of a kernel have: Numba's own type inference.

The kernel is typed as the plain function of one thread, before any expansion, at its
own file and lines: a typing error points at the kernel's source.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numba
from numba.core import compiler, errors, typed_passes
from numba.core import types as numba_types
from numba.core.registry import cpu_target

from snref.simt import ir
from snref.simt.ir import Kernel


def infer(kernel: Kernel, variables: Iterable[str]) -> dict[str, Any]:
    """The Numba type of each of these variables."""
    wanted = sorted(variables)
    if not wanted:
        return {}
    indices = dict.fromkeys((*ir.THREAD, *ir.BLOCK, *ir.GRID), numba_types.int64)
    arrays = {
        n: numba_types.Array(a.dtype, len(a.shape), "C")
        for n, a in kernel.arrays.items()
    }
    given = {**kernel.types, **arrays, **indices}
    function = _function(kernel, list(given))
    context = cpu_target.typing_context
    context.refresh()
    try:
        typed = typed_passes.type_inference_stage(
            context,
            cpu_target.target_context,
            compiler.run_frontend(function),
            list(given.values()),
            None,
        )
    except errors.NumbaError as e:
        raise refusal(kernel, e) from e
    found = {}
    for v in wanted:
        kind = numba_types.unliteral(typed.typemap.get(v, numba_types.boolean))
        if not isinstance(kind, (numba_types.Number, numba_types.Boolean)):
            raise kernel.error(
                kernel.line,
                f"{v} is of type {kind}, which cannot be kept from one side of a "
                "barrier or loop to the other; keep numbers",
            )
        found[v] = kind
    return found


def _function(kernel: Kernel, parameters: list[str]) -> Any:
    body: list[ast.stmt] = []
    for stmt in copy.deepcopy(kernel.body):
        body += _Plain().visit_block([stmt])
    arguments = ast.arguments(
        [], [ast.arg(p) for p in parameters], None, [], [], None, []
    )
    definition = ast.FunctionDef(kernel.name, arguments, body or [ast.Pass()], [])
    setattr(definition, "type_params", [])  # noqa: B010 (a field from Python 3.12 on)
    definition.lineno = definition.end_lineno = kernel.line
    module = ast.fix_missing_locations(ast.Module([definition], []))
    scope: dict[str, Any] = {"numba": numba}
    for statement in kernel.imports.values():
        exec(statement, scope)
    exec(compile(module, f"<{kernel.name}>", "exec"), scope)
    return scope[kernel.name]


class _Plain(ast.NodeTransformer):
    """What the compiler's own names mean to one thread, as far as types go."""

    def visit_block(self, stmts: list[ast.stmt]) -> list[ast.stmt]:
        dropped = (ir.BARRIER, ir.CUT, ir.CLEAR, ir.REFUSE, ir.FENCE, ir.UNASSIGNED)
        return [
            self.visit(s)
            for s in stmts
            if not (isinstance(s, ast.Expr) and ir.called(s) in dropped)
        ]

    def compound(self, node: Any) -> Any:
        self.generic_visit_test(node)
        node.body = self.visit_block(node.body) or [ast.Pass()]
        node.orelse = self.visit_block(node.orelse)
        return node

    def generic_visit_test(self, node: Any) -> None:
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
        else:
            node.test = self.visit(node.test)

    visit_If = visit_For = visit_While = compound

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return ast.Pass()  # it ends the launch

    def visit_Call(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(ast.Name(ir.ANY)):
                return ast.Constant(True)
            case ast.Call(ast.Name(ir.COUNT)):
                return ast.Constant(0)
            case ast.Call(
                ast.Name(ir.HIGHEST | ir.SLOT | ir.STAYS | ir.GUARD | ir.WRAP),
                [value, *_],
            ):
                return self.visit(value)
            case ast.Call(ast.Name(ir.VOTE), [ast.Name(how), *_]):
                lanes = how in ("vote_ballot", "match_any", "match_all")
                return ast.Constant(0xFFFFFFFF if lanes else True)
        return self.generic_visit(node)


def refusal(
    kernel: Kernel, error: errors.NumbaError, generated: Sequence[str] = ()
) -> ir.KernelError:
    """The error to raise where Numba cannot compile the kernel: its reason, without
    its lists of candidates and of the places in its own source.

    The line of the error is the kernel's, or one of the `generated` text.
    """
    place = getattr(error, "loc", None)
    line = place.line if place is not None else kernel.line
    if generated:
        noted = re.findall(r"# line (\d+)", "\n".join(generated[:line]))
        line = int(noted[-1]) if noted else kernel.line
    message = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # colours, with colorama
    calls = re.findall(r">>> (.+)", message)
    reasons = re.findall(r"(?:NumbaTypeError|TypingError): (.+)", message)
    calls = [call for call in calls if "<unknown" not in call]
    lines = [line for line in message.splitlines() if not line.startswith("Failed in")]
    what = [f"there is no {call}" for call in calls[:1]] or lines[:1]
    what += [reason for reason in reasons[-1:] if reason not in what]
    text = "; ".join(what)
    text = re.sub(r"Literal\[\w+\]\((.*?)\)", r"\1", text)
    text = re.sub(r"Module\(<module '(\w+)'.*?>\)", r"\1", text)
    text = re.sub(r", defined at <\w+> \(\d+\)", "", text)
    return kernel.error(line, f"Numba cannot type it: {text}")
