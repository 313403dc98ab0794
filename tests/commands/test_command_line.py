"""The command line: what it prints, what it writes, and how it fails."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import snref
from snref.__main__ import _parser, main
from snref.commands import VERBS, compare
from snref.nets import NAMES
from snref.papers import numbers

PLANNING = {"plan", "compare", "sweep", "export", "verify", "nets", "cite"}
ROOT = Path(snref.__file__).parents[1]


@pytest.fixture
def command(capsys):
    """Run a command line in this process: (exit code, output, errors)."""

    def run(line):
        try:
            code = main(line.split())
        except SystemExit as exit:  # argparse's own
            code = exit.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def process(line, **more):
    """Run a command line in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, *line.split()],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        timeout=60,
        check=False,
        **more,
    )


# What it prints


def test_plan_prints_the_papers_number(command):
    code, out, err = command("plan alexnet --batch 200")
    assert (code, err) == (0, "")
    assert "23 layers, 36 tensors, 46 steps" in out
    assert "886.230" in out and "lrn1 backward" in out and "a model" in out


def test_plan_prints_its_steps_when_asked(command):
    _, out, _ = command("plan lenet --preset liveness --steps")
    assert "\n    1  forward   conv1  -> conv1.y" in out
    assert "\n       free      conv1.y" in out


def test_the_steps_have_the_numbers_of_the_summary(command):
    _, out, _ = command("plan alexnet --batch 200 --steps")
    assert "step 44, lrn1 backward" in out
    assert "\n   44  backward  lrn1  " in out
    assert "\n   46  backward  " in out and "\n   47  " not in out


def test_json_on_standard_output_is_all_there_is(command):
    code, out, _ = command("plan alexnet --batch 200 --preset liveness --json -")
    report = json.loads(out)
    assert code == 0 and report["peak_bytes"] == 1561702400
    assert report["options"]["recompute"] is None


def test_single_options_override_those_of_the_preset(command):
    line = "plan resnet50 --batch 32 --preset speed-centric --transfers demand"
    _, out, _ = command(f"{line} --fork copy --json -")
    report = json.loads(out)
    assert report["peak_bytes"] == 455.125 * 2**20
    assert report["extra_forwards"] == 84
    _, out, _ = command("plan alexnet --recompute off --declarations lean --json -")
    options = json.loads(out)["options"]
    assert (options["recompute"], options["fork"]) == (None, "share")


def test_memory_by_step_is_written_as_csv_and_latex(command, tmp_path):
    line = f"plan lenet --csv {tmp_path / 'steps.csv'} --latex {tmp_path / 'steps.tex'}"
    code, out, _ = command(line)
    assert code == 0 and "lenet" in out
    rows = list(csv.DictReader((tmp_path / "steps.csv").open(newline="")))
    assert [row["step"] for row in rows] == [str(i) for i in range(1, 17)]
    assert (tmp_path / "steps.tex").read_text().startswith(r"\begin{tabular}{rllrr}")


def test_compare_puts_the_papers_numbers_beside_ours_and_fits_none(command):
    code, out, _ = command("compare alexnet --batch 200 --json -")
    report = json.loads(out)
    assert code == 0
    for claim in report["paper"]:
        digits = len(str(claim["paper"]).partition(".")[2])
        agrees = abs(claim["here"] - claim["paper"]) <= 0.5 * 10**-digits
        assert claim["explained"] == agrees, claim
    unexplained = {c["paper"] for c in report["paper"] if not c["explained"]}
    assert unexplained == {1132.155, 886.385}
    _, out, _ = command("compare alexnet --batch 200")
    assert out.count("not explained, not fitted") == 2
    assert "1132.155" in out and "1,132.056" in out


def test_compare_says_so_of_the_resnets_401(command):
    code, out, _ = command("compare resnet50 --batch 32")
    assert code == 0
    assert [line.split()[4] for line in out.splitlines() if "not fitted" in line] == [
        "401",
        "401",
    ]
    assert "406.125" in out


def test_compare_lists_every_preset_and_what_does_not_fit(command):
    _, out, _ = command("compare alexnet --batch 8 --memory 800MiB --csv -")
    rows = {row["plan"]: row for row in csv.DictReader(io.StringIO(out))}
    assert {*snref.PRESETS, "least time"} - {"reuse"} <= set(rows)
    assert "does not fit" in rows["baseline"]["at step"]
    assert float(rows["least time"]["extent MiB"]) < 800
    listed = {n.plan for n in numbers() if n.what in compare.MEASURED and n.plan}
    assert listed <= set(rows)


