"""Checkpoints come back as they were, or are refused by name."""

import json
import os
import random

import numpy as np
import pytest

from snref.training import checkpoint as checkpoints
from snref.training.checkpoint import Checkpoint, CheckpointError, Position

ARRAYS = {
    "parameter/conv1.w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "momentum/conv1.w.momentum": np.full((3, 4), -0.0, np.float32),
    "state/bn1.running_mean": np.array([np.float32(1e-45), 3.5], np.float32),
}
SHAPES = {key: array.shape for key, array in ARRAYS.items()}
POSITION = Position(epoch=2, batch=5, iteration=95, seed=7)
WHOLE = Checkpoint(ARRAYS, POSITION, {"net": "small", "input": [2, 1, 8, 8]})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.npz"
    checkpoints.save(path, WHOLE)
    return path


def test_a_checkpoint_comes_back_bit_for_bit(path):
    found = checkpoints.load(path)
    assert found.position == POSITION
    assert found.about["net"] == "small"
    for key, array in checkpoints.matched(found, SHAPES, path).items():
        assert array.tobytes() == ARRAYS[key].tobytes(), key


def test_numpy_reads_it_without_pickle_under_the_keys_that_are_documented(path):
    with np.load(path, allow_pickle=False) as archive:
        assert set(archive.files) == {*ARRAYS, "position", "about"}
        assert archive["position"].tolist() == [2, 5, 95, 7]
        assert json.loads(str(archive["about"]))["format"] == checkpoints.FORMAT


def test_it_replaces_the_one_before_and_leaves_nothing_else(path):
    checkpoints.save(path, Checkpoint(ARRAYS, Position(3, 0, 100, 7), {}))
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
        checkpoints.save(path, Checkpoint(ARRAYS, Position(3, 0, 100, 7), {}))
    assert caught.value.filename == str(path)
    assert checkpoints.load(path).position == POSITION
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


@pytest.mark.parametrize(
    ("about", "position", "message"),
    [
        ("[]", (0, 0, 0, 0), "is no checkpoint of the form"),
        ('{"format": "other/3"}', (0, 0, 0, 0), "is no checkpoint of the form"),
        ("{", (0, 0, 0, 0), "damaged"),
        ('{"format": "snref.checkpoint/1"}', (0, 0), "has no parameter/conv1.w"),
        ('{"format": "snref.checkpoint/1"}', (0, -1, 0, 0), "damaged.*batch=-1"),
        ('{"format": "snref.checkpoint/1"}', (0, 0, 0, 0, 0), "damaged"),
    ],
)
def test_what_it_says_of_itself_is_checked(tmp_path, about, position, message):
    path = tmp_path / "run.npz"
    np.savez(path, about=np.array(about), position=np.array(position, np.int64))
    refused(path, message)


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
    ],
)
def test_arrays_of_another_net_are_refused_by_name(tmp_path, change, message):
    arrays = {k: v for k, v in (ARRAYS | change).items() if v is not None}
    path = tmp_path / "run.npz"
    checkpoints.save(path, Checkpoint(arrays, POSITION, {"net": "small"}))
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
