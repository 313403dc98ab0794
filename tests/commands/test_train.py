"""``snref train`` as a process: its lines, its exit codes, and how it is stopped."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import snref
from snref.__main__ import main
from snref.commands import train as verb
from snref.commands.profile import measured
from snref.data import load
from snref.device.present import find_gpu
from snref.nets import digits
from snref.planning.planned import plan
from snref.plans import OutOfMemory
from snref.training import NotFinite, Session, Settings, train
from snref.training import checkpoint as checkpoints
from snref.training.parameters import digest

ROOT = Path(snref.__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def command(capsys):
    """Run a command line in this process: (exit code, output, errors)."""

    def run(line):
        code = main(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def as_in_a_terminal():
    """Undo what ``nohup`` or a background job set: a child would inherit it."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def start(line):
    return subprocess.Popen(
        [sys.executable, "-m", "snref", *line.split()],
        preexec_fn=as_in_a_terminal if os.name == "posix" else None,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def weights(out):
    return re.search(r"^weights +(\w{64})$", out, re.MULTILINE)[1]


# What it prints


def test_digits_alone_trains_twice_and_ends_in_the_same_bits(command):
    code, out, err = command("train digits --device cpu --epochs 1")
    assert (code, err) == (0, "")
    share = int(re.search(r"with the budget (\d+)% of them", out)[1])
    assert share <= 60
    *_, first, second, verdict = out.splitlines()
    assert float(re.search(r"^held-out accuracy +(\d+\.\d\d)%$", out, re.M)[1]) > 80
    assert first.startswith("weights ") and second.startswith("of the baseline ")
    assert first.split()[-1] == second.split()[-1]
    assert verdict == "the same, bit for bit"
    assert out.count("epoch 1  batch 45/45  loss ") == 2
    assert re.search(r"[\d,]+ images/s  [\d,]+ bytes in use", out)


def test_a_batch_too_small_for_that_share_trains_in_the_least_that_works(command):
    code, out, err = command("train digits --device cpu --epochs 1 --batch 8")
    assert (code, err) == (0, "")
    assert out.endswith("the same, bit for bit\n")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_digits_reaches_97_percent_whatever_the_seed(command, seed):
    code, out, _ = command(f"train digits --device cpu --seed {seed} --preset cache")
    assert code == 0
    assert float(re.search(r"accuracy +([\d.]+)%", out)[1]) >= 97


def test_a_budget_that_is_too_small_says_what_would_do(command):
    code, out, err = command("train digits --device cpu --memory 100KB --epochs 1")
    assert code == 1 and out == ""
    least = re.search(r"the least --memory that works is (\d+)\n$", err)[1]
    code, out, _ = command(f"train digits --device cpu --memory {least} --epochs 1")
    assert code == 0 and f"{int(least):,} bytes of device memory" in out


def test_a_loss_that_is_not_finite_is_one_line_with_iteration_and_tensor(command):
    code, _, err = command("train digits --device cpu --lr 1e9 --preset baseline")
    assert code == 1
    assert re.fullmatch(
        r"snref: iteration \d+: the loss is (nan|inf); .*\bconv1\.w\b.*\n|"
        r"snref: iteration \d+: the loss is (nan|inf); the first tensor with a value "
        r"that is not finite is \w+\.\w+, of \w+ (forward|backward)\n",
        err,
    ), err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--save-every 2", "--save-every needs --save FILE"),
        ("--save nowhere/run.npz", "nowhere/run.npz: No such file or directory"),
        ("--save .", ".: Is a directory"),
        ("--save -", "--save -: is no ordinary file"),
        ("--save=", "--save: the name is empty"),
        ("--resume=", "--resume: the name is empty"),
        ("--data=", "--data: the name is empty"),
        ("--costs=", "--costs: the name is empty"),
        ("--resume nowhere.npz", "nowhere.npz: no such file"),
        ("--data nowhere", "nowhere: no such data"),
        ("--data nowhere.npz", "nowhere.npz: no such file"),
        ("--compare --resume run.npz", "without --resume"),
        ("--batch 2000", "batch 2000: digits has 1437 images"),
        ("--costs nowhere.csv", "nowhere.csv: No such file"),
        ("--momentum 0.5 --resume nowhere.npz", "nowhere.npz: no such file"),
    ],
)
def test_wrong_use_is_one_line_before_anything_is_trained(command, options, message):
    code, out, err = command(f"train digits --device cpu {options}")
    assert code == 2 and message in err and err.count("\n") == 1
    assert "epoch" not in out


