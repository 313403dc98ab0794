"""``snref sweep``: planners in less and less memory."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

import snref
from snref.__main__ import main
from snref.commands.sweep import EXAMPLE, budgets
from snref.nets import find
from snref.planning.candidates import VARIATIONS, moved
from snref.plans import extent, lower_bound


@pytest.fixture
def sweep(capsys):
    """Sweep, and return the rows of the table."""

    def run(line, code=0, err=""):
        assert main(["sweep", *line.split(), "--csv", "-"]) == code
        said = capsys.readouterr()
        assert said.err == err
        return [*csv.DictReader(io.StringIO(said.out))]

    return run


@pytest.mark.slow
def test_there_is_a_row_for_each_planner_and_size(sweep):
    line = "alexnet --batch 8 --policy chen,cache,least-time --memory 800MB:900MB:3"
    rows = sweep(line)
    assert [(row["memory"], row["plan"]) for row in rows] == [
        (str(size), name)
        for size in (800_000_000, 850_000_000, 900_000_000)
        for name in ("chen", "cache", "least time")
    ]
    for row in rows:
        name, memory = row["plan"], int(row["memory"])
        given = {"policy": name} if name == "chen" else {"preset": name}
        planned = snref.plan(
            find("alexnet", 8),
            memory=memory,
            **({} if name == "least time" else given),
        )
        assert float(row["seconds"]) == planned.timeline.seconds
        assert float(row["total MiB"]) * 2**20 == planned.total_bytes <= memory
        assert (row["overwrite"], row["algorithms"]) == ("gradients", "exact")


@pytest.mark.slow
def test_the_sizes_go_by_default_from_the_least_to_what_liveness_needs(sweep):
    rows = sweep("alexnet --batch 8 --policy liveness,least-time")
    quickest = [row for row in rows if row["plan"] == "least time"]
    freed = snref.plan(find("alexnet", 8), preset="liveness")
    resident = freed.total_bytes - extent(freed.plan)
    assert int(quickest[0]["memory"]) == resident + lower_bound(freed.plan)
    assert int(quickest[-1]["memory"]) == freed.total_bytes
    assert all(row["seconds"] for row in quickest)
    times = [float(row["times no limit"]) for row in quickest]
    assert times == sorted(times, reverse=True) and times[-1] >= 1
    *tight, full = (row for row in rows if row["plan"] == "liveness")
    assert full["seconds"] and not any(row["seconds"] for row in tight)
    assert str(freed.total_bytes) in tight[0]["why not"]


def test_common_terms_and_a_plan_in_json(sweep, tmp_path, capsys):
    path = tmp_path / "plan.json"
    line = f"plan lenet --preset superneurons --steps --json {path}"
    assert main(line.split()) == 0
    capsys.readouterr()
    rows = sweep(
        f"lenet --policy dtr,chen --plan {path} --memory 9MB:11MB:2 --overwrite never"
    )
    assert len(rows) == 6
    terms = {row["overwrite"] for row in rows if row["plan"] != str(path)}
    assert terms == {"never"}


def test_the_host_s_memory_is_a_limit(sweep):
    line = "alexnet --batch 8 --policy vdnn-all --memory 800MB:900MB:2 --host-memory"
    rows = sweep(f"{line} 1MB", 1, "snref: nothing fits\n")
    assert len(rows) == 2 and all("--host-memory" in row["why not"] for row in rows)
    assert all(float(row["host MiB"]) <= 60 for row in sweep(f"{line} 60MiB"))


def test_json_has_the_points_and_the_machine(capsys):
    line = "sweep lenet --policy chen,baseline --memory 8MB:9MB:2 --json -"
    assert main(line.split()) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "snref.sweep/1" and len(report["points"]) == 4
    for point in report["points"]:
        assert point["fits"] == ("modelled" in point) != ("why" in point)
        if point["fits"]:
            assert point["total_bytes"] <= point["memory_bytes"]
            assert point["modelled"]["seconds"] >= report["seconds_without_limit"]


@pytest.mark.parametrize(
    ("ending", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_a_picture_is_drawn_by_the_file_s_ending(capsys, tmp_path, ending, begins):
    path = tmp_path / f"picture.{ending}"
    line = f"sweep lenet --policy chen,least-time --memory 9MB:11MB:3 --out {path}"
    assert main(line.split()) == 0
    assert path.read_bytes().startswith(begins)
    assert "least time" in capsys.readouterr().out


@pytest.mark.slow
def test_everything_fits_in_the_examples(sweep):
    readme = Path(snref.__file__).parents[1] / "README.md"
    typed = re.findall(r"^snref (sweep .*) --out sweep.png", readme.read_text(), re.M)
    for line in *typed, EXAMPLE.removeprefix("snref "):
        assert all(row["seconds"] for row in sweep(line.removeprefix("sweep ")))
    assert len(typed) == 1


def test_where_nothing_fits_there_is_no_picture(capsys, tmp_path):
    path = tmp_path / "picture.png"
    line = f"sweep lenet --policy chen --memory 10KB:20KB:2 --out {path}"
    assert main(line.split()) == 1
    said = capsys.readouterr()
    assert said.err == "snref: nothing fits; no picture\n" and not path.exists()
    assert said.out.count("does not fit: the least --memory that works is") == 2


def test_ranks_that_depend_on_the_machine_are_marked(sweep, capsys):
    line = "alexnet --batch 8 --policy chen,vdnn-all --memory 850MB:900MB:2 --vary"
    rows = sweep(line)
    assert main(["sweep", *line.split(), "--json", "-"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert len(points) == len(rows) == 4
    for memory in {point["memory_bytes"] for point in points}:
        here = {p["plan"]: p for p in points if p["memory_bytes"] == memory}
        before = {name: p["modelled"]["seconds"] for name, p in here.items()}
        for machine in VARIATIONS:
            after = {
                n: p["seconds_on_other_machines"][machine] for n, p in here.items()
            }
            marked = {
                row["plan"]
                for row in rows
                if row["memory"] == str(memory) and row[machine].endswith("*")
            }
            assert marked == moved(before, after)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("--memory 1GB", "LO:HI:N"),
        ("--memory 1GB:2GB:many", "LO:HI:N"),
        ("--memory 2GB:1GB:3", "LO must be below HI"),
        ("--memory 1GB:2GB:1", "N from 2"),
        ("--memory 1GB:2GB:1001", "to 1000"),
        ("--out picture.txt", ".png"),
        ("--policy nobody", "nobody"),
        ("--vary --costs costs.csv", "omit --costs"),
        ("--plan there/is/none.json", "none.json"),
        ("--policy chen --declarations reuse", "must be original or lean"),
    ],
)
def test_wrong_use_is_a_line_that_says_what_is_right(capsys, given, why):
    try:
        code = main(["sweep", "lenet", *given.split()])
    except SystemExit as exit:
        code = exit.code
    said = capsys.readouterr()
    assert code == 2 and said.out == ""
    assert why in said.err and said.err.count("\n") == 1


def test_sizes_are_evenly_apart_and_both_ends_belong_to_them():
    assert budgets("1KB:1.9KB:4") == [1000, 1300, 1600, 1900]
