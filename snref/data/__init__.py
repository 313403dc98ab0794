"""Labelled images to train on: bundled digits, IDX and NPZ files, synthetic ones.

Nothing is downloaded. A file that is truncated, of another kind or mislabelled is
refused before training starts. The error names the file and the offset or index.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.data import idx, npz, synthetic
from snref.data.errors import DataError

Images: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int32]

BUNDLED = ("digits", "synthetic")  # sources that are no files
DIGITS = Path(__file__).parent / "digits.npz"
HELD_OUT = 360  # of the 1,797 digits, a fifth
LARGEST_LABEL = 2**31 - 1

__all__ = ["DataError", "Dataset", "load"]


@dataclass(frozen=True)
class Dataset:
    """Images (n, C, H, W), float32, and their labels (n,), int32, in two parts."""

    name: str
    images: Images = field(repr=False)
    labels: Labels = field(repr=False)
    test_images: Images = field(repr=False)
    test_labels: Labels = field(repr=False)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self.images.shape[1:]

    def batches(self, batch: int, seed: int, epoch: int) -> list[NDArray[np.intp]]:
        """Return the batches of an epoch, each as the indices of its images.

        Their order is a function of seed and epoch. The last batch is smaller if
        ``batch`` does not divide the number of images.

        >>> images = np.zeros((5, 1, 2, 2), np.float32)
        >>> labels = np.zeros(5, np.int32)
        >>> five = Dataset("five", images, labels, images[:0], labels[:0])
        >>> [len(indices) for indices in five.batches(2, seed=0, epoch=0)]
        [2, 2, 1]
        """
        order = np.random.default_rng((seed, epoch)).permutation(len(self.images))
        return [order[start : start + batch] for start in range(0, len(order), batch)]

    def check(self, classes: int) -> None:
        """Raise DataError if a label is not in 0 ... classes - 1."""
        for part, labels in (("training", self.labels), ("test", self.test_labels)):
            _check_labels(self.name, part, labels, classes)


def load(
    source: str | Path,
    *,
    image_shape: tuple[int, ...] = (3, 32, 32),
    classes: int = 10,
    count: int = 512,
    seed: int = 0,
) -> Dataset:
    """Load the images of a source.

    "digits"     1,797 images of 8x8, ten classes, bundled; every fifth is held out
    "synthetic"  ``count`` images of ``image_shape`` in ``classes`` classes
    a folder     with the four IDX files of MNIST or Fashion-MNIST, packed or not
    a .npz file  with images and labels, and optionally test_images and test_labels
                 (or x_train, y_train, x_test, y_test)

    image_shape, classes, count and seed describe synthetic images only; files keep
    their own shapes and classes. All values are shifted and scaled to mean 0 and
    deviation 1 over the training part.

    Raises DataError, which names the file and the place of the fault.
    """
    if str(source) == "synthetic":
        parts = synthetic.make(image_shape, classes, count, seed)
    elif str(source) == "digits":
        parts = _digits()
    elif Path(source).is_dir():
        parts = idx.read_folder(Path(source))
    elif Path(source).suffix == ".npz":
        parts = npz.read(Path(source))
    else:
        raise DataError(
            f"{source}: no such data; give digits, synthetic, a folder of IDX files "
            "or a .npz file"
        )
    return _prepared(str(source), *parts)


def _digits() -> tuple[NDArray[Any], ...]:
    """Return the bundled digits (data/README.md), in an order that never changes."""
    images, labels, *_ = npz.read(DIGITS)
    order = np.random.default_rng(0).permutation(len(images))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]
    return images[kept], labels[kept], images[held], labels[held]


def _prepared(
    name: str,
    images: NDArray[Any],
    labels: NDArray[Any],
    test_images: NDArray[Any],
    test_labels: NDArray[Any],
) -> Dataset:
    """Check the arrays, and convert the images to scaled float32 (n, C, H, W)."""
    if images.size == 0:
        raise DataError(f"{name}: images of shape {images.shape}: there are none")
    for part, array, marks in (
        ("training", images, labels),
        ("test", test_images, test_labels),
    ):
        if len(array) != len(marks):
            raise DataError(
                f"{name}: {len(array)} {part} images and {len(marks)} {part} labels"
            )
        _check_labels(name, part, marks, LARGEST_LABEL)
    images = _as_float32(images)
    test_images = _as_float32(test_images)
    if len(test_images) and test_images.shape[1:] != images.shape[1:]:
        raise DataError(
            f"{name}: training images of {images.shape[1:]}, test images of "
            f"{test_images.shape[1:]}"
        )
    _check_finite(name, "training", images)
    mean, deviation = images.mean(dtype=np.float64), images.std(dtype=np.float64)
    for part, array in ("training", images), ("test", test_images):
        with np.errstate(over="ignore", invalid="ignore"):
            array -= np.float32(mean)
            array /= np.float32(deviation) or np.float32(1)
        _check_finite(name, part, array, " when it is scaled")
    return Dataset(
        name,
        images,
        labels.astype(np.int32),
        test_images,
        test_labels.astype(np.int32),
    )


def _as_float32(images: NDArray[Any]) -> Images:
    """Copy images as float32 with channels; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        images = np.array(images, np.float32)
    return images if images.ndim == 4 else images[:, None]


def _check_finite(name: str, part: str, images: Images, when: str = "") -> None:
    """Raise DataError if a value is infinite or NaN."""
    finite = np.isfinite(images).all(axis=tuple(range(1, images.ndim)))
    if not finite.all():
        raise DataError(
            f"{name}: {part} image {int(np.argmin(finite))} holds a value that is not "
            f"a finite number{when}"
        )


def _check_labels(name: str, part: str, labels: NDArray[Any], classes: int) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise DataError(
            f"{name}: {part} label {labels[wrong[0]]} at index {wrong[0]}: "
            f"there are classes 0 to {classes - 1}"
        )
