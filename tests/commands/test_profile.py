"""``snref profile``: what it measures, in which order, and what it leaves out."""

import os
import subprocess
import sys

import pytest

import snref
from snref.__main__ import main
from snref.commands import profile
from snref.commands.profile import measured
from snref.layers import Linear, ReLU, Softmax
from snref.net import Net
from snref.nets import find
from snref.plans import Choice
from snref.timing.costs import Costs


@pytest.fixture
def command(capsys):
    """Run a command line in this process: (exit code, output, errors)."""

    def run(line):
        code = main(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_profile_has_seconds_for_every_run_and_algorithm(command, tmp_path):
    path = tmp_path / "costs.csv"
    code, out, _ = command(
        f"profile digits --batch 2 --repeats 1 --device cpu --out {path}"
    )
    assert code == 0 and "GB/s to the host" in out
    costs = Costs.from_csv(str(path))
    whole = snref.route(find("digits", 2))
    assert costs.runs.keys() == {(run.layer, run.phase) for run in whole.runs()}
    assert costs.algorithms.keys() == {
        (run.layer, choice.part, way.name)
        for run in whole.runs()
        for choice in run.choices
        for way in choice.algorithms
    }
    for run in whole.runs():
        computes = any(not isinstance(piece, Choice) for piece in run.work)
        assert (costs.runs[run.layer, run.phase] > 0) == computes, run.layer
    assert min(costs.algorithms.values()) > 0
    assert "measured on CPU" in costs.source and "digits, batch 2" in costs.source
    code, out, _ = command(f"plan digits --batch 2 --costs {path}")
    assert code == 0 and "measured on CPU" in out and "a model" not in out


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of CPU time")
def test_a_limit_of_cpu_time_makes_no_step_free_of_cost(tmp_path):
    """Under it Linux counts CPU time in steps that are longer than most kernels."""
    path = tmp_path / "costs.csv"
    command = "profile digits --batch 2 --repeats 1 --device cpu --out"
    line = f"ulimit -t 600; exec {sys.executable} -m snref {command} {path}"
    subprocess.run(["sh", "-c", line], check=True)
    assert min(Costs.from_csv(str(path)).algorithms.values()) > 0


def test_a_profile_leaves_parameters_as_they_were():
    costs = measured(find("digits", 2), "cpu", 1)
    assert costs.to_host > 1e6 and costs.to_device > 1e6 and costs.latency > 0


def test_a_profile_needs_a_file(command):
    with pytest.raises(SystemExit) as caught:
        command("profile digits")
    assert caught.value.code == 2


@pytest.fixture
def keys(monkeypatch):
    """The keys that are timed, in order."""
    timed = []
    time = profile._Stopwatch.time

    def noted(watch, key, calls):
        calls = list(calls)
        timed.append((key, len(calls)))
        time(watch, key, calls)

    monkeypatch.setattr(profile._Stopwatch, "time", noted)
    return timed


def test_repeats_of_a_step_are_an_iteration_apart(keys):
    measured(find("digits", 2), "cpu", 2)
    third = len(keys) // 3  # one iteration compiles, two are measured
    assert keys[:third] * 3 == keys
    assert len(set(keys[:third])) == third


def test_the_gradient_of_the_image_is_no_part_of_a_run(keys):
    net = Net("image first")
    x = net.add("relu", ReLU(), net.input((2, 6)))
    net.add("softmax", Softmax(), net.add("fc", Linear(3), x))
    measured(net, "cpu", 1)
    counts = dict(keys)
    assert net.nodes[0].dx is not None
    assert counts["relu", "backward"] == 0
    assert counts["fc", "backward"] == 2  # the gradients of its parameters
    kept = find("digits", 2)
    assert measured(kept, "cpu", 1).algorithm("conv1", "data", "direct") > 0


@pytest.mark.parametrize(
    ("out", "message"),
    [("nowhere/costs.csv", "No such file or directory"), (".", "Is a directory")],
)
def test_a_file_that_cannot_be_written_is_named_before_measuring(
    command, keys, out, message
):
    code, printed, err = command(f"profile digits --batch 2 --device cpu --out {out}")
    assert (code, printed) == (2, "") and err == f"snref: {out}: {message}\n"
    assert not keys
