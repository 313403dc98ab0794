"""Checkpoints: all that a training needs to go on as if it had never stopped.

A ``.npz`` file that ``numpy.load`` reads with ``allow_pickle=False``. Its keys:

    parameter/NAME   a parameter: conv1.w, conv1.b, bn1.gamma ...
    momentum/NAME    its momentum, by the parameter's name and ".momentum"
    state/NAME       a running statistic of batch normalization
    position         the next epoch and batch, the iteration, the seed: four int64
    about            what it is of, as JSON: net, shapes of its input, settings

The random numbers of dropout and of the order of images are functions of seed, epoch
and iteration, so the position is their state, too.
"""

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "snref.checkpoint/1"


class CheckpointError(ValueError):
    """A file that is no checkpoint, is damaged, or is of another net."""


@dataclass(frozen=True)
class Position:
    """Where a training is: the epoch and batch that come next."""

    epoch: int = 0
    batch: int = 0
    iteration: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """Arrays by key, where the training is, what it is of."""

    arrays: Mapping[str, NDArray[Any]]
    position: Position
    about: Mapping[str, Any]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file whole or not at all, even if the process is killed meanwhile.

    The bytes go to a temporary file beside it, which takes its name once they are on
    the disk. Raises OSError, which names the path.
    """
    position = checkpoint.position
    numbers = (position.epoch, position.batch, position.iteration, position.seed)
    arrays = dict(checkpoint.arrays)
    arrays["position"] = np.array(numbers, np.int64)
    arrays["about"] = np.array(json.dumps({"format": FORMAT, **checkpoint.about}))
    path = path.resolve()
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError, which says what is wrong."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        about = json.loads(str(arrays.pop("about")))
        epoch, batch, iteration, seed = map(int, arrays.pop("position"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error) or type(error).__name__
        message = f"{path}: is no checkpoint, or damaged: {reason}"
        raise CheckpointError(message) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointError(f"{path}: is no checkpoint of the form {FORMAT}")
    return Checkpoint(arrays, Position(epoch, batch, iteration, seed), about)


def matched(
    checkpoint: Checkpoint, expected: Mapping[str, tuple[int, ...]], path: Path
) -> Mapping[str, NDArray[Any]]:
    """The arrays, if they are exactly those of these keys and shapes.

    Raises CheckpointError that names the first that is not.
    """
    for key, shape in expected.items():
        if key not in checkpoint.arrays:
            raise CheckpointError(
                f"{path}: is of another net, {checkpoint.about.get('net')}: it has no "
                f"{key}"
            )
        found = checkpoint.arrays[key].shape
        if found != shape:
            raise CheckpointError(
                f"{path}: is of another net, {checkpoint.about.get('net')}: {key} has "
                f"shape {found}, here {shape}"
            )
    for key in checkpoint.arrays:
        if key not in expected:
            raise CheckpointError(
                f"{path}: is of another net, {checkpoint.about.get('net')}: here is no "
                f"{key}"
            )
    return checkpoint.arrays
