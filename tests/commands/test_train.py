"""``snref train`` as a process: its lines, its exit codes, and how it is stopped."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import snref
from snref.__main__ import main
from snref.data import load
from snref.device.present import find_gpu
from snref.nets import digits
from snref.planning.planned import plan
from snref.training import Session, Settings
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


def start(line):
    return subprocess.Popen(
        [sys.executable, "-m", "snref", *line.split()],
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
    *_, accuracy, first, second, verdict = out.splitlines()
    assert float(re.fullmatch(r"held-out accuracy +(\d+\.\d\d)%", accuracy)[1]) > 80
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
        ("--save nowhere/run.npz", "--save nowhere/run.npz: cannot be written: No"),
        ("--save .", "--save .: is a folder"),
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
    assert code == 2 and "cannot be written: Permission denied" in err and out == ""


@pytest.mark.parametrize("option", ["--lr 0", "--lr nan", "--seed -1", "--momentum 1"])
def test_numbers_out_of_range_are_wrong_use(command, option):
    with pytest.raises(SystemExit) as caught:
        command(f"train digits {option}")
    assert caught.value.code == 2


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


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_stops_after_the_iteration_and_saves_what_can_be_resumed(tmp_path):
    path = tmp_path / "run.npz"
    line = f"train digits --device cpu --preset cache --epochs 1000 --save {path}"
    process = start(line)
    deadline = time.monotonic() + 240
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    stopped = re.search(r"stopped after iteration (\d+) and saved to", err)
    assert stopped and "Traceback" not in err, err
    saved = checkpoints.load(path)
    assert saved.position.iteration == int(stopped[1])
    session = Session(plan(digits(32), preset="baseline"), load("digits"), Settings())
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
    last = start(f"{line} --resume {path}")
    out, err = last.communicate(timeout=240)
    assert last.returncode == 0, err
    assert weights(out) == expected
