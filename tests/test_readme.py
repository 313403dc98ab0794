"""The README's commands, numbers and paths are true. Its Python runs as doctests."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import snref.planning
from snref.__main__ import _parser, main
from snref.nets import find

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLANNING = {"plan", "compare", "sweep", "fit", "export", "verify", "nets", "cite"}


def commands():
    """Every command line of snref, in the order in which the README has them."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).splitlines() + re.findall(r"`(snref [^`]*)`", README)
    for line in lines:
        _, _, words = line.partition("#")[0].partition("snref ")
        if words and "VERB" not in words and "NET" not in words:
            yield " ".join(words.split())


@pytest.mark.slow
def test_every_command_can_be_typed_and_what_plans_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    found = [*commands()]
    assert {line.split()[0] for line in found} >= {"train", "plan", "verify", "doctor"}
    for line in dict.fromkeys(found):
        words = shlex.split(line)
        if words[0] in PLANNING:
            assert main(words) == 0, line
        elif not line.startswith("--"):  # it computes: parsed only
            _parser(words[0]).parse_args(words)


@pytest.mark.parametrize(
    ("column", "net"),
    [
        (1, find("alexnet", 200)),
        pytest.param(2, find("resnet50", 32), marks=pytest.mark.slow),
    ],
)
def test_the_table_of_presets_has_the_peaks_that_are_planned(column, net):
    rows = re.findall(r"^\| `(\S+)` \|.*\| (.*) \| (.*) \|$", README, re.MULTILINE)
    assert [row[0] for row in rows] == [*snref.planning.PRESET_NAMES]
    for name, *cells in rows:
        cell = cells[column - 1]
        if name == "cache":
            planned = snref.plan(net, preset="baseline")
            least = planned.to_json()["lower_bound_bytes"]
            assert cell == f"from {least / 2**20:.3f} up"
        else:
            planned = snref.plan(net, preset=name)
            assert cell == f"{planned.peak_bytes / 2**20:.3f}", name


def test_the_reading_path_is_about_as_long_as_it_says():
    table = README.partition("## Reading the code")[2]
    rows = re.findall(r"^\| [^|]* \| ([^|]*) \| ([\d,]+) \|$", table, re.MULTILINE)
    assert len(rows) >= 9
    for read, said in rows:
        count = sum(
            lines_of(ROOT / path) for path in re.findall(r"snref/[\w/.]+", read)
        )
        if "ARCHITECTURE" not in read:  # parts of it
            assert 0.8 * count < int(said.replace(",", "")) < 1.2 * count, (read, count)


def lines_of(path):
    files = path.rglob("*.py") if path.is_dir() else [path]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def test_every_path_that_is_named_exists():
    named = set(re.findall(r"[`(]((?:snref|figures|tests|tutorials)/[\w/.]*)", README))
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), path


@pytest.mark.slow
def test_the_first_command_ends_as_the_readme_shows(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "snref", "train", "digits"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = re.search(r"^```text\n(held-out.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    without_hashes = re.compile(r"[0-9a-f]{64}")
    last = "\n".join(done.stdout.splitlines()[-4:]) + "\n"
    accuracy, expected = (
        float(re.search(r"accuracy +([\d.]+)%", text)[1]) for text in (last, shown[1])
    )
    assert abs(accuracy - expected) < 1  # other machines round otherwise
    said, wanted = (
        re.sub(r"[\d.]+%", "", without_hashes.sub("", text))
        for text in (last, shown[1])
    )
    assert said == wanted
    assert "56 % of the device memory" in README
    assert "with the budget 56% of them" in done.stdout
