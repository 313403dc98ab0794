"""What snref/simt/README.md says is so."""

import ast
import builtins
import importlib.util
import re
import runpy
import textwrap
from pathlib import Path

import numpy as np
import pytest

from snref import simt
from snref.simt import checker
from snref.simt.front.unsupported import unsupported

PAGE = Path(checker.__file__).with_name("README.md").read_text(encoding="utf-8")
EXAMPLE, STAGES = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
_, _, TABLE = PAGE.partition("| refused in a kernel |")
TABLE, _, _ = TABLE.partition("\n\n")
REFUSED = [
    "\n".join(re.findall(r"`(.+?)`", row.split(" | ")[0]))
    for row in TABLE.splitlines()[2:]
]
OWN = set(re.findall(r"`(\w+)`", re.search(r"own functions run (.+?);", PAGE, re.S)[1]))

BEFORE = """
import math
import numpy as np
from numba import cuda

N, SETTINGS = 1, {"n": 1}

@cuda.jit(device=True)
def f(x, y=2):
    return x + y

def kernel(a):
"""
RUNS = """
    x: float = a[0]
    x += 1 if x > 0 and not x == 2 else ~1
    assert x >= 0
    del x
    y, z = (1, 2)
    while (n := y) < z:
        y += f(x=n)
        if n > 8:
            raise ValueError
        continue
    for i, v in enumerate(a):
        break
    else:
        pass
    match z:
        case 1 | 3:
            return
    def g(x):
        return x + N
    h = lambda x: g(x) * math.sqrt(4.0)
    print(f"{y}", -1j.imag)
    b = a[1:3]
    a[0] = h(b[0])
"""
# They stand in no kernel: at the outside, in `async def`, or refused by Python itself.
ELSEWHERE = {"AsyncFor", "AsyncWith", "Await", "Nonlocal", "TypeAlias"}
# Of a `try` or an f-string there are two kinds, the second of which is newer.
ALIKE = {"TryStar": "Try", "TemplateStr": "JoinedStr", "Interpolation": "JoinedStr"}


def kernel_of(folder, statements, name="module"):
    """The kernel with these statements, and the line of the first."""
    path = folder / f"{name}.py"
    path.write_text(BEFORE + textwrap.indent(textwrap.dedent(statements), "    "))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel, BEFORE.count("\n") + 1


def test_the_example_runs(tmp_path, capsys):
    (tmp_path / "example.py").write_text(EXAMPLE)
    left = runpy.run_path(str(tmp_path / "example.py"))
    assert (left["y"] == 2 * left["x"]).all()
    assert "flops a byte" in capsys.readouterr().out


def test_the_table_has_every_kind_of_finding():
    kinds = {kind for kind, _ in checker._KINDS.values()} | {*checker.MORE_KINDS}
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == kinds


@pytest.mark.parametrize("statements", REFUSED)
def test_what_the_table_says_is_refused_at_its_line(tmp_path, statements):
    kernel, line = kernel_of(tmp_path, statements)
    with pytest.raises(simt.KernelError) as caught:
        simt.compile(kernel)[1, 1](np.ones(4))
    found = int(re.match(r"module\.py:(\d+): kernel: ", str(caught.value))[1])
    first = line - 1 if "return" in statements else line  # of the whole kernel: its def
    assert first <= found < line + len(statements.splitlines())


def test_a_message_says_what_the_table_says_to_write():
    rows = [row.strip("| ").split(" | ") for row in TABLE.splitlines()[2:]]
    said = {
        type(node).__name__: unsupported(node).partition(": write ")[2]
        for statements in REFUSED
        for node in ast.walk(ast.parse(statements))
        if isinstance(node, (ast.stmt, ast.expr))
    }
    written = {instead.replace("`", "") for _, instead in rows}
    assert {text for text in said.values() if text} <= written
    assert sum(map(bool, said.values())) >= 18


def test_every_kind_of_statement_and_expression_runs_or_is_in_the_table(tmp_path):
    kernel, _ = kernel_of(tmp_path, RUNS)
    a = np.ones(4)
    simt.compile(kernel)[1, 1](a)
    assert a[0] == 4
    seen = set(ELSEWHERE)
    for text in [RUNS, *REFUSED]:
        tree = ast.parse(
            "def kernel():\n" + textwrap.indent(textwrap.dedent(text), " ")
        )
        seen |= {type(n).__name__ for n in ast.walk(tree)}
    kinds = {c.__name__ for b in (ast.stmt, ast.expr) for c in b.__subclasses__()}
    assert {ALIKE.get(k, k) for k in kinds} - seen == set()


def test_pythons_own_functions_run_or_are_refused(tmp_path):
    others = {n for n, f in vars(builtins).items() if callable(f) and n.islower()}
    others -= OWN | {n for n in others if n.startswith("_")}
    assert len(others) > 30
    for n in sorted(others - {"exit", "quit", "copyright", "credits", "license"}):
        kernel, line = kernel_of(tmp_path, f"a[0] = {n}(a[0])", n)
        with pytest.raises(simt.KernelError, match=rf"^{n}\.py:{line}: kernel: "):
            simt.compile(kernel)[1, 1](np.ones(4))


def test_the_stages_print_what_the_page_shows(tmp_path):
    (tmp_path / "stages.py").write_text(STAGES)
    spec = importlib.util.spec_from_file_location("stages", tmp_path / "stages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = re.findall(r"```text (\w+)\n(.+?)```", PAGE, re.DOTALL)
    assert len(shown) == 6
    for stage, text in shown:
        given = np.zeros(64), np.zeros(64), 64
        assert text in simt.show(module.sums, 32, *given, stage=stage)
    y, x = np.zeros(32), np.arange(100.0)
    simt.compile(module.sums)[1, 32](y, x, 100)
    assert y[31] == x[::32].sum()
