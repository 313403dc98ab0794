"""The command that measures, draws and compares figures."""

import shutil
from pathlib import Path

import pytest

import figures
from figures.__main__ import main, read

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
