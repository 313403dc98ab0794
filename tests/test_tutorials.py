"""The tutorials: each runs from top to bottom, and its notebook is made from it."""

import ast
import doctest
import json
import os
import re
import subprocess
import sys

import pytest

from tutorials import build
from tutorials.build import cells, notebook, sources

TUTORIALS = sources()
FIRST = TUTORIALS[0].read_text(encoding="utf-8")
# What a tutorial may import: what is installed with snref. Only one needs a clone.
ALLOWED = {"snref", "numpy", "matplotlib", "numba", *sys.stdlib_module_names}
FIGURES = "8_training"
RUN = """
import runpy, sys
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
def show():
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(sys.stdout.buffer, format="png")
        sys.stderr.write("a picture")
    pyplot.close("all")
pyplot.show = show
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture(params=TUTORIALS, ids=lambda path: path.stem)
def tutorial(request):
    return request.param


def run(tutorial, folder, before=""):
    """Run a tutorial in a folder, after these lines; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", before + RUN, str(tutorial)],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(tutorial.parents[1])}
        | {"OPENBLAS_NUM_THREADS": "1"},  # other tests have the other cores
        capture_output=True,
    )
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert re.fullmatch("(a picture)+", said)
    assert not list(folder.iterdir())
    return done.stdout.decode(errors="replace")


@pytest.mark.slow
def test_a_tutorial_runs_from_top_to_bottom_without_a_warning(tutorial, tmp_path):
    """Its claims are assertions in it. It draws, and writes nothing."""
    run(tutorial, tmp_path)


@pytest.mark.full
def test_without_a_clone_the_eighth_tutorial_leaves_out_the_figures(tmp_path):
    [tutorial] = [path for path in TUTORIALS if path.stem == FIGURES]
    out = run(tutorial, tmp_path, "import sys; sys.modules['figures'] = None")
    assert "this is no clone" in out and "alexnet b200" not in out


def test_a_notebook_is_made_from_its_tutorial(tutorial):
    text = tutorial.read_text(encoding="utf-8")
    made = tutorial.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert made == notebook(text), "run python -m tutorials.build"
    assert all(not c.get("outputs") for c in json.loads(made)["cells"])


def test_the_builder_does_what_it_says(tmp_path, monkeypatch, capsys):
    tried = doctest.testmod(build)
    assert tried.attempted and not tried.failed
    with pytest.raises(ValueError, match="text before the first cell: 'import snref'"):
        cells("import snref\n# %%\n")
    (tmp_path / "1_own.py").write_text("# %% [markdown]\n# # 1. Own\n\n# %%\nx = 1\n")
    monkeypatch.setattr(build, "HERE", tmp_path)
    build.main()
    assert capsys.readouterr().out == f"{tmp_path / '1_own.ipynb'}\n"
    made = json.loads((tmp_path / "1_own.ipynb").read_text(encoding="utf-8"))
    assert [cell["source"] for cell in made["cells"]] == [["# 1. Own"], ["x = 1"]]


def test_every_notebook_has_its_tutorial():
    notebooks = {path.stem for path in TUTORIALS[0].parent.glob("*.ipynb")}
    assert notebooks == {path.stem for path in TUTORIALS}


def test_a_tutorial_imports_only_what_is_installed_with_snref(tutorial):
    tree = ast.parse(tutorial.read_text(encoding="utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= ALLOWED | ({"figures"} if tutorial.stem == FIGURES else set())


def test_a_tutorial_has_the_parts_that_its_readers_expect(tutorial):
    """It begins with what one will be able to do, and ends with questions."""
    made = cells(tutorial.read_text(encoding="utf-8"))
    kind, head = made[0]
    number = tutorial.stem.split("_")[0]
    assert kind == "markdown" and head.startswith(f"# {number}. ")
    for part in "**At the end you can**", "**Before you begin**", "**Time**":
        assert part in head
    texts = [source for kind, source in made if kind == "markdown"]
    text = "\n".join(texts)
    assert text.count("**Predict**") >= 3
    assert "## Outside this course" in text and "**Left out**" in text
    questions, answers = text.split("## Questions")[1].split("## Answers")
    for part in questions, answers:
        assert re.findall(r"^(\d)\. ", part, re.M) == ["1", "2", "3"]


def test_the_second_tutorial_builds_a_network_in_less_than_200_lines():
    text = TUTORIALS[1].read_text(encoding="utf-8").split("# ## The real one")[0]
    _, *parts = (source for kind, source in cells(text) if kind == "code")
    code = "\n".join(parts)  # the first part imports, for the comparison, too
    assert 100 < sum(map(bool, code.splitlines())) < 200


def test_every_tutorial_begins_with_the_same_cell(tutorial):
    """It loads snref, or says how to install it. It holds no address."""
    text = tutorial.read_text(encoding="utf-8")
    begin, end = "# %%\ntry:\n", "from None\n"
    cell = text.split(begin)[1].split(end)[0]
    assert cell == FIRST.split(begin)[1].split(end)[0]
    assert "://" not in text


def test_without_snref_the_first_cell_says_how_to_install_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", "-I", str(TUTORIALS[0])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("snref is not installed in this Python.")
    assert "Traceback" not in done.stderr