@pytest.mark.skipif(find_gpu().works is True, reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_said_first(command):
    code, out, err = command("train digits --device cuda")
    assert (code, out) == (2, "")
    assert err == "snref: no CUDA device: no NVIDIA driver here; the CPU device does\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_device_is_not_replaced_by_a_checkpoint(command, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, out, err = command(f"train digits --device cpu --save {pipe}")
    assert (code, out) == (2, "") and f"--save {pipe}: is no ordinary file" in err
    assert pipe.is_fifo()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_that_cannot_be_written_is_said_before_training(command, tmp_path):
    tmp_path.chmod(0o500)
    code, out, err = command(f"train digits --device cpu --save {tmp_path}/run.npz")
    assert code == 2 and "run.npz: Permission denied" in err and out == ""


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--lr 0", "learning_rate 0.0: must be > 0"),
        ("--lr nan", "learning_rate nan: must be > 0"),
        ("--momentum 1", "momentum 1.0: must be >= 0 and < 1"),
        ("--weight-decay -1", "weight_decay -1.0: must be >= 0 and < 1"),
        ("--seed -1", "argument --seed: '-1': must be 0 to 2147483647"),
        ("--lr fast", "argument --lr: invalid float value: 'fast'"),
        ("--init she", "argument --init: invalid choice: 'she'"),
    ],
)
def test_numbers_out_of_range_are_wrong_use(option, message):
    done = subprocess.run(
        [sys.executable, "-m", "snref", "train", "digits", *option.split()],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_the_loss_of_an_epoch_is_the_mean_over_its_images(command, tmp_path):
    """Not over its batches, of which the last may be small."""
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(path, images=rng.random((9, 8, 8)), labels=rng.integers(0, 10, 9))
    _, out, _ = command(
        f"train digits --data {path} --batch 8 --epochs 1 --preset cache --device cpu"
    )
    large, small = train("digits", data=path, batch=8, device="cpu").losses
    loss = (8 * large + small) / 9
    assert f"batch 2/2  loss {loss:.4f}" in out
    assert abs(loss - (large + small) / 2) > 1e-3


@pytest.mark.parametrize(
    "reason",
    [
        OutOfMemory("conv1", 9, 5, 9),
        MemoryError("no"),
        NotFinite("iteration 3: the loss is nan"),
    ],
)
def test_a_baseline_that_fails_does_not_cost_the_result_of_the_training(
    command, monkeypatch, reason
):
    trains = verb.train

    def fails(net, **given):
        if given.get("preset") == "baseline":
            raise reason
        return trains(net, **given)

    monkeypatch.setattr(verb, "train", fails)
    code, out, err = command("train digits --device cpu --epochs 1")
    assert code == 1 and "the baseline failed" in err
    assert "held-out accuracy" in out and weights(out)


def test_plans_that_sum_in_other_orders_need_not_end_in_the_same_bits(
    command, tmp_path
):
    costs = tmp_path / "costs.csv"
    measured(digits(8), "cpu", 1).to_csv(str(costs))
    text = costs.read_text().splitlines()
    text = [
        line.rpartition(",")[0] + (",1e-9" if "winograd" in line else ",1")
        if line.startswith("algorithm")
        else line
        for line in text
    ]
    costs.write_text("\n".join(text))
    code, out, err = command(
        "train digits --device cpu --epochs 1 --batch 8 --memory 1GB --compare "
        f"--algorithms fastest --costs {costs} --data digits"
    )
    assert (code, err) == (0, "")
    assert out.endswith("the two plans sum convolutions in other orders\n")


# Going on from a checkpoint


def test_what_is_not_typed_comes_from_the_checkpoint_and_changes_are_printed(
    command, tmp_path
):
    path = tmp_path / "run.npz"
    line = "train digits --device cpu --preset cache"
    start = "--batch 64 --seed 3 --lr 0.02 --decays weights --init xavier"
    _, out, _ = command(f"{line} {start} --epochs 2")
    whole = weights(out)
    command(f"{line} {start} --epochs 1 --save {path}")
    code, out, _ = command(f"{line} --resume {path} --epochs 2 --memory 1GB")
    assert code == 0 and weights(out) == whole
    assert out.startswith("epochs: 1 -> 2\ndigits, input 64 x")
    code, out, _ = command(
        f"{line} --resume {path} --epochs 2 --lr 0.01 --momentum 0.5 --decays all"
    )
    assert code == 0 and weights(out) != whole
    assert out.startswith(
        "learning rate: 0.02 -> 0.01\nmomentum: 0.9 -> 0.5\n"
        "decays: weights -> all\nepochs: 1 -> 2\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--seed 4", "was trained with seed 0, here it is 4"),
        ("--batch 16", "was trained with batch 32, here it is 16"),
        ("--init lecun", "was trained with init he, here it is lecun"),
        ("--data synthetic", "was trained with other data"),
        ("--net lenet", "is of another net, digits: it has "),
    ],
)
def test_what_does_not_go_on_to_the_same_bits_is_refused(
    command, checkpoint, options, message
):
    net = "lenet" if "lenet" in options else "digits"
    options = options.replace("--net lenet", "--data synthetic")
    line = f"train {net} --device cpu --preset cache --resume {checkpoint} {options}"
    code, out, err = command(line)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert f"{checkpoint}: {message}" in err


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.npz"
    train("digits", device="cpu", save=path)
    return path


