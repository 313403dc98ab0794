"""Checkpoints: all that a training needs to continue as if it had never stopped.

A ``.npz`` file that ``numpy.load`` reads with ``allow_pickle=False``. Its keys:

    parameter/NAME   a parameter: conv1.w, conv1.b, bn1.gamma ...
    momentum/NAME    its momentum, by the parameter's name and ".momentum"
    state/NAME       a saved tensor that updates change, as a running mean is
    position         the next epoch and batch, and the iteration: three int64
    about            ``About`` as JSON: all else that decides the bits to come

The random numbers of dropout and of the order of images are functions of seed, epoch
and iteration, so the position is their state, too.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from errno import EEXIST
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.support.files import replacing
from snref.training.settings import Settings

FORMAT = "snref.checkpoint/2"

Array: TypeAlias = NDArray[Any]
Identity: TypeAlias = tuple[int, int, int] | None


class CheckpointError(ValueError):
    """A file that is no checkpoint, is damaged, or is of another training."""


@dataclass(frozen=True)
class Position:
    """Where a training is: the epoch and batch that come next."""

    epoch: int = 0
    batch: int = 0
    iteration: int = 0


@dataclass(frozen=True)
class About:
    """All that decides the bits to come, beside the arrays and the position.

    net, layers   the net's name; each layer with its settings and what it reads
    input         shape of a batch
    data          where the images are from; data_hash: of training images and labels
    orders        layer -> part of its convolution -> order of summation
    epochs        how many there are to be; they and the settings may change
    """

    net: str
    layers: tuple[str, ...]
    input: tuple[int, ...]
    data: str
    data_hash: str
    images: int
    seed: int
    init: str
    algorithms: str
    orders: Mapping[str, Mapping[str, str]]
    epochs: int
    settings: Settings


@dataclass(frozen=True)
class Checkpoint:
    """A training between two iterations: its arrays by key, position and settings."""

    arrays: Mapping[str, Array]
    position: Position
    about: About


def save(path: Path, checkpoint: Checkpoint) -> Identity:
    """Write the file whole or not at all, even if the process is killed meanwhile.

    Returns its identity, as ``identity`` does. Raises OSError, which names the path.
    """
    arrays = dict(checkpoint.arrays)
    arrays["position"] = np.array(astuple(checkpoint.position), np.int64)
    arrays["about"] = np.array(
        json.dumps({"format": FORMAT, **asdict(checkpoint.about)})
    )
    try:
        with replacing(path.resolve()) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            return _identity(os.fstat(file.fileno()))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def identity(path: Path) -> Identity:
    """Return numbers that tell one file from the next of its name; None if none is."""
    try:
        return _identity(path.stat())
    except OSError:
        return None


def _identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_mtime_ns, status.st_size


class Keeper:
    """Saves the checkpoints of one run to one file; a failure ends nothing.

    The file is overwritten only if it is the one that was there when the run began, or
    one that this run wrote. If it cannot be written, the checkpoint is put into the
    folder for temporary files, and ``warn`` is called with a message that says so.

    saved   the file with the last checkpoint; None if it could be saved nowhere
    """

    def __init__(self, path: Path, warn: Callable[[str], object]) -> None:
        self.path, self.warn = path, warn
        self.spare = Path(tempfile.gettempdir(), f"snref-{os.getpid()}.npz")
        self.saved: Path | None = None
        self._known = identity(path)

    def save(self, checkpoint: Checkpoint) -> None:
        """Save to the file or, if that fails, to the spare file. Raises no OSError."""
        try:
            if identity(self.path) not in (None, self._known):
                reason = "another process has written it meanwhile"
                raise FileExistsError(EEXIST, reason)
            self._known = save(self.path, checkpoint)
        except OSError as error:
            self._rescue(checkpoint, error)
            return
        if self.saved == self.spare:
            self.spare.unlink(missing_ok=True)
        self.saved = self.path

    def _rescue(self, checkpoint: Checkpoint, error: OSError) -> None:
        message = f"{self.path}: not saved: {error.strerror}"
        try:
            save(self.spare, checkpoint)
        except OSError as second:
            self.saved = None
            self.warn(f"{message}; {self.spare}: {second.strerror}")
        else:
            self.saved = self.spare
            self.warn(f"{message}; the checkpoint is in {self.spare}")


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError, which says what is wrong."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        said = json.loads(str(arrays.pop("about")))
        position = Position(*map(int, arrays.pop("position")))
        form = said.pop("format")
        if form == FORMAT:
            return Checkpoint(arrays, position, _about(said, position))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except Exception as error:  # a damaged file makes zipfile and NumPy raise anything
        reason = str(error) or type(error).__name__
        if "allow_pickle" in reason:  # NumPy's advice for what is no archive of its own
            reason = "it is no .npz file"
        message = f"{path}: is no checkpoint, or damaged: {reason}"
        raise CheckpointError(message) from None
    raise CheckpointError(
        f"{path}: is of the form {form}; this version of snref reads {FORMAT}"
    )


def _about(said: dict[str, Any], at: Position) -> About:
    """Return what a file says of itself, if it does not contradict its position."""
    about = About(**said)
    about = replace(
        about,
        layers=tuple(map(str, about.layers)),
        input=tuple(map(int, about.input)),
        images=int(about.images),
        data_hash=str(about.data_hash),
        seed=int(about.seed),
        orders={layer: dict(parts) for layer, parts in about.orders.items()},
        epochs=int(about.epochs),
        settings=Settings(**said["settings"]),
    )
    if about.seed < 0:
        raise ValueError(f"seed {about.seed}")
    batches = -(-about.images // about.input[0])
    if min(astuple(at)) < 0 or at.batch >= batches:
        raise ValueError(f"{at}, of {batches} batches")
    if at.iteration != at.epoch * batches + at.batch:
        raise ValueError(f"{at} contradicts epochs of {batches} batches")
    return about


def check_same(found: Checkpoint, here: About, path: Path) -> None:
    """Raise CheckpointError if continuing here would not end in the same bits.

    The message has both values. Epochs and settings may differ, and so may the name
    and the place of equal data.
    """
    there = found.about
    for left, right in zip_longest(there.layers, here.layers):
        if left != right:
            raise CheckpointError(
                f"{path}: is of another net, {there.net}: it has {left or 'no more'}, "
                f"here is {right or 'no more'}"
            )
    for what, left, right in (
        ("batch", there.input[0], here.input[0]),
        ("images of", there.input[1:], here.input[1:]),
        ("other data: its hash was", there.data_hash[:16], here.data_hash[:16]),
        ("seed", there.seed, here.seed),
        ("init", there.init, here.init),
    ):
        if left != right:
            raise CheckpointError(
                f"{path}: was trained with {what} {left}, here it is {right}"
            )
    for layer, parts in here.orders.items():
        for part, order in parts.items():
            before = there.orders.get(layer, {}).get(part)
            if before != order:
                raise CheckpointError(
                    f"{path}: was trained with algorithms that sum in another order: "
                    f"{layer} {part} in {before}, here in {order}"
                )


def matched(
    checkpoint: Checkpoint, expected: Mapping[str, tuple[int, ...]], path: Path
) -> Mapping[str, Array]:
    """Return the arrays, if they are finite float32 of exactly these keys and shapes.

    Raises CheckpointError that names the first that is not.
    """
    net = checkpoint.about.net
    for key, shape in expected.items():
        if key not in checkpoint.arrays:
            raise CheckpointError(f"{path}: is of another net, {net}: it has no {key}")
        found = checkpoint.arrays[key]
        if found.shape != shape or found.dtype != np.float32:
            raise CheckpointError(
                f"{path}: is of another net, {net}: {key} is {found.dtype} of shape "
                f"{found.shape}, here float32 of {shape}"
            )
        if not np.isfinite(found).all():
            raise CheckpointError(
                f"{path}: is damaged: {key} has a value that is not finite"
            )
    for key in checkpoint.arrays:
        if key not in expected:
            raise CheckpointError(f"{path}: is of another net, {net}: here is no {key}")
    return checkpoint.arrays
