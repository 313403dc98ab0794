"""Images and labels from a .npz file of NumPy."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snref.data.errors import DataError

NAMES = (
    ("images", "labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
)


def read(path: Path) -> tuple[NDArray[Any], ...]:
    """Training images and labels, test images and labels; the latter may be empty.

    Images are (n, H, W) or (n, C, H, W). Nothing is unpickled.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: is not a .npz file of arrays: {error}") from None
    names = next((n for n in NAMES if n[0] in arrays and n[1] in arrays), None)
    if names is None:
        raise DataError(
            f"{path}: holds {', '.join(arrays) or 'nothing'}; expected images and "
            "labels, or x_train and y_train"
        )
    images, labels = arrays[names[0]], arrays[names[1]]
    if images.ndim not in (3, 4):
        raise DataError(
            f"{path}: {names[0]} of shape {images.shape}; expected (n, H, W) or "
            "(n, C, H, W)"
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {names[1]} of shape {labels.shape} and type {labels.dtype}; "
            "expected one integer an image"
        )
    if images.dtype.kind not in "iuf":
        raise DataError(f"{path}: {names[0]} of type {images.dtype}; expected numbers")
    test_images = arrays.get(names[2], images[:0])
    test_labels = arrays.get(names[3], labels[:0])
    return images, labels, test_images, test_labels
