"""Labelled images to train on: bundled digits, IDX and NPZ files, synthetic ones.

Nothing is downloaded. A file that is cut short, of another kind or mislabelled is
refused before training starts, with its name and the offset or index of the fault.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.data import idx, npz, synthetic
from snref.data.errors import DataError

Images: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int32]

DIGITS = Path(__file__).parent / "digits.npz"
HELD_OUT = 360  # of the 1,797 digits, a fifth

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

    @property
    def classes(self) -> int:
        """One more than the largest label."""
        return 1 + int(max(self.labels.max(), self.test_labels.max(initial=0)))

    def order(self, seed: int, epoch: int) -> NDArray[np.intp]:
        """The order of the training images in an epoch: a function of both numbers."""
        return np.random.default_rng((seed, epoch)).permutation(len(self.images))

    def check(self, classes: int) -> None:
        """Raise DataError if a label is not one of so many classes."""
        for part, labels in (("", self.labels), ("test ", self.test_labels)):
            wrong = np.flatnonzero((labels < 0) | (labels >= classes))
            if len(wrong):
                raise DataError(
                    f"{self.name}: {part}label {labels[wrong[0]]} at index {wrong[0]}: "
                    f"the net has classes 0 to {classes - 1}"
                )


def load(
    source: str | Path,
    *,
    image_shape: tuple[int, ...] = (3, 32, 32),
    classes: int = 10,
    count: int = 512,
    seed: int = 0,
) -> Dataset:
    """The images of a source.

    "digits"     1,797 images of 8x8, ten classes, bundled; every fifth is held out
    "synthetic"  count images of image_shape in so many classes, from the seed
    a folder     with the four IDX files of MNIST or Fashion-MNIST, packed or not
    a .npz file  with images and labels, and test_images and test_labels if there are
                 (x_train, y_train, x_test, y_test will do)

    Files keep the shapes and classes they have; the values of integer images are
    scaled to 0..1, then all are shifted and scaled to mean 0 and deviation 1 over
    the training part.

    Raises DataError, naming the file and where it is wrong.
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
    """The bundled digits (data/README.md), in an order that does not change."""
    images, labels, *_ = npz.read(DIGITS)
    order = np.random.default_rng(0).permutation(len(images))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]
    images = images.astype(np.float32) / 16  # pixels are 0..16
    return images[kept], labels[kept], images[held], labels[held]


def _prepared(
    name: str,
    images: NDArray[Any],
    labels: NDArray[Any],
    test_images: NDArray[Any],
    test_labels: NDArray[Any],
) -> Dataset:
    """Checked, as float32 (n, C, H, W), shifted and scaled."""
    if len(images) == 0:
        raise DataError(f"{name}: no images")
    parts = []
    for part, array, marks in (
        ("", images, labels),
        ("test ", test_images, test_labels),
    ):
        if len(array) != len(marks):
            raise DataError(
                f"{name}: {len(array)} {part}images and {len(marks)} {part}labels"
            )
        if array.dtype.kind in "iu":
            array = array.astype(np.float32) / np.iinfo(array.dtype).max
        array = np.ascontiguousarray(array, np.float32)
        if array.ndim == 3:
            array = array[:, None]
        finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if not finite.all():
            raise DataError(
                f"{name}: {part}image {int(np.argmin(finite))} holds a value that is "
                "not a finite number"
            )
        parts += [array, np.ascontiguousarray(marks, np.int32)]
    images, labels, test_images, test_labels = parts
    if len(test_images) and test_images.shape[1:] != images.shape[1:]:
        raise DataError(
            f"{name}: images of {images.shape[1:]}, test images of "
            f"{test_images.shape[1:]}"
        )
    mean, deviation = images.mean(dtype=np.float64), images.std(dtype=np.float64)
    for array in (images, test_images):
        array -= np.float32(mean)
        array /= np.float32(deviation or 1.0)
    dataset = Dataset(name, images, labels, test_images, test_labels)
    for marks in (labels, test_labels):
        if len(marks) and marks.min() < 0:
            raise DataError(f"{name}: label {marks.min()} at index {marks.argmin()}")
    return dataset


def batches(dataset: Dataset, batch: int, seed: int, epoch: int) -> Iterator[Any]:
    """The indices of each batch of an epoch, the last one smaller if need be."""
    order = dataset.order(seed, epoch)
    return (order[start : start + batch] for start in range(0, len(order), batch))
