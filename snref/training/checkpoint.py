"""Checkpoints: all that a training needs to go on as if it had never stopped.

A ``.npz`` file that ``numpy.load`` reads with ``allow_pickle=False``. Its keys:

    parameter/NAME   a parameter: conv1.w, conv1.b, bn1.gamma ...
    momentum/NAME    its momentum, by the parameter's name and ".momentum"
    state/NAME       a running statistic of batch normalization
    position         the next epoch and batch, the iteration, the seed: four int64
    about            what it is of, as JSON: the net's name, the shape of its input,
                     the data's name and how many images it trains on

The random numbers of dropout and of the order of images are functions of seed, epoch
and iteration, so the position is their state, too.
"""

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snref.support.files import replacing

FORMAT = "snref.checkpoint/1"


class CheckpointError(ValueError):
    """A file that is no checkpoint, is damaged, or is of another training."""


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

    Raises OSError, which names the path.
    """
    arrays = dict(checkpoint.arrays)
    arrays["position"] = np.array(astuple(checkpoint.position), np.int64)
    arrays["about"] = np.array(json.dumps({"format": FORMAT, **checkpoint.about}))
    try:
        with replacing(path.resolve()) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError, which says what is wrong."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        about = json.loads(str(arrays.pop("about")))
        position = Position(*map(int, arrays.pop("position")))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except Exception as error:  # a damaged file makes zipfile and NumPy raise anything
        reason = str(error) or type(error).__name__
        message = f"{path}: is no checkpoint, or damaged: {reason}"
        raise CheckpointError(message) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointError(f"{path}: is no checkpoint of the form {FORMAT}")
    if min(astuple(position)) < 0:
        raise CheckpointError(f"{path}: is damaged: {position}")
    return Checkpoint(arrays, position, about)


def matched(
    checkpoint: Checkpoint, expected: Mapping[str, tuple[int, ...]], path: Path
) -> Mapping[str, NDArray[Any]]:
    """The arrays, if they are exactly those of these keys and shapes, and float32.

    Raises CheckpointError that names the first that is not.
    """
    net = checkpoint.about.get("net")
    for key, shape in expected.items():
        if key not in checkpoint.arrays:
            raise CheckpointError(f"{path}: is of another net, {net}: it has no {key}")
        found = checkpoint.arrays[key]
        if found.shape != shape or found.dtype != np.float32:
            raise CheckpointError(
                f"{path}: is of another net, {net}: {key} is {found.dtype} of shape "
                f"{found.shape}, here float32 of {shape}"
            )
    for key in checkpoint.arrays:
        if key not in expected:
            raise CheckpointError(f"{path}: is of another net, {net}: here is no {key}")
    return checkpoint.arrays
