"""Checkpoints come back as they were, or are refused by name."""

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from snref.training import checkpoint as checkpoints
from snref.training.checkpoint import (
    About,
    Checkpoint,
    CheckpointError,
    Keeper,
    Position,
    check_same,
)
from snref.training.settings import Settings

ARRAYS = {
    "parameter/conv1.w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "momentum/conv1.w.momentum": np.full((3, 4), -0.0, np.float32),
    "state/bn1.running_mean": np.array([np.float32(1e-45), 3.5], np.float32),
}
SHAPES = {key: array.shape for key, array in ARRAYS.items()}
POSITION = Position(epoch=2, batch=5, iteration=95)
ABOUT = About(
    net="small",
    layers=("conv1 = Conv(3)(data)", "softmax = Softmax()(conv1.y)"),
    input=(2, 1, 8, 8),
    data="digits",
    data_hash="0123456789abcdef",
    images=90,
    seed=7,
    init="he",
    algorithms="exact",
    orders={"conv1": {"forward": "taps"}},
    epochs=12,
    settings=Settings(0.5, decays="weights"),
)
WHOLE = Checkpoint(ARRAYS, POSITION, ABOUT)
LATER = Checkpoint(ARRAYS, Position(3, 0, 135), ABOUT)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.npz"
    checkpoints.save(path, WHOLE)
    return path


def test_a_checkpoint_comes_back_bit_for_bit(path):
    found = checkpoints.load(path)
    assert found.position == POSITION and found.about == ABOUT
    for key, array in checkpoints.matched(found, SHAPES, path).items():
        assert array.tobytes() == ARRAYS[key].tobytes(), key


def test_numpy_reads_it_without_pickle_under_the_keys_that_are_documented(path):
    with np.load(path, allow_pickle=False) as archive:
        assert set(archive.files) == {*ARRAYS, "position", "about"}
        assert archive["position"].tolist() == [2, 5, 95]
        about = json.loads(str(archive["about"]))
    assert about["format"] == checkpoints.FORMAT and about["seed"] == 7
    assert about["settings"]["learning_rate"] == 0.5


