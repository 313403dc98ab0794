"""``snref compare``: planners, plans and nets in one table, and on which terms."""

import csv
import io
import json
import sys
import time

import pytest

import snref
from snref.__main__ import main
from snref.commands import progress
from snref.commands.progress import Progress, elapsed
from snref.nets import find
from snref.planning.candidates import VARIATIONS, moved
from snref.plans import OutOfMemory, extent, lower_bound
from snref.policies import POLICIES

SAVINGS = "declarations", "fork", "overwrite", "algorithms"


@pytest.fixture
def compare(capsys):
    """Compare, and return the rows of the table by the name of the plan."""

    def run(line):
        assert main(["compare", *line.split(), "--csv", "-"]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return {row["plan"]: row for row in csv.DictReader(io.StringIO(said.out))}

    return run


def refused(capsys, line):
    """Compare in vain, and return the line that says why."""
    assert main(["compare", *line.split()]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


def test_presets_and_policies_stand_beside_each_other_with_their_terms(compare):
    rows = compare("lenet --batch 8")
    optima = {name for name, known in POLICIES.items() if known.is_optimum}
    by_name = {"reuse"}  # other declarations: a table of its own terms
    assert {*snref.PRESETS, *POLICIES} - optima - by_name <= set(rows)
    assert not by_name & set(rows)
    assert not optima & set(rows)
    for name, row in rows.items():
        assert row["declarations"] == "original" and row["fork"] == "copy"
        known = POLICIES.get(name)
        assert row["overwrite"] == (known.overwrite if known else "gradients")
        assert row["algorithms"] == (known.algorithms if known else "exact")


def test_what_needs_other_declarations_is_compared_by_name_on_its_terms(compare):
    rows = compare("alexnet --batch 200 --policy joint,reuse,chen --vary")
    for name, declarations, peak in (
        ("joint", "reuse", 443.115),
        ("reuse", "static", 1034.045),
    ):
        row = rows[name]
        own = [row[term] for term in ("declarations", "fork", "overwrite")]
        assert own == [declarations, "share", "activations"]
        assert float(row["peak MiB"]) == pytest.approx(peak, abs=1e-3)
        assert all(row[variant] for variant in VARIATIONS)
    assert rows["chen"]["declarations"] == "original"


def test_all_policies_are_compared_by_the_name_all(compare):
    assert set(POLICIES) <= set(compare("lenet --batch 8 --policy all"))


@pytest.mark.parametrize(
    ("given", "overwrite", "algorithms"),
    [
        ("--common", "gradients", "exact"),
        ("--overwrite never", "never", None),
        ("--common --overwrite never --algorithms fastest", "never", "fastest"),
    ],
)
def test_common_terms_hold_for_all(compare, given, overwrite, algorithms):
    apart = compare("alexnet --batch 8 --policy dtr,chen,vdnn-all")
    rows = compare(f"alexnet --batch 8 --policy dtr,chen,vdnn-all {given}")
    assert {row["overwrite"] for row in rows.values()} == {overwrite}
    if algorithms:
        assert {row["algorithms"] for row in rows.values()} == {algorithms}
    # They are not only said: in place, DTR's plan needs less.
    dtr, before = (float(r["dtr"]["peak MiB"]) for r in (rows, apart))
    assert (dtr < before) == (overwrite == "gradients")


@pytest.mark.parametrize("terms", ["", "--common", "--overwrite never"])
@pytest.mark.parametrize("memory", ["700MB", "800MB", "1GB"])
def test_nothing_of_ours_on_the_same_terms_is_quicker_than_least_time(
    compare, memory, terms
):
    rows = compare(f"alexnet --batch 32 --memory {memory} {terms}")
    best = rows["least time"]
    for name, row in rows.items():
        if [row[term] for term in SAVINGS] != [best[term] for term in SAVINGS]:
            assert row["times least time"] == ""
        elif row["seconds"]:
            assert float(row["times least time"]) >= 1, name


@pytest.mark.slow
def test_what_does_not_fit_or_not_apply_is_a_row_that_says_why(compare):
    row = compare("resnet50 --batch 2 --memory 400MB --policy checkmate,baseline")
    assert "does not fit: least" in row["baseline"]["at step"]
    assert "at most 50 runs" in row["checkmate"]["at step"]
    assert row["checkmate"]["seconds"] == row["baseline"]["seconds"] == ""


def test_the_text_leaves_out_terms_that_all_share_and_is_not_wide(capsys):
    assert main(["compare", "alexnet", "--batch", "8", "--policy", "dtr,chen"]) == 0
    said = capsys.readouterr().out
    head, table, *_ = said.split("\n\n")
    assert "declarations original, fork copy, algorithms exact; first fit: " in head
    assert "overwrite" in table and "declarations" not in table
    assert max(map(len, table.splitlines())) < 140
    assert "only where memory is short: dtr.\n" in said


def test_policies_that_act_only_under_a_limit_are_marked():
    net = find("alexnet", 8)
    fixed = snref.plan(net).total_bytes - extent(snref.plan(net).plan)
    tight = fixed + int(2 * lower_bound(snref.plan(net).plan))
    for name, known in POLICIES.items():
        if known.is_optimum:
            continue
        free = snref.plan(net, policy=name)
        acts = free.offload_bytes + free.extra_forwards > 0
        try:
            less = snref.plan(net, policy=name, memory=tight)
            under = less.offload_bytes + less.extra_forwards > 0
        except OutOfMemory:
            under = False
        assert known.idles == (not acts and under), name


# Plans in JSON


@pytest.fixture
def exported(tmp_path, capsys):
    path = tmp_path / "plan.json"
    line = f"plan alexnet --batch 8 --preset superneurons --steps --json {path}"
    assert main(line.split()) == 0
    capsys.readouterr()
    return path


def test_a_plan_in_json_is_a_row(compare, exported):
    rows = compare(f"alexnet --batch 8 --policy superneurons --plan {exported}")
    for column in "peak MiB", "extent MiB", "seconds", "extra forwards", *SAVINGS:
        assert rows[str(exported)][column] == rows["superneurons"][column]


@pytest.mark.parametrize(
    ("net", "why"),
    [
        ("alexnet --batch 9", "batch"),
        ("lenet --batch 8", "plan.json"),
        ("alexnet --batch 8 --fork share", "fork"),
        ("alexnet lenet --batch 8", "one NET"),
    ],
)
def test_a_plan_for_another_net_is_refused(capsys, exported, net, why):
    assert why in refused(capsys, f"{net} --plan {exported}")


def test_a_file_that_is_no_plan_is_refused(capsys, tmp_path):
    for text in "", "{}", "[]", '{"options": 3}', '{"batch": [4], "steps": []}':
        (tmp_path / "no.json").write_text(text)
        assert "no.json" in refused(capsys, f"lenet --plan {tmp_path / 'no.json'}")
    assert "no.xml" in refused(capsys, f"lenet --plan {tmp_path / 'no.xml'}")


def test_a_name_that_nobody_has_is_refused_with_those_there_are(capsys):
    said = refused(capsys, "lenet --policy chen,vdn")
    assert "vdn" in said and "vdnn-dyn" in said and "superneurons" in said


# Other machines, several nets


def test_ranks_that_depend_on_the_machine_are_marked(compare, capsys):
    rows = compare("alexnet --batch 8 --vary")
    assert set(VARIATIONS) <= set(rows["offload"])
    slow, fast = (
        float(rows["vdnn-all"][f"link x {x}"].split()[0]) for x in (0.75, 1.25)
    )
    assert fast < float(rows["vdnn-all"]["seconds"]) < slow
    # Nothing is copied by ``baseline``: only the bandwidth changes its seconds.
    copyless = rows["baseline"]
    assert copyless["link x 0.75"].split()[0] == f"{float(copyless['seconds']):.4g}"
    assert main(["compare", "alexnet", "--batch", "8", "--vary", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    before = {
        name: entry["modelled"]["seconds"] for name, entry in report["plans"].items()
    }
    for name, after in report["seconds_on_other_machines"].items():
        marked = {plan for plan, row in rows.items() if row[name].endswith("*")}
        assert marked == moved(before, after)
    assert "omit --costs" in refused(capsys, "lenet --vary --costs costs.csv")


def test_several_nets_are_one_table(capsys):
    line = "compare lenet alexnet --batch 4 --policy chen --json -"
    assert main(line.split()) == 0
    report = json.loads(capsys.readouterr().out)
    assert [c["net"] for c in report["comparisons"]] == ["lenet", "alexnet"]
    assert main([*line.split()[:-2], "--csv", "-"]) == 0
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert {(row["net"], row["batch"]) for row in rows} == {
        ("lenet", "4"),
        ("alexnet", "4"),
    }
    assert len(rows) == sum(len(c["plans"]) for c in report["comparisons"])


# Progress


def test_progress_rewrites_a_line_of_a_terminal_and_clears_it(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("compare", 2) as progress:
        progress.pause = -1.0
        progress.show("lenet: chen")
        progress.show("lenet: dtr")
    said = capsys.readouterr().err
    assert said.split("\r")[1].startswith("compare: 1 of 2: lenet: chen")
    assert said.split("\r")[2].startswith("compare: 2 of 2: lenet: dtr ")
    assert said.endswith("\r") and said.split("\r")[-2].strip() == ""


def test_progress_of_a_short_command_says_nothing_elsewhere(capsys):
    with Progress("compare", 1) as progress:
        progress.show("lenet: chen")
    assert capsys.readouterr().err == ""


def test_a_long_wait_counts_its_seconds_on_a_terminal_and_clears_them(
    monkeypatch, capsys
):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with elapsed("plan"):
        pass
    assert capsys.readouterr().err == ""  # is no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with elapsed("plan"):
        time.sleep(1.2)
    said = capsys.readouterr().err
    assert said.startswith("\rplan: 1 s") and said.endswith(" \r")


@pytest.mark.slow
def test_twelve_nets_with_all_planners_are_one_table(capsys):
    nets = (
        "lenet alexnet vgg16 vgg19 resnet50 resnet101 resnet152 inception_v4 "
        "densenet121 unet gpt2 digits"
    )
    assert main(f"compare {nets} --batch 4 --csv -".split()) == 0
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert len({row["net"] for row in rows}) == 12
