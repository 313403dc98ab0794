"""``snref verify``: addresses, limits of memory, and what stands in files twice."""

import json

import pytest

import snref
from snref.__main__ import main


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    """A folder with the graph and a plan of LeNet, the plan also without addresses."""
    monkeypatch.chdir(tmp_path)
    main(["export", "lenet", "--batch", "4", "--out", "graph.json"])
    main(["plan", "lenet", "--batch", "4", "--steps", "--json", "plan.json"])
    plan = json.loads((tmp_path / "plan.json").read_text())
    for step in plan["steps"]:
        step.pop("offset", None)
    (tmp_path / "unplaced.json").write_text(json.dumps(plan))
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def verified(folder, capsys):
    """Run ``snref verify``: (exit code, its report or None, what it says)."""

    def run(line):
        words = ["verify", *line.split(), "--json", "verdict.json"]
        try:
            code = main(words)
        except SystemExit as exit:  # argparse's own
            code = exit.code
        said = capsys.readouterr()
        verdict = folder / "verdict.json"
        report = json.loads(verdict.read_text()) if verdict.exists() else None
        verdict.unlink(missing_ok=True)
        return code, report, said.out + said.err

    return run


def test_a_plan_without_addresses_has_no_extent_until_it_is_placed(verified):
    code, report, said = verified("graph.json unplaced.json")
    assert code == 0 and "--place gives them" in said
    assert report["extent_bytes"] is None and report["total_bytes"] is None
    code, placed, said = verified("graph.json unplaced.json --place")
    assert code == 0 and "--place" not in said
    assert placed["extent_bytes"] >= placed["peak_with_workspace_bytes"] > 0
    for name in "peak_bytes", "host_bytes", "lower_bound_bytes":
        assert placed[name] == report[name]


def test_a_plan_that_was_written_without_steps_says_how_to_have_them(verified, folder):
    plan = json.loads((folder / "plan.json").read_text())
    del plan["steps"]
    (folder / "short.json").write_text(json.dumps(plan))
    code, _, said = verified("graph.json short.json")
    assert code == 2 and "short.json: has no steps" in said and "--steps" in said


def test_a_plan_for_other_declarations_says_how_its_net_is_exported(verified, folder):
    plan = ["plan", "lenet", "--preset", "joint", "--steps", "--json", "joint.json"]
    assert main(plan) == 0
    code, _, said = verified("graph.json joint.json")
    assert code == 2 and "exported with --declarations reuse --fork share" in said
    export = ["export", "lenet", "--declarations", "reuse", "--out", "reuse.json"]
    assert main(export) == 0
    assert verified("reuse.json joint.json")[0] == 0


def test_a_limit_needs_addresses(verified):
    for limit in "--slab 1GiB", "--memory 1GiB":
        code, _, said = verified(f"graph.json unplaced.json {limit}")
        assert code == 2 and "unplaced.json: has no addresses" in said
        assert verified(f"graph.json unplaced.json --place {limit}")[0] == 0
    code, _, said = verified("graph.json plan.json --place")
    assert code == 2 and "plan.json: has addresses already" in said


def test_the_limits_are_met_exactly_and_zero_is_a_limit(verified):
    planned = snref.plan(snref.nets.lenet(batch=4))
    extent = planned.to_json()["extent_bytes"]
    for limit, enough in {
        "--slab": extent,
        "--memory": planned.total_bytes,
        "--host-memory": planned.to_json()["host_bytes"],
    }.items():
        code, report, _ = verified(f"graph.json plan.json {limit} {enough}")
        assert code == 0 and report["total_bytes"] == planned.total_bytes
        for less in enough - 1, 0:
            code, _, said = verified(f"graph.json plan.json {limit} {less}")
            assert code == 1 and f"{less}" in said, said
    code, _, said = verified("graph.json plan.json --memory 1KB")
    assert f"the least --memory that works is {planned.total_bytes}" in said
    assert verified("graph.json plan.json --memory 1GB --slab 1GB")[0] == 2


def test_a_placed_plan_that_does_not_fit_is_refused(verified):
    code, _, said = verified("graph.json unplaced.json --place --slab 1KB")
    assert code == 1 and "invalid plan: steps[0]" in said
    code, _, said = verified("graph.json unplaced.json --place --memory 1KB")
    assert code == 1 and "the least --memory that works" in said


def test_an_invalid_plan_is_not_placed(verified, folder):
    plan = json.loads((folder / "unplaced.json").read_text())
    del plan["steps"][0]
    (folder / "unplaced.json").write_text(json.dumps(plan))
    code, _, said = verified("graph.json unplaced.json --place")
    assert code == 1 and "which is not allocated" in said


@pytest.mark.parametrize("name", ["graph.json", "plan.json"])
def test_a_key_that_is_there_twice_is_refused(verified, folder, name):
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace('"batch": 4', '"batch": 2, "batch": 4'))
    code, _, said = verified("graph.json plan.json")
    assert code == 2 and f"{name}: not JSON: an object has two members 'batch'" in said


def test_kernels_of_other_modules_are_only_names_in_a_graph(verified, folder):
    graph = json.loads((folder / "graph.json").read_text())
    (folder / "mine.py").write_text("raise SystemExit('was imported')")
    pieces = [piece for run in graph["route"] for piece in run["work"]]
    named = [piece for piece in pieces if "kernel" in piece]
    for piece in named:
        piece["kernel"] = "mine:kernel"
    (folder / "graph.json").write_text(json.dumps(graph))
    assert named and verified("graph.json plan.json")[0] == 0