@pytest.mark.parametrize("limit", ["--memory 0", "--host-memory 0"])
def test_the_papers_numbers_are_compared_without_limits_only(command, limit):
    code, out, err = command(f"compare alexnet --batch 200 {limit} --json -")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["paper"] == []
    assert not report["plans"]["offload"]["fits"]


def test_nets_are_listed_with_their_parameters(command):
    code, out, _ = command("nets --json -")
    found = {net["net"]: net for net in json.loads(out)["nets"]}
    assert code == 0
    assert set(found) == {name for name in NAMES if ":" not in name}
    assert found["alexnet"]["parameters"] == 62_378_344
    assert found["alexnet"]["layers"] == 23


def test_cite_is_bibtex(command):
    _, out, _ = command("cite")
    assert out.count("\n@") == 13 and out.startswith("@software{snref,")
    assert out.count("{") == out.count("}")
    assert snref.__version__ in out and "10.1145/3178487.3178491" in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_that_works(
    command, verb, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out, _ = command(f"{verb} --help")
    assert code == 0
    example = " ".join(out.partition("example: snref ")[2].split())
    assert example.startswith(verb)
    if verb == "verify":
        command("export lenet --out graph.json")
        command("plan lenet --steps --json plan.json")
    if verb in PLANNING:
        assert command(example)[0] == 0
    else:  # it computes: its own tests run it
        _parser(verb).parse_args(example.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_argument_has_help(verb):
    verbs = next(a for a in _parser(verb)._actions if a.dest == "verb")
    for argument in verbs.choices[verb]._actions:
        assert argument.help, argument.dest


def test_help_lists_the_verbs_and_the_version_is_there(command):
    code, out, _ = command("--help")
    assert code == 0 and all(verb in out for verb in VERBS)
    assert command("--version")[1] == f"snref {snref.__version__}\n"


# Files


def test_export_and_verify_check_and_time_a_plan(command, tmp_path):
    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    net = "alexnet --batch 200"
    assert command(f"export {net} --out {graph}")[0] == 0
    _, out, _ = command(f"plan {net} --steps --json {plan}")
    seconds = json.loads(plan.read_text())["modelled"]["seconds"]
    code, out, _ = command(f"verify {graph} {plan} --json -")
    verdict = json.loads(out)
    assert code == 0 and verdict["valid"]
    assert verdict["peak_bytes"] == 929280000
    assert verdict["seconds"] == seconds
    code, out, err = command(f"verify {graph} {plan} --slab 800MiB")
    assert code == 1 and err.startswith("snref: invalid plan: ")


def test_a_plan_that_is_broken_fails_with_the_step_that_is_wrong(command, tmp_path):
    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    command(f"export lenet --out {graph}")
    command(f"plan lenet --steps --json {plan}")
    document = json.loads(plan.read_text())
    del document["steps"][0]
    plan.write_text(json.dumps(document))
    code, out, err = command(f"verify {graph} {plan}")
    assert (code, out) == (1, "") and err.count("\n") == 1 and "steps[0]" in err
    plan.write_text('{"schema": ')
    code, _, err = command(f"verify {graph} {plan}")
    assert code == 2 and "plan.json: not JSON" in err


def test_the_schemas_can_be_had(command):
    _, out, _ = command("export --schema")
    assert set(json.loads(out)) == {"graph", "plan"}


def test_a_file_is_replaced_whole_or_not_at_all(command, tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_text("old")

    def fail(*paths):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        code, _, err = command(f"plan lenet --json {target}")
        assert code == 1 and "No space left" in err
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert command(f"plan lenet --json {target}")[0] == 0
    assert json.loads(target.read_text())["net"] == "lenet"


@pytest.mark.skipif(os.name == "nt", reason="/dev/null is not there")
def test_a_device_is_written_to_and_not_replaced(command):
    before = os.stat(os.devnull).st_mode
    assert command(f"plan lenet --json {os.devnull}")[0] == 0
    assert os.stat(os.devnull).st_mode == before


def test_costs_may_be_measured_ones(command, tmp_path):
    path = tmp_path / "costs.csv"
    slow = snref.plan(snref.nets.lenet(32)).costs
    snref.plan(snref.nets.lenet(32)).costs.to_csv(str(path))
    _, out, _ = command(f"plan lenet --costs {path} --json -")
    modelled = json.loads(out)["modelled"]
    assert modelled["machine"] is None and modelled["device"] == slow.source
    code, _, err = command(f"plan alexnet --costs {path}")
    assert code == 2 and "has no seconds for" in err


# How it fails


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("plan alexnet --batch 0", 2, ["'0'", ">= 1"]),
        ("plan alexnet --batch many", 2, ["'many'", ">= 1"]),
        ("plan alexnet --memory -3", 2, ["'-3'", ">= 0", "MiB"]),
        ("plan alexnet --memory 3XB", 2, ["'3XB'", "MiB"]),
        ("plan alexnat", 2, ["'alexnat'", "alexnet", "MODULE:FUNCTION"]),
        ("plan nowhere:net", 2, ["'nowhere:net'", "no module"]),
        ("plan resnet:1,2", 2, ["'resnet:1,2'", "4 whole numbers"]),
        ("plan alexnet --input-size 8", 2, ["conv1", "8x8", "11x11"]),
        ("plan alexnet --preset fast", 2, ["'fast'", "superneurons"]),
        ("plan alexnet --preset cache --policy a:b", 2, ["--policy", "not allowed"]),
        ("plan alexnet --policy nowhere:plan", 2, ["'nowhere:plan'"]),
        ("plan alexnet --policy joint", 2, ["is a preset", "--preset joint"]),
        ("plan alexnet --hurry", 2, ["--hurry", "snref plan --help"]),
        ("plan alexnet --device virtual:k80", 2, ["'k80'", "k40c", ".toml"]),
        ("plan alexnet --device none.toml", 2, ["none.toml", "No such file"]),
        ("plan alexnet --costs none.csv", 2, ["none.csv", "No such file"]),
        ("plan alexnet --json no/where.json", 2, ["no/where.json", "No such file"]),
        ("verify none.json none.json", 2, ["none.json", "No such file"]),
        ("plan", 2, ["NET"]),
        ("export", 2, ["NET", "--schema"]),
        ("fly alexnet", 2, ["'fly'", "plan"]),
        ("", 2, ["VERB"]),
        ("plan alexnet --memory 1MiB", 1, ["needs", "available", "least --memory"]),
        ("plan alexnet --preset offload --host-memory 1", 1, ["--host-memory"]),
        ("plan lenet --preset baseline --recompute cost", 2, ["need liveness"]),
        ("plan lenet --preset baseline --transfers demand", 2, ["need liveness"]),
        ("plan lenet --preset joint --declarations lean", 2, ["--declarations reuse"]),
        ("train digits --preset joint --fork copy", 2, ["--fork share: omit both"]),
        ("plan lenet --preset reuse --declarations reuse", 2, ["--declarations stat"]),
    ],
)
def test_a_mistake_is_one_line_that_names_it(command, line, code, words, tmp_path):
    got, _, err = command(line)
    assert got == code
    assert err.count("\n") == 1 and err.startswith("snref")
    for word in words:
        assert word in err, err


@pytest.mark.parametrize("preset", [*snref.PRESETS, None])
def test_the_least_memory_that_is_named_works(command, preset):
    line = "plan lenet" + (f" --preset {preset}" if preset else "")
    code, _, err = command(f"{line} --memory 1000")
    assert code == 1
    step, _, rest = err.removeprefix("snref: does not fit: ").partition(" needs ")
    assert step.split()[1] in ("forward", "backward")
    assert " bytes, 1000 available" in rest
    least = int(err.split()[-1])
    assert command(f"{line} --memory {least}")[0] == 0
    assert command(f"{line} --memory {least - 1}")[0] == 1


def test_files_are_written_before_the_text(command, tmp_path, monkeypatch):
    """So that a reader that leaves early, as "| head", does not lose the file."""

    def leave(_):
        raise BrokenPipeError

    monkeypatch.setattr("snref.commands.tables.print", leave, raising=False)
    assert command(f"plan lenet --json {tmp_path / 'plan.json'}")[0] != 0
    assert json.loads((tmp_path / "plan.json").read_text())["net"] == "lenet"


def test_a_reader_that_leaves_is_no_error():
    write, read = "-m snref plan resnet50 --steps", "import sys; sys.stdin.readline()"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *write.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as writer:
        subprocess.run(
            [sys.executable, "-c", read], stdin=writer.stdout, check=True, timeout=60
        )
        writer.stdout.close()
        assert writer.stderr.read() == b""
        writer.wait(60)


def test_nets_and_policies_come_from_the_working_directory(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from snref.nets import lenet\n"
        "def net(batch): return lenet(batch)\n"
        "def keep(route, options, costs): return route\n"
    )
    done = process("-m snref plan mine:net --policy mine:keep --json -", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["preset"] == "mine:keep"
