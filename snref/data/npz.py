"""Images and labels from a .npz file of NumPy."""

import zipfile
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from snref.data.errors import DataError

Shape: TypeAlias = tuple[int, ...]
Header: TypeAlias = tuple[Shape, np.dtype[Any]]

NAMES = (
    ("images", "labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
)


def read(path: Path) -> tuple[NDArray[Any], ...]:
    """Return training images and labels, test images and labels.

    Images are (n, H, W) or (n, C, H, W); without a test part its arrays are empty.
    Headers are checked first, and only what is needed is read. Nothing is unpickled.
    Raises DataError.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy") for name in archive.namelist()}
            names = next((n for n in NAMES if {*n[:2]} <= members), None)
            if names is None:
                found = ", ".join(sorted(members)) or "nothing"
                raise DataError(
                    f"{path}: holds {found}; expected images and labels, or x_train "
                    "and y_train"
                )
            headers = {
                name: _header(path, archive, name) for name in names if name in members
            }
        for part, images, labels in ("training", *names[:2]), ("test", *names[2:]):
            if (images in headers) != (labels in headers):
                raise DataError(f"{path}: has only one of {images} and {labels}")
            if images in headers:
                _check(path, part, images, headers[images], labels, headers[labels])
        with np.load(path, allow_pickle=False) as arrays:
            parts = [arrays[name] for name in headers]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except DataError:
        raise
    except Exception as error:  # a damaged file makes zipfile and NumPy raise anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{path}: is no .npz file, or damaged: {reason}") from None
    return (*parts, *(part[:0] for part in parts[: len(names) - len(parts)]))


def _header(path: Path, archive: zipfile.ZipFile, name: str) -> Header:
    """Return shape and type of an array, if the file has as many bytes as they say."""
    if f"{name}.npy" not in archive.namelist():
        raise DataError(f"{path}: {name} is no array: it should be called {name}.npy")
    with archive.open(f"{name}.npy") as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else None
        shape, _, dtype = (read or npy.read_array_header_2_0)(member)
        size = archive.getinfo(f"{name}.npy").file_size - member.tell()
    if dtype.hasobject:
        raise DataError(f"{path}: {name} holds objects, which only pickle could read")
    if size != prod(shape) * dtype.itemsize:
        raise DataError(
            f"{path}: {name} has {size} bytes, but {dtype} of shape {shape} has "
            f"{prod(shape) * dtype.itemsize}"
        )
    return shape, dtype


def _check(
    path: Path, part: str, images: str, x: Header, labels: str, y: Header
) -> None:
    """Raise DataError unless these are images and a label for each."""
    (shape, dtype), (marks, kind) = x, y
    if len(shape) not in (3, 4) or dtype.kind not in "iuf":
        raise DataError(
            f"{path}: {images} is {dtype} of shape {shape}; expected numbers of "
            "(n, H, W) or (n, C, H, W)"
        )
    if len(marks) != 1 or kind.kind not in "iu":
        hint = ""
        if len(marks) == 2:  # as Keras has them, or a class a column
            one = marks[1] == 1
            hint = f"; {labels}.{'ravel()' if one else 'argmax(axis=1)'} gives them"
        raise DataError(
            f"{path}: {labels} is {kind} of shape {marks}; expected an integer for "
            f"each image{hint}"
        )
    if shape[0] != marks[0]:
        raise DataError(
            f"{path}: {shape[0]} {part} images and {marks[0]} {part} labels"
        )