def test_it_replaces_the_one_before_and_leaves_nothing_else(path):
    checkpoints.save(path, LATER)
    assert checkpoints.load(path).position.epoch == 3
    assert [entry.name for entry in path.parent.iterdir()] == ["run.npz"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_it_may_be_read_by_whom_other_new_files_may(path):
    beside = path.parent / "beside"
    beside.touch()
    assert path.stat().st_mode == beside.stat().st_mode


def test_a_disk_that_is_full_leaves_the_one_before(path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        checkpoints.save(path, LATER)
    assert caught.value.filename == str(path)
    assert checkpoints.load(path).position == POSITION
    assert [entry.name for entry in path.parent.iterdir()] == ["run.npz"]


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_what_a_killed_process_left_is_removed_and_of_a_living_one_is_not(path):
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from snref.support.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n"
        "    print('saving', flush=True)\n"
        "    time.sleep(60)\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == b"saving\n"
    killed, alive = processes
    killed.kill()
    killed.communicate()
    assert len(list(path.parent.iterdir())) == 3
    checkpoints.save(path, LATER)
    assert len(list(path.parent.iterdir())) == 2
    alive.kill()
    alive.communicate()
    checkpoints.save(path, LATER)
    assert [entry.name for entry in path.parent.iterdir()] == ["run.npz"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "nowhere" / "run.npz"
    with pytest.raises(OSError, match=r"nowhere.*run\.npz"):
        checkpoints.save(path, WHOLE)


# What will not do


def refused(path, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoints.matched(checkpoints.load(path), SHAPES, path)
    assert str(path) in str(caught.value)


def test_what_is_no_checkpoint_is_refused_by_name(tmp_path):
    refused(tmp_path / "nowhere.npz", "no such file")
    for raw in (b"", b"text", b"PK\x03\x04", b"\x93NUMPY\x01\x00"):
        path = tmp_path / "other.npz"
        path.write_bytes(raw)
        refused(path, "is no checkpoint, or damaged")
    np.savez(tmp_path / "data.npz", images=np.zeros(3))
    refused(tmp_path / "data.npz", "is no checkpoint, or damaged")
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    refused(tmp_path / "array.npz", "is no checkpoint, or damaged")


class Bomb:
    """What pickle would run while it reads a file."""

    def __init__(self, where):
        self.where = where

    def __reduce__(self):
        return Path.touch, (self.where,)


def test_reading_a_checkpoint_runs_no_code_of_the_file(path, tmp_path):
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["parameter/conv1.w"] = np.array(Bomb(tmp_path / "run"), object)
    np.savez(tmp_path / "other.npz", **arrays)
    refused(tmp_path / "other.npz", "is no checkpoint, or damaged")
    assert not (tmp_path / "run").exists()


SAID = {"format": checkpoints.FORMAT, **asdict(ABOUT)}


@pytest.mark.parametrize(
    ("change", "position", "message"),
    [
        (
            {"format": "snref.checkpoint/1"},
            (2, 5, 95),
            "of the form snref.checkpoint/1",
        ),
        ({"format": "other/3"}, (2, 5, 95), "of the form other/3; .* reads snref"),
        ({"seed": None, "more": 1}, (2, 5, 95), "damaged: .*more"),
        ({"settings": {"learning_rate": -1}}, (2, 5, 95), "damaged: learning_rate -1"),
        ({"settings": {"speed": 1}}, (2, 5, 95), "damaged: .*speed"),
        ({"settings": 3}, (2, 5, 95), "damaged"),
        ({"input": []}, (2, 5, 95), "damaged"),
        ({"input": [0]}, (2, 5, 95), "damaged"),
        ({"images": "many"}, (2, 5, 95), "damaged"),
        ({"seed": -1}, (2, 5, 95), "damaged: seed -1"),
        ({"orders": []}, (2, 5, 95), "damaged"),
        ({"orders": {"conv1": 5}}, (2, 5, 95), "damaged"),
        ({}, (2, 5), "damaged"),
        ({}, (2, 5, 95, 7), "damaged"),
        ({}, (0, -1, 0), "damaged.*batch=-1"),
        ({}, (2, 45, 135), "damaged.*of 45 batches"),
        ({}, (2, 5, 96), "contradicts epochs of 45 batches"),
        ({}, (3, 5, 95), "contradicts epochs of 45 batches"),
    ],
)
def test_what_it_says_of_itself_is_checked(tmp_path, change, position, message):
    path = tmp_path / "run.npz"
    about = np.array(json.dumps(SAID | change))
    np.savez(path, about=about, position=np.array(position, np.int64), **ARRAYS)
    refused(path, message)


@pytest.mark.parametrize("about", ["[]", "{", "3", "{}", "null"])
def test_what_says_nothing_of_itself_is_refused(tmp_path, about):
    path = tmp_path / "run.npz"
    np.savez(path, about=np.array(about), position=np.zeros(3, np.int64))
    refused(path, "is no checkpoint, or damaged")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"layers": (ABOUT.layers[0], "relu = ReLU()(conv1.y)")},
            r"another net, small: it has softmax = .*, here is relu = ReLU\(\)",
        ),
        ({"layers": ABOUT.layers[:1]}, "another net, small: .* here is no more"),
        ({"input": (4, 1, 8, 8)}, "was trained with batch 2, here it is 4"),
        ({"input": (2, 1, 9, 9)}, r"with images of \(1, 8, 8\), here it is \(1, 9, 9"),
        ({"data_hash": "f" * 64}, "other data: its hash was 0123456789abcdef, here"),
        ({"seed": 8}, "was trained with seed 7, here it is 8"),
        ({"init": "pytorch"}, "was trained with init he, here it is pytorch"),
        (
            {"orders": {"conv1": {"forward": "winograd"}}},
            "sum in another order: conv1 forward in taps, here in winograd",
        ),
    ],
)
def test_what_other_bits_would_come_of_is_refused_by_name(path, change, message):
    with pytest.raises(CheckpointError, match=message):
        check_same(checkpoints.load(path), replace(ABOUT, **change), path)


def test_a_hash_that_is_no_text_is_of_other_data(tmp_path):
    path = tmp_path / "run.npz"
    checkpoints.save(path, replace(WHOLE, about=replace(ABOUT, data_hash=5)))
    with pytest.raises(CheckpointError, match="other data: its hash was 5, here"):
        check_same(checkpoints.load(path), ABOUT, path)


