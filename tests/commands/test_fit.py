"""``snref fit`` and ``snref doctor``."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import snref
from snref.__main__ import main
from snref.commands import doctor
from snref.device import present
from snref.nets import find, random_net
from snref.planning.fit import Counting, Fit, halved, largest, largest_of
from snref.planning.reports import resident
from snref.plans import OutOfMemory, lower_bound


@pytest.fixture
def command(capsys):
    """Run a command line in this process: (exit code, output, errors)."""

    def run(line):
        code = main(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def fit(command, line):
    code, out, err = command(f"fit {line} --json -")
    assert err == ""
    return code, json.loads(out)


# Fit


def test_what_joint_needs_is_said_where_there_is_so_much(command):
    enough = snref.plan(find("lenet", 64), preset="joint").total_bytes
    said = f"; with --preset joint, {enough} is enough"
    for verb in "fit", "plan":
        line = f"{verb} lenet --batch 64 --preset superneurons"
        for memory, hint in (enough, True), (enough - 1, False):
            code, out, err = command(f"{line} --memory {memory}")
            assert code == 1 and (said in (out or err)) == hint
        code, out, err = command(f"{line} --memory {enough} --host-memory 1KB")
        assert code == 1 and "joint" not in out + err


def test_the_largest_batch_fits_and_the_next_does_not(command):
    code, report = fit(command, "alexnet --batch 8 --memory 2GB")
    assert code == 0 and report["asked"]["fits"]
    batch = report["largest"]
    assert batch > 8 and report["at_largest"]["total_bytes"] <= 2 * 10**9
    assert snref.plan(find("alexnet", batch), memory=2 * 10**9)
    # The next fits in parts of the batch only.
    assert snref.plan(find("alexnet", batch + 1), memory=2 * 10**9).parts


@pytest.mark.parametrize(
    "given",
    [
        {"preset": "liveness"},
        {"preset": "cache"},
        {"policy": "vdnn-all"},
        {"policy": "chen"},
        {"policy": "vdnn-all", "host_memory": 80_000_000},
        pytest.param({"host_memory": 60_000_000}, marks=pytest.mark.slow),
    ],
)
def test_the_largest_batch_of_a_planner_fits_and_the_next_does_not(command, given):
    options = " ".join(
        f"--{name.replace('_', '-')} {value}" for name, value in given.items()
    )
    code, report = fit(command, f"alexnet --batch 1 --memory 1GB {options}")
    assert code == 0 and report["asked"]["fits"]
    batch, best = report["largest"], report["at_largest"]
    planned = snref.plan(find("alexnet", batch), memory=10**9, **given)
    assert best["total_bytes"] == planned.total_bytes <= 10**9
    assert best["host_bytes"] == planned.host_bytes <= given.get("host_memory", 10**9)
    assert best["images_per_second"] == batch / planned.timeline.seconds
    assert best["planner"] == given.get("preset", given.get("policy", "least time"))
    with pytest.raises(OutOfMemory):
        snref.plan(find("alexnet", batch + 1), memory=10**9, **given)


def test_no_batch_may_fit_with_a_planner_of_your_own(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keeps_all.py").write_text(
        "def keep(route, options, costs): return route"
    )
    _, report = fit(command, "lenet --batch 8 --memory 7MB --policy keeps_all:keep")
    assert report["largest"] > 0
    code, report = fit(command, "lenet --batch 8 --memory 5MB --policy keeps_all:keep")
    assert code == 1 and report["largest"] == 0
    assert report["at_largest"] is report["at_best_throughput"] is None


def test_the_best_throughput_is_that_of_the_largest_batch_or_of_one_of_its_halves(
    command,
):
    _, report = fit(command, "alexnet --batch 8 --memory 1GB --preset superneurons")
    best, largest = report["at_best_throughput"], report["at_largest"]
    assert best["images_per_second"] >= largest["images_per_second"]
    assert best["batch"] in {report["largest"] >> i for i in range(3)}
    planned = snref.plan(
        find("alexnet", best["batch"]), memory=10**9, preset="superneurons"
    )
    assert best["modelled"]["seconds"] == planned.timeline.seconds


def test_whether_a_net_fits_with_no_saving_is_said(command):
    net = find("lenet", 8)
    held = snref.plan(net, preset="baseline", overwrite="never")
    need = held.total_bytes
    _, report = fit(command, f"lenet --batch 8 --memory {need}")
    assert report["without_saving"] == {"fits": True, "total_bytes": need}
    _, report = fit(command, f"lenet --batch 8 --memory {need - 1}")
    assert not report["without_saving"]["fits"] and report["asked"]["fits"]
    _, out, _ = command(f"fit lenet --batch 8 --memory {need - 1}")
    assert f"none in place, it would not fit: {need:,} bytes" in out


def test_a_preset_and_a_policy_are_not_named_together(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "lenet", "--preset", "cache", "--policy", "chen"])
    assert "not allowed with" in capsys.readouterr().err


def test_what_does_not_fit_says_what_would_and_exits_with_1(command):
    code, report = fit(command, "alexnet --batch 200 --memory 1GB")
    assert code == 1 and not report["asked"]["fits"]
    assert 0 < report["largest"] < 200
    least = report["asked"]["least_bytes"]
    assert fit(command, f"alexnet --batch 200 --memory {least}")[0] == 0
    assert fit(command, f"alexnet --batch 200 --memory {least - 256}")[0] == 1
    code, out, _ = command("fit alexnet --memory 1MB")
    assert code == 1 and "largest batch: none" in out


def test_the_table_adds_up_and_says_what_it_does_not_count(command):
    code, out, _ = command("fit lenet --memory 1GB")
    assert code == 0 and "fits in 1,000,000,000 bytes (953.674 MiB)" in out
    rows = re.findall(r"^  (\D+?) +([\d,]+) +[\d.]+$", out, re.MULTILINE)
    *parts, (name, total), host = [(n, int(b.replace(",", ""))) for n, b in rows]
    assert name == "total" and sum(nbytes for _, nbytes in parts) == total
    assert host == ("kept on the host at once", 0)
    assert "not counted: the CUDA context" in out


@pytest.mark.parametrize(
    ("optimizer", "numbers"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2)]
)
def test_an_optimizer_keeps_so_many_numbers_a_parameter(command, optimizer, numbers):
    _, report = fit(command, f"lenet --memory 1GB --optimizer {optimizer}")
    counted = report["asked"]["resident"]
    assert counted["optimizer_state"] == numbers * counted["parameters"]
    assert counted["parameters"] == resident(find("lenet", 32))["parameter"]


def test_half_precision_halves_activations_and_gradients_but_for_the_loss(command):
    _, full = fit(command, "alexnet --memory 8GB")
    _, half = fit(command, "alexnet --memory 8GB --dtype amp")
    assert half["largest"] > 1.5 * full["largest"]
    parameters = full["asked"]["resident"]["parameters"]
    assert half["asked"]["resident"]["half_precision_parameters"] == parameters // 2
    for seed in range(10):
        net = random_net(seed)
        whole = snref.route(net)
        made = halved(whole, net.nodes[-1].y)
        before = {t.name: t for run in whole.runs() for t in run.working_set}
        after = {t.name: t for run in made.runs() for t in run.working_set}
        assert before.keys() == after.keys()
        for name, tensor in before.items():
            part = 1 if tensor is net.nodes[-1].y else 2
            assert after[name].nbytes * part == tensor.nbytes
        assert lower_bound(made) < lower_bound(whole)


@pytest.mark.slow
def test_the_bytes_that_a_plan_keeps_on_the_host_are_told_and_limited(command):
    line = "alexnet --batch 200 --memory 1.5GiB"
    _, report = fit(command, line)
    host = report["asked"]["host_bytes"]
    assert report["asked"]["transfers"] != "none" and host > 0
    _, out, _ = command(f"fit {line}")
    assert re.search(rf"kept on the host at once +{host:,} ", out)
    _, report = fit(command, f"{line} --host-memory {host - 1}")
    assert report["asked"].get("host_bytes", 0) < host


def test_the_total_of_training_is_told_beside_the_papers(command):
    _, report = fit(command, "lenet --memory 1GB")
    trained = snref.nets.lenet(32).with_options(image_gradient=False)
    held = snref.plan(trained, memory="1GB").total_bytes
    told, asked = report["without_image_gradient"], report["asked"]
    assert told["total_bytes"] == held <= asked["total_bytes"]
    assert told["modelled"]["seconds"] < asked["modelled"]["seconds"]
    _, out, _ = command("fit lenet --memory 1GB")
    assert f"the total is {held:,}" in out
    _, report = fit(command, "lenet --memory 1GB --declarations lean")
    assert report["without_image_gradient"] is None


@pytest.mark.slow
def test_less_host_memory_never_makes_the_batch_larger(command):
    line = "lenet --batch 4 --memory 6MB"
    batches = [
        fit(command, f"{line} --host-memory {size}")[1]["largest"]
        for size in ("0", "50KB", "10MB")
    ]
    assert batches == sorted(batches)
    assert batches[-1] == fit(command, line)[1]["largest"]


@pytest.mark.slow
def test_deeper_finds_the_deepest_resnet(command):
    line = "resnet50 --batch 1 --input-size 32 --memory 500MB --deeper"
    code, report = fit(command, line)
    assert code == 0 and report["searched"] == "depth"
    blocks = report["largest"]
    counting = Counting()

    def least(n):
        return counting.least(find(f"resnet:6,32,{n},6", 1, 32))

    assert least(blocks) <= 500 * 10**6 < least(blocks + 1)
    assert report["at_largest"]["fits"]
    _, out, _ = command(f"fit {line}")
    assert f"{3 * (44 + blocks) + 2:,} convolutions" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit lenet", "--memory SIZE is missing"),
        ("fit lenet --memory 1GB --deeper", "--deeper is for a ResNet, not for lenet"),
    ],
)
def test_wrong_use_is_one_line(command, line, message):
    code, _, err = command(line)
    assert code == 2 and message in err and err.count("\n") == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 1000, 1001])
@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 8, 9, 1000, 5000])
def test_largest_asks_little_and_is_right(most, limit):
    asked = []
    found = largest(lambda n: asked.append(n) or n <= most, limit)
    assert found == min(most, limit)
    assert len(asked) < 25 and max(asked) <= limit


@pytest.mark.parametrize("most", [1, 50, 999])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
def test_largest_of_may_end_within_a_share_of_the_largest(most, share):
    asked = []

    def attempt(number):
        asked.append(number)
        if number > most:
            return OutOfMemory("the host", 2, 1, 2)
        return Fit(None, None, None, {}, None, str(number))

    found, best = largest_of(attempt, 1000, 100, 1, share)
    assert found <= most and best.planner == str(found)
    refused = min(number for number in (1001, *asked) if number > most)
    assert refused - found <= max(1, share * found)


def test_the_search_for_a_batch_ends_however_much_memory_there_is(command):
    _, out, err = command("fit lenet --memory 99999999999GB")
    assert err == "" and "largest batch: 65536 or more\n" in out


# Doctor


def test_the_doctor_checks_a_kernel_on_the_cpu(command):
    code, out, err = command("doctor")
    assert (code, err) == (0, "")
    assert f"snref {snref.__version__}" in out and "numba " in out
    assert re.search(r"cpu +works +\d+ cores; four sums: 11, 22, 33, 44\n", out)
    assert "NUMBA" not in out


def test_a_report_says_more(command, monkeypatch):
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    _, out, _ = command("doctor --report")
    assert "NUMBA_CPU_NAME=generic" in out and "kernels  " in out


def test_wrong_numbers_are_a_failure_with_what_was_expected(command, monkeypatch):
    monkeypatch.setattr(present, "EXPECTED", [11.0, 22.0, 33.0, 45.0])
    code, out, _ = command("doctor")
    assert code == 1 and re.search(r"cpu +FAILS .*44, expected \[11", out)


def test_what_is_missing_is_named(command, monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    _, out, _ = command("doctor")
    assert "\nnumba MISSING\n" in out and "not installed: numba-cuda" in out
    assert "to repair:\n  pip install --upgrade 'numpy" in out


def test_without_numba_nothing_works_and_the_line_for_pip_is_given_once():
    script = (
        "import sys; sys.modules['numba'] = None; "
        "from snref.__main__ import main; sys.exit(main(['doctor']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(Path(snref.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"cpu +FAILS +Numba cannot be imported: .*numba", done.stdout)
    assert done.stdout.count("pip install --upgrade 'numpy") == 1


def test_no_driver_is_nothing_to_repair(command, monkeypatch):
    def none(name):
        raise OSError(name)

    monkeypatch.setattr(present.ctypes, "CDLL", none)
    code, out, _ = command("doctor")
    assert code == 0 and "cuda  none   no NVIDIA driver" in out
    assert out.endswith("nothing to repair\n")