def test_a_folder_that_vanishes_costs_an_exit_code_and_nothing_else(
    command, tmp_path, monkeypatch
):
    folder = tmp_path / "folder"
    folder.mkdir()
    show = verb._Screen.show

    def vanish(screen, progress):
        shutil.rmtree(folder, ignore_errors=True)
        show(screen, progress)

    monkeypatch.setattr(verb._Screen, "show", vanish)
    line = "train digits --device cpu --preset cache --epochs 1"
    code, out, err = command(f"{line} --save {folder}/run.npz")
    assert code == 1 and "held-out accuracy" in out
    spare = re.search(r"the last checkpoint is not in .*: --resume (\S+) goes on", err)
    assert spare and "No such file or directory; the checkpoint is in" in err
    assert checkpoints.load(Path(spare[1])).position.epoch == 1
    Path(spare[1]).unlink()


def test_a_file_of_ones_own_is_trained_on(command, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    images = rng.integers(0, 255, (20, 8, 8)).astype(np.uint8)
    np.savez(path, images=images, labels=rng.integers(0, 10, 20))
    code, out, _ = command(
        f"train digits --data {path} --batch 8 --epochs 1 --preset cache --device cpu"
    )
    assert code == 0 and "batch 3/3" in out and "accuracy" not in out


# How it is stopped


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")
@pytest.mark.parametrize(
    "name",
    [
        "SIGINT",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("SIGTERM", "SIGHUP")),
    ],
)
def test_a_signal_stops_after_the_iteration_and_saves_what_can_be_resumed(
    tmp_path, name
):
    path = tmp_path / "run.npz"
    line = f"train digits --device cpu --preset cache --epochs 1000 --save {path}"
    process = start(line)
    deadline = time.monotonic() + 240
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(getattr(signal, name))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    stopped = re.search(r"stopped after iteration (\d+) and saved to", err)
    assert stopped and "Traceback" not in err, err
    saved = checkpoints.load(path)
    assert saved.position.iteration == int(stopped[1])
    session = Session(
        plan(digits(32), preset="baseline"), load("digits"), Settings(), "cpu"
    )
    count = iter(range(1, 10**6))
    session.run(1000, stop=lambda: next(count) == saved.position.iteration)
    assert digest(dict(saved.arrays)) == digest(session.state())


@pytest.mark.slow
def test_killed_at_random_moments_it_resumes_and_ends_in_the_same_bits(tmp_path):
    """SIGKILL, which no process can answer: ten times, while it trains and saves."""
    line = "train digits --device cpu --preset cache --epochs 20"
    whole = start(line)
    out, _ = whole.communicate(timeout=240)
    expected = weights(out)
    path = tmp_path / "run.npz"
    chance = random.Random(9)
    kills, seen = 0, []
    while kills < 10:
        resume = f"--resume {path}" if path.exists() else ""
        before = path.stat().st_mtime_ns if path.exists() else 0
        process = start(f"{line} --save {path} --save-every 1 {resume}")
        if kills % 5 == 4:  # before it has done anything
            time.sleep(chance.uniform(0, 1))
        else:
            while process.poll() is None and (
                not path.exists() or path.stat().st_mtime_ns == before
            ):
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.1))
        assert process.poll() is None, process.communicate()
        process.kill()
        process.communicate()
        kills += 1
        if path.exists():
            seen.append(checkpoints.load(path).position.iteration)
    assert seen == sorted(seen) and len(set(seen)) >= 5
    last = start(f"{line} --resume {path} --save {path}")
    out, err = last.communicate(timeout=240)
    assert last.returncode == 0, err
    assert weights(out) == expected
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.npz"]
