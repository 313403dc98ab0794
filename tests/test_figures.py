"""The command that measures, draws and compares figures."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import figures
import snref
from figures import (
    budget,
    capacity,
    half_baseline,
    measured,
    planning_time,
    pool,
    quickest,
    reuse,
    splitting,
    throughput,
    wider,
)
from figures.__main__ import main, read
from figures.claims import Claim
from snref.nets import alexnet, lenet
from snref.papers import numbers
from snref.planning.fit import fitted
from snref.plans import Alloc, OutOfMemory

HERE = Path(figures.__file__).parent
NAME = "memory"
GIVEN = {"preset": "superneurons"}, {"policy": "chen"}


def test_a_figure_is_drawn_from_its_data_and_compared_with_the_paper(tmp_path, capsys):
    shutil.copytree(HERE / "data", tmp_path / "data")
    assert main([NAME, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("every digit") == 4 and said.count("not fitted") == 2
    drawn = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert drawn == [f"{NAME}.pdf", f"{NAME}.png"]
    assert f"pictures/{NAME}.png" in (tmp_path / "README.md").read_text()


def test_the_data_of_the_figure_are_what_is_measured(tmp_path):
    assert main([NAME, "--measure", "--out", str(tmp_path)]) == 0
    measured = tmp_path / "data" / f"{NAME}.csv"
    assert measured.read_text() == (HERE / "data" / f"{NAME}.csv").read_text()


def test_a_number_that_is_not_the_papers_fails_the_comparison(tmp_path, capsys):
    shutil.copytree(HERE / "data", tmp_path / "data")
    assert main(["compare", "--out", str(tmp_path)]) == 0
    path = tmp_path / "data" / f"{NAME}.csv"
    peak = max(row["liveness_bytes"] for row in read(path))
    path.write_text(path.read_text().replace(str(peak), str(peak + 2**10)))
    assert main(["compare", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("DIFFERS") == 1


@pytest.mark.slow
def test_all_figures_are_drawn_from_their_data_and_stand_in_the_gallery(tmp_path):
    shutil.copytree(HERE / "data", tmp_path / "data")
    assert main(["--out", str(tmp_path)]) == 0
    pictures = {path.name for path in (tmp_path / "pictures").glob("*.png")}
    assert pictures == {path.name for path in (HERE / "pictures").glob("*.png")}
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    here = (HERE / "README.md").read_text(encoding="utf-8")
    assert page == here, "run python -m figures"
    assert all(f"](pictures/{name})" in page for name in pictures)


def test_a_figure_of_another_net_is_measured_and_drawn(tmp_path, capsys):
    name = "breakdown"
    arguments = [name, "--net", "lenet", "--batch", "2", "--out", str(tmp_path)]
    assert main(arguments) == 0 and "lenet" in (said := capsys.readouterr().out)
    rows = read(tmp_path / "data" / f"{name}_lenet_b2.csv")
    held = snref.plan(lenet(2), preset="baseline").baseline_bytes
    assert sum(row["bytes"] for row in rows) == held
    picture = tmp_path / "pictures" / f"{name}_lenet_b2.png"
    assert picture.is_file() and f", {picture} and .pdf" in said
    assert main(["training", *arguments[1:]]) == 2
    assert "--net is for breakdown, budget, memory, wider" in capsys.readouterr().err


def test_what_is_only_recalled_is_listed_and_never_a_reason_to_fail(capsys):
    main(["compare"])
    listed = capsys.readouterr().out.partition("Recalled, and not confirmed")[2]
    for number in numbers():
        claim = number.beside(number.value + 1e9)
        recalled = number.confirmed == "recalled"
        assert claim.fails == (not recalled and number.kind in ("exact", "at most"))
        assert (f"{number.name:52} {number.printed:>9}" in listed) == recalled


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "breakdown",
        "cache_speed",
        "demand",
        "motivation",
        "recomputation",
        "reuse",
        "transfers",
        "workspaces",
    ],
)
def test_what_follows_from_shapes_is_measured_alike(tmp_path, name):
    assert main([name, "--measure", "--out", str(tmp_path)]) == 0
    measured = tmp_path / "data" / f"{name}.csv"
    assert measured.read_text() == (HERE / "data" / f"{name}.csv").read_text()


@pytest.mark.parametrize("measure", [[], ["--measure"]])
def test_a_folder_that_cannot_be_is_one_line(tmp_path, capsys, measure):
    (tmp_path / "file").touch()
    code = main([NAME, "--out", str(tmp_path / "file"), *measure])
    said = capsys.readouterr().err
    assert code in (1, 2) and said.count("\n") == 1 and said.startswith("figures: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# Claims


@pytest.mark.parametrize(
    ("kind", "paper", "here", "holds"),
    [
        ("exact", 1489.355, 1489.3547, True),
        ("exact", 1489.355, 1489.3541, False),  # 1489.354 as the paper prints
        ("exact", 886.23, 886.23046875, True),
        ("exact", 2.0, float("nan"), False),
        ("at most", 2.0, 2.0, True),
        ("at most", 2.0, 2.1, False),
        ("at least", 2.0, 2.0, True),
        ("at least", 2.0, 1.9, False),
        ("hardware", 2.0, 1.0, True),
    ],
)
def test_a_claim_is_compared_as_its_kind_says(kind, paper, here, holds):
    claim = Claim("a number", paper, here, kind)
    assert claim.holds == holds
    assert (claim.verdict == "DIFFERS") == claim.fails == (not holds)
    unsure = replace(claim, confirmed="recalled")
    assert not unsure.fails and (unsure.verdict == claim.verdict) == holds


def test_a_claim_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"claim 'a number', kind 'exakt': .*'exact'"):
        Claim("a number", 1.0, 2.0, "exakt")
    with pytest.raises(ValueError, match=r"confirmed 'surely': .*'derived'"):
        Claim("a number", 1.0, 2.0, "exact", confirmed="surely")
    with pytest.raises(ValueError, match="no number with"):
        numbers(net="lenet")


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
        ("def draw", "def drawn", "has no function 'draw'"),
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
    (broken,) = (li for li in said.err.splitlines() if "not measured" not in li)
    assert "own_figure" in broken and said.out.count("every digit") >= 3


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n", "has no rows"), ("a,b\n1\n", "row 1 has other columns than the head")],
)
def test_a_file_of_data_that_is_not_even_is_refused(tmp_path, text, words):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read(path)


# Measurements that take long

LONG = """
from figures.claims import Claim
from matplotlib.figure import Figure

