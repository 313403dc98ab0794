"""The command that measures, draws and compares figures."""

import shutil
import sys
from pathlib import Path

import pytest

import figures
from figures.__main__ import main, read
from figures.claims import Claim

HERE = Path(figures.__file__).parent
NAME = "alexnet_memory"


def test_a_figure_is_drawn_from_its_data_and_compared_with_the_paper(tmp_path, capsys):
    shutil.copytree(HERE / "data", tmp_path / "data")
    assert main([NAME, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("every digit") == 3 and said.count("not fitted") == 2
    drawn = [path.name for path in (tmp_path / "pictures").iterdir()]
    assert drawn == [f"{NAME}.png"]


def test_the_data_of_the_figure_are_what_is_measured(tmp_path):
    assert main([NAME, "--measure", "--out", str(tmp_path)]) == 0
    measured = tmp_path / "data" / f"{NAME}.csv"
    assert measured.read_text() == (HERE / "data" / f"{NAME}.csv").read_text()


def test_a_number_that_is_not_the_papers_fails_the_comparison(tmp_path, capsys):
    shutil.copytree(HERE / "data", tmp_path / "data")
    assert main(["compare", "--out", str(tmp_path)]) == 0
    path = tmp_path / "data" / f"{NAME}.csv"
    peak = max(row["liveness_mib"] for row in read(path))
    path.write_text(path.read_text().replace(str(peak), str(peak + 0.01)))
    assert main(["compare", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("DIFFERS") == 1


@pytest.mark.parametrize("measure", [[], ["--measure"]])
def test_a_folder_that_cannot_be_is_one_line(tmp_path, capsys, measure):
    (tmp_path / "file").touch()
    code = main([NAME, "--out", str(tmp_path / "file"), *measure])
    said = capsys.readouterr().err
    assert code in (1, 2) and said.count("\n") == 1 and said.startswith("figures: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# Claims


@pytest.mark.parametrize(
    ("kind", "paper", "here", "fails"),
    [
        ("exact", 1489.355, 1489.3547, False),
        ("exact", 1489.355, 1489.3541, True),  # 1489.354 as the paper prints
        ("exact", 2.0, float("nan"), True),
        ("at most", 2.0, 2.0, False),
        ("at most", 2.0, 2.1, True),
        ("at least", 2.0, 2.0, False),
        ("at least", 2.0, 1.9, True),
        ("hardware", 2.0, 1.0, False),
        ("unexplained", 2.0, 1.0, False),
    ],
)
def test_a_claim_is_compared_as_its_kind_says(kind, paper, here, fails):
    claim = Claim("a number", paper, here, kind)
    assert claim.fails == fails
    assert (claim.verdict == "DIFFERS") == fails


def test_a_claim_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"claim 'a number', kind 'exakt': .*'exact'"):
        Claim("a number", 1.0, 2.0, "exakt")


# Figures of one's own, with mistakes

RIGHT = """
from figures.claims import Claim
from matplotlib.figure import Figure

def measure():
    return [{"a": 1, "b": 2}, {"a": 3, "b": 4}]

def draw(rows):
    return Figure()

def compare(rows):
    return [Claim("the first", 1.0, rows[0]["a"], "exact")]
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a figure ``own_figure`` into a folder that figures are looked for in."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(folder)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder / "own_figure.py"
    sys.modules.pop("figures.own_figure", None)
    vars(figures).pop("own_figure", None)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("return Figure()", "Figure()", "own_figure.draw must return a Figure"),
        ("return [{", "[{", "own_figure.measure must return rows, returned None"),
        ("return [{", "return [] and [{", "must return rows, returned []"),
        ('"a": 3, ', "", "own_figure.measure: row 2 has other keys than the first"),
        ("def compare", "def contrast", "has no function 'compare'"),
        ("return [C", "[C", "own_figure.compare must return a list of claims"),
        ('"exact"', '"exakt"', "kind 'exakt': must be one of 'exact'"),
        ('["a"]', '["c"]', "own_figure.py:12: KeyError: 'c'"),
        ("def draw(rows):", "def draw(rows)", "SyntaxError"),
    ],
)
def test_a_mistake_in_a_figure_is_one_line(own, tmp_path, capsys, old, new, words):
    own.write_text(RIGHT)
    arguments = ["own_figure", "--measure", "--out", str(tmp_path)]
    assert main(arguments) == 0
    sys.modules.pop("figures.own_figure")
    capsys.readouterr()
    assert RIGHT.count(old) == 1
    own.write_text(RIGHT.replace(old, new))
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words in said


def test_a_figure_that_is_broken_does_not_stop_the_others(own, tmp_path, capsys):
    shutil.copytree(HERE / "data", tmp_path / "data")
    (tmp_path / "data" / "own_figure.csv").write_text("a,b\n1,2\n")
    own.write_text("def measure(:")
    assert main([NAME, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["compare", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "own_figure" in said.err
    assert said.out.count("every digit") == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n", "has no rows"), ("a,b\n1\n", "row 1 has other columns than the head")],
)
def test_a_file_of_data_that_is_not_even_is_refused(tmp_path, text, words):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read(path)
