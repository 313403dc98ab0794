"""Images and labels from a .npz file of NumPy."""

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
    except Exception as error:  # a damaged file makes zipfile and NumPy raise anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{path}: is no .npz file, or damaged: {reason}") from None
    names = next((n for n in NAMES if n[0] in arrays and n[1] in arrays), None)
    if names is None:
        raise DataError(
            f"{path}: holds {', '.join(arrays) or 'nothing'}; expected images and "
            "labels, or x_train and y_train"
        )
    parts = [arrays[names[0]], arrays[names[1]]]
    for name, like in zip(names[2:], tuple(parts), strict=True):
        parts.append(arrays.get(name, like[:0]))
    for name, array, images in zip(names, parts, (True, False) * 2, strict=True):
        if images and (array.ndim not in (3, 4) or array.dtype.kind not in "iuf"):
            raise DataError(
                f"{path}: {name} is {array.dtype} of shape {array.shape}; expected "
                "numbers of (n, H, W) or (n, C, H, W)"
            )
        if not images and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise DataError(
                f"{path}: {name} is {array.dtype} of shape {array.shape}; expected an "
                "integer an image"
            )
    return tuple(parts)