def search(rows):
    for n in range(len(rows), 4):
        if n == 2 and len(rows) < 2:
            raise RuntimeError("stopped")
        yield {"n": n}

def text(rows):
    return f"{len(rows)} rows"

def draw(rows):
    return Figure()

def compare(rows):
    return []
"""


def test_a_long_measurement_goes_on_where_it_stopped(own, tmp_path, capsys):
    own.write_text(LONG)
    arguments = ["own_figure", "--out", str(tmp_path), "--measure", "long"]
    path = tmp_path / "data" / "own_figure.csv"
    assert main(arguments[:4]) == 2 and "--measure long" in capsys.readouterr().err
    assert main(arguments) == 2 and "RuntimeError: stopped" in capsys.readouterr().err
    assert read(path) == [{"n": 0}, {"n": 1}]
    assert main(arguments) == 0 and "\n4 rows\n" in capsys.readouterr().out
    assert read(path) == [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}]
    heads = [line for line in path.read_text().splitlines() if line[0] == "#"]
    assert len(heads) == 1 and "snref" in heads[0] and "commit" in heads[0]


def test_the_largest_nets_are_searched_once_and_a_missing_search_is_marked(monkeypatch):
    (paper,) = numbers(net="alexnet", plan="superneurons", what="largest batch")
    surely = replace(paper, net="lenet", confirmed="yes")
    monkeypatch.setattr(capacity, "PAPER", {"lenet": surely})
    monkeypatch.setattr(capacity, "MEMORY", {"12 GiB": 12 * 10**6})
    monkeypatch.setattr(capacity, "PLANNERS", ("least time", "superneurons", "chen"))
    rows = []
    for row in capacity.search([]):
        rows.append(row)
        if len(rows) == 5:  # of 6
            break
    assert [row["planner"] for row in rows[::2]] == [
        "least time",
        "superneurons",
        "chen",
    ]
    assert capacity.text(rows).count("not run") == 2  # one, and what that means
    for row in rows:
        assert row["largest"] == largest_batch(row["planner"])
        assert row["refused"] == row["largest"] + 1
    roughly = {**rows[0], "refused": rows[0]["largest"] + 2}
    assert f" {rows[0]['largest']}+" in capacity.text([roughly])
    assert " none" in capacity.text([{**rows[0], "largest": 0}])
    last = [*capacity.search(rows)]
    assert len(last) == 1 and last[0]["host"] == "128 GB"
    claims = capacity.compare([*rows, *last])
    assert [claim.fails for claim in claims] == [True, False]  # too little memory


def test_the_figure_of_reuse_counts_each_of_caffe_s_blobs_twice():
    """MiB of an image's blobs, and of the parameters, derived by hand from shapes."""
    by_hand = {"vgg16": (57.55, 527.8), "vgg19": (62.53, 548.0)}
    for net, expected in by_hand.items():
        one, two = (reuse._caffe(net, batch, "momentum") / 2**20 for batch in (1, 2))
        image = (3 * reuse.NETS[net] ** 2 + 1) * 4 / 2**20  # and its label
        blobs, parameters = (two - one - image) / 2, (2 * one - two) / 3
        assert (blobs, parameters) == pytest.approx(expected, rel=2e-4)