def test_settings_epochs_algorithms_and_the_place_of_the_data_may_change(path):
    here = replace(
        ABOUT, settings=Settings(), epochs=3, data="/elsewhere", algorithms="none"
    )
    check_same(checkpoints.load(path), here, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"parameter/conv1.w": None},
            "another net, small: it has no parameter/conv1.w",
        ),
        ({"parameter/conv9.w": np.zeros(1)}, "here is no parameter/conv9.w"),
        (
            {"parameter/conv1.w": np.zeros((4, 3), np.float32)},
            r"\(4, 3\), here .*\(3, 4\)",
        ),
        ({"parameter/conv1.w": np.zeros((3, 4))}, "is float64 of shape"),
        (
            {"momentum/conv1.w.momentum": np.full((3, 4), np.nan, np.float32)},
            "is damaged: momentum/conv1.w.momentum has a value that is not finite",
        ),
    ],
)
def test_arrays_of_another_net_are_refused_by_name(tmp_path, change, message):
    arrays = {k: v for k, v in (ARRAYS | change).items() if v is not None}
    path = tmp_path / "run.npz"
    checkpoints.save(path, Checkpoint(arrays, POSITION, ABOUT))
    refused(path, message)


def test_a_damaged_file_is_refused_or_says_the_same(path):
    raw = path.read_bytes()
    chance = random.Random(0)
    refusals = 0
    for _ in range(200):
        damaged = bytearray(raw)
        if chance.random() < 0.5:
            del damaged[chance.randrange(len(raw)) :]
        else:
            damaged[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            found = checkpoints.load(path)
            arrays = checkpoints.matched(found, SHAPES, path)
        except CheckpointError:
            refusals += 1
            continue
        # A bit that nobody reads, such as a date, may be another.
        assert found.position == POSITION
        assert all(arrays[key].tobytes() == ARRAYS[key].tobytes() for key in ARRAYS)
    assert refusals > 150


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_checkpoint_never_takes_the_place_of_a_pipe_or_device(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no ordinary file"):
        checkpoints.save(pipe, WHOLE)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


# What can be done if it cannot be saved


@pytest.fixture
def keeper(tmp_path):
    """A keeper of a file in a folder of its own, which notes its warnings."""
    folder = tmp_path / "folder"
    folder.mkdir()
    warnings = []
    keeper = Keeper(folder / "run.npz", warnings.append)
    keeper.spare = tmp_path / "spare.npz"
    return keeper, warnings


def test_a_folder_that_is_gone_is_named_and_the_checkpoint_is_elsewhere(keeper):
    keeper, warnings = keeper
    keeper.path.parent.rmdir()
    keeper.save(WHOLE)
    assert keeper.saved == keeper.spare
    assert checkpoints.load(keeper.saved).position == POSITION
    assert warnings == [
        f"{keeper.path}: not saved: No such file or directory; the checkpoint is in "
        f"{keeper.spare}"
    ]
    keeper.path.parent.mkdir()  # as a disk that was full and is not
    keeper.save(LATER)
    assert keeper.saved == keeper.path and not keeper.spare.exists()
    assert checkpoints.load(keeper.path).position == LATER.position


def test_what_can_be_saved_nowhere_raises_nothing(keeper):
    keeper, warnings = keeper
    keeper.path.parent.rmdir()
    keeper.spare = keeper.path.parent / "spare.npz"
    keeper.save(WHOLE)
    assert keeper.saved is None and len(warnings) == 1


def test_two_runs_do_not_write_one_file_unnoticed(keeper):
    keeper, warnings = keeper
    other = Keeper(keeper.path, warnings.append)
    other.save(LATER)
    keeper.save(WHOLE)
    assert checkpoints.load(keeper.path).position == LATER.position
    assert keeper.saved == keeper.spare
    assert "another process has written it meanwhile" in warnings[0]
    other.save(LATER)
    assert other.saved == other.path and len(warnings) == 1


def test_a_file_that_was_there_before_and_ones_own_are_overwritten(path):
    keeper = Keeper(path, pytest.fail)
    for _ in range(2):
        keeper.save(LATER)
    assert checkpoints.load(path).position == LATER.position
    path.unlink()
    keeper.save(LATER)
    assert keeper.saved == path and path.exists()


@pytest.mark.skipif(os.name == "nt", reason="resource limits of POSIX")
def test_a_file_that_may_not_grow_is_as_a_disk_that_is_full(tmp_path):
    """The kernel refuses to write, in a process of its own, in the middle of a file."""
    script = (
        "import resource, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from test_checkpoint import WHOLE, Checkpoint, Keeper, POSITION, ABOUT\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "keeper = Keeper(Path(sys.argv[1]) / 'run.npz', print)\n"
        "keeper.save(WHOLE)\n"
        "large = {'parameter/x': np.zeros(10**6, np.float32)}\n"
        "keeper.save(Checkpoint(large, POSITION, ABOUT))\n"
        "print(keeper.saved)\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not saved: File too large" in done.stdout
    assert done.stdout.endswith("None\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.npz"]
    assert checkpoints.load(tmp_path / "run.npz").position == POSITION
