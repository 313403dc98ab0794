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
                f"{v} is {in_words(str(kind))}, which cannot be kept from one side "
                "of a barrier or loop to the other; keep numbers",
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
    # of what Numba tries for < and the like
    reasons = [reason for reason in reasons if "must be Sets" not in reason]
    lines = [line for line in message.splitlines() if not line.startswith("Failed in")]
    what = [_missing(call) for call in calls[:1]] or lines[:1]
    what += [reason for reason in reasons[-1:] if reason not in what]
    text = re.sub(r"( with \d+ indices): .*", r"\1", "; ".join(what))
    text = re.sub(r": %.*| for '\$[^']*'", "", text)  # LLVM's text, a name of Numba's
    text = re.sub(r", defined at <\w+> \(\d+\)", "", in_words(text))
    return kernel.error(line, f"Numba cannot type it: {text}")


def raised(kernel: Kernel, error: Exception) -> ir.KernelError:
    """The error to raise where the machine code of the kernel raises one of Python's.

    It does not tell where. The line is the only one that can have raised it, if there
    is just one, else the kernel's.
    """
    nodes: list[Any] = [n for stmt in kernel.body for n in ast.walk(stmt)]
    steps: list[ast.expr | None] = []
    match str(error).split():
        case ["range()", *_]:
            calls = [n for n in nodes if ir.called(ast.Expr(n)) == "range"]
            steps = [n.args[2] for n in calls if len(n.args) == 3]
        case ["slice", *_]:
            steps = [n.step for n in nodes if isinstance(n, ast.Slice)]
    may_be_zero = [s for s in steps if s and getattr(s, "value", 0) == 0]
    can = [s.lineno for s in may_be_zero]
    line = can[0] if len(set(can)) == 1 else kernel.line
    ended = kernel.error(line, str(error), "raised")
    ended.raises = type(error), error.args
    return ended


_CHANGES = {  # operators by Numba's names of them, which have one with `=`, too
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and_": "&",
    "or_": "|",
    "xor": "^",
}
_COMPARES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FORMS = {n: f"x {sign} y" for n, sign in (_CHANGES | _COMPARES).items()}
_FORMS |= {f"i{n.rstrip('_')}": f"x {sign}= y" for n, sign in _CHANGES.items()}
_FORMS |= {"contains": "y in x", "getitem": "x[y]", "setitem": "x[y] = z"}
_FORMS |= {"neg": "-x", "pos": "+x", "invert": "~x"}


def _missing(call: str) -> str:
    """What there is not, if no function has the call's types of arguments.

    >>> _missing("setitem(array(float32, 1d, C), int64, none)")
    'there is no x[y] = z, where x is array(float32, 1d, C), y is int64, z is none'
    """
    called, _, given = call.removesuffix(")").partition("(")
    parts, depth = [""], 0
    for letter in given:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    form = _FORMS.get(called)
    if form is None:
        return f"there is no {call}"
    known = zip("xyz", parts, strict=False)
    return f"there is no {form}, where " + ", ".join(
        f"{v} is {kind.strip()}" for v, kind in known
    )


def in_words(text: str) -> str:
    """A text in which the names of Numba's types are said in words.

    >>> in_words("readonly array(float32, 3d, A)")
    'an array of 3 dimensions, float32'
    >>> in_words("UniTuple(int64 x 2) and Literal[int](3)")
    'a tuple of 2 values and 3'
    """
    text = re.sub(r"Literal\[str\]\((.*?)\)", r"'\1'", text)
    text = re.sub(r"Literal\[\w+\]\((.*?)\)", r"\1", text)
    text = re.sub(r"Module\(<module '(\w+)'.*?>\)", r"\1", text)
    inside = r"\((?:[^()]|\([^()]*\))*\)"  # what parentheses hold
    text = re.sub(rf"array\(Record{inside}", "array(records", text)
    text = re.sub(rf"Record{inside}", "a record", text)

    def array(found: re.Match[str]) -> str:
        kind, n = found.groups()
        return f"an array of {n} dimension{'s' * (n != '1')}, {kind}"

    text = re.sub(
        r"(?:unaligned |readonly )*array\(([\w ]+), (\d+)d, [^()]*\)", array, text
    )
    text = re.sub(r"UniTuple\([^()]*? x (\d+)\)", r"a tuple of \1 values", text)
    text = re.sub(rf"Tuple{inside}", "a tuple", text)
    return re.sub(r"\bnone\b", "None", re.sub(r"\bunicode_type\b", "a text", text))