def largest_batch(planner):
    """The largest batch of LeNet in 12 MB, by trying them all."""

    def fits(batch):
        try:
            fitted(
                lenet(batch),
                12 * 10**6,
                preset=planner if planner == "superneurons" else None,
                policy=planner if planner == "chen" else None,
                effort=0.01,
            )
        except OutOfMemory:
            return False
        return True

    batch = 1
    while fits(batch + 1):
        batch += 1
    return batch


def test_the_quickest_plans_stand_beside_their_bounds(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(quickest, "NETS", {"lenet": 8})
    monkeypatch.setattr(quickest, "MACHINES", ("k40c",))
    monkeypatch.setattr(quickest, "SLABS", 3)
    monkeypatch.setattr(quickest, "EFFORTS", (0.01, 0.05))
    rows = [*quickest.search([])]
    assert len(rows) == 6 and [*quickest.search(rows)] == []
    assert next(quickest.search(rows[:4]))["slab"] == 1
    for row in rows:
        causes = sum(row[cause] for cause in quickest.CAUSES) - 2 * row["unavoidable"]
        assert causes == pytest.approx(row["seconds"] - row["bound"], abs=4e-6)
        assert row["seconds"] >= row["bound"] > 0
    assert [row["share"] for row in rows][2::3] == [1.0, 1.0]
    assert quickest.text(rows[:5]).count("not run") == 1
    far = {**rows[0], "share": 0.29, "times_bound": 1.1001, "net": "far"}
    near = {**rows[0], "share": 0.3, "times_bound": 1.05, "net": "near"}
    said = quickest.text([far, near])
    assert "far " in said and "near " not in said


def test_half_of_the_baselines_memory_stands_beside_no_limit(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(half_baseline, "NETS", {"alexnet": 2})
    rows = [*half_baseline.search([])]
    assert [*half_baseline.search(rows)] == [] and len(rows) == 1
    baseline = snref.plan(alexnet(2), preset="baseline").baseline_bytes
    assert rows[0]["slab_mib"] == round(baseline / 2 / 2**20, 3)
    assert rows[0]["ratio"] >= max(1, rows[0]["bound_ratio"]) > 0
    assert f"{rows[0]['ratio']:.3f}" in half_baseline.text(rows)


def test_parts_of_the_batch_lower_the_least_memory_or_say_what_limits(monkeypatch):
    monkeypatch.setattr(splitting, "NETS", {"lenet": 64, "gpt2": 2})
    monkeypatch.setattr(splitting, "COUNTS", (1, 2))
    monkeypatch.setattr(splitting, "EFFORT", 0.01)
    rows = [*splitting.search([])]
    assert [*splitting.search(rows)] == [] and len(rows) == 8
    whole, halved, *_, same = rows
    assert halved["slab_mib"] < whole["slab_mib"] and halved["parts"] == 2
    assert halved["data_mib"] <= halved["slab_mib"] < halved["total_mib"]
    assert same["split"] == "nothing" and same["limit"].startswith("softmax")
    assert "gpt2 not at all (softmax" in splitting.caption(rows)
    assert "2 parts of" in splitting.text(rows)
    assert "joint (declarations reuse)" in splitting.text(rows)


@pytest.mark.slow
def test_the_budget_curve_of_another_net_has_a_bound_and_ranks(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(budget, "PLANNERS", ("liveness", "cache", "chen", "least time"))
    monkeypatch.setattr(budget, "BUDGETS", 3)
    rows = budget.measure_net("alexnet", 2)
    assert len(rows) == 12 and [*budget._search(alexnet(2), "alexnet", rows)] == []
    for row in rows:
        if row["planner"] == "least time":
            assert 0 < row["bound_seconds"] <= row["seconds k40c"]
            fit = fitted(alexnet(2), row["memory_bytes"])
            assert row["seconds k40c"] == round(fit.seconds, 6)
    assert rows[0]["seconds k40c"] == ""  # liveness alone, in the least memory
    assert "liveness " in budget.text(rows) and budget.draw(rows).axes
    last = [row for row in rows if row["memory_bytes"] == rows[-1]["memory_bytes"]]
    ranks = budget._ranks(rows, last[0]["memory_bytes"])
    order = sorted(last, key=lambda row: row["seconds k40c"])
    assert [*ranks[0]] == [row["planner"] for row in order]
    assert "of 4 planners" in budget.caption([{**r, "memory_bytes": 0} for r in last])


def test_images_a_second_are_of_the_plan_that_fits(monkeypatch):
    monkeypatch.setattr(throughput, "BATCHES", {"lenet": (8, 64)})
    monkeypatch.setattr(throughput, "PLANNERS", ("caffe", "cache", "least time"))
    monkeypatch.setattr(throughput, "MEMORY", 13_000_000)
    rows = [*throughput.search([])]
    assert len(rows) == 12 and [*throughput.search(rows[:11])] == [rows[11]]
    found = {throughput._key(row): row["modelled_images_per_second"] for row in rows}
    assert found["caffe", "lenet", "k40c", 64] == ""  # everything held
    fit = fitted(lenet(64), 13_000_000, preset="cache", device="virtual:titanxp")
    speed = round(fit.images_per_second, 2)
    assert found["cache", "lenet", "titanxp", 64] == speed
    assert "none fits" in throughput.text([r for r in rows if r["batch"] == 64])


def test_the_largest_batch_of_another_net_is_the_last_that_fits(monkeypatch):
    monkeypatch.setattr(wider, "PLANNERS", ("superneurons", "chen"))
    monkeypatch.setattr(wider, "GIBS", (1,))
    rows = wider.measure_net("alexnet", None)
    assert [*wider._search("alexnet", rows)] == []
    for row, given in zip(rows, GIVEN, strict=True):
        assert fitted(alexnet(row["batch"]), 1 << 30, **given).total_bytes <= 1 << 30
        with pytest.raises(OutOfMemory):
            fitted(alexnet(row["batch"] + 1), 1 << 30, **given)
    assert f"{rows[1]['batch']} by chen" in wider.caption(rows)
    beyond = [{**row, "batch": wider.LIMIT} for row in rows]
    assert "16384 or more by chen" in wider.caption(beyond)
    assert wider.text(beyond).count("16384 or more") == 3


def test_the_pool_plays_the_allocations_of_a_plan(monkeypatch):
    monkeypatch.setattr(pool, "NETS", {"lenet": 4})
    monkeypatch.setattr(pool, "ROUNDS", 1)
    rows = [*pool.search([])]
    assert [*pool.search(rows)] == [] and len(rows) == 1
    planned = snref.plan(lenet(4), preset="superneurons")
    allocated = [s for s in planned.plan.steps if isinstance(s, Alloc)]
    assert rows[0]["allocations"] == len(allocated)
    assert rows[0]["pool_extent_bytes"] >= rows[0]["peak_bytes"]
    assert rows[0]["peak_bytes"] >= planned.peak_bytes  # and workspaces
    assert pool.compare(rows) == []  # of a host's allocator, or of another net


@pytest.mark.slow
def test_peaks_on_the_cpu_device_are_those_predicted(monkeypatch):
    monkeypatch.setattr(measured, "NETS", {"digits": 8})
    monkeypatch.setattr(measured, "ITERATIONS", 1)
    rows = [*measured.search([])]
    assert [*measured.search(rows)] == []
    assert [row["preset"] for row in rows] == [*measured.PRESETS]
    assert all(row["predicted_bytes"] == row["measured_bytes"] for row in rows)
    assert measured.caption(rows).startswith("On the CPU device, 5 of 5 peaks")


def test_the_time_of_each_stage_is_a_row_and_a_depth_is_a_column(monkeypatch):
    monkeypatch.setattr(planning_time, "BLOCKS", (1, 2))
    monkeypatch.setattr(planning_time, "ROUNDS", 1)
    rows = [*planning_time.search([])]
    assert [*planning_time.search(rows)] == []
    assert {"route", "verification", "summary", "all"} <= {r["stage"] for r in rows}
    assert all(row["blocks_1"] >= 0 and row["blocks_2"] >= 0 for row in rows)
    assert (
        planning_time.draw(rows).axes[0].get_yticklabels()[1].get_text() == "2 blocks"
    )
