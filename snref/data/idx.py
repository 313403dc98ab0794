"""IDX, the format of MNIST and Fashion-MNIST (LeCun, Cortes and Burges).

A magic number of four bytes (two zeros, the type, here 8 for unsigned bytes, and the
number of dimensions), each dimension as a big-endian integer of four bytes, the values.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.data.errors import DataError

Shape: TypeAlias = tuple[int, ...]

UNSIGNED_BYTE = 8
IMAGES, LABELS = 3, 1  # dimensions
PARTS = ("train", "t10k")
CHUNK = 2**20  # bytes, read at a time: memory grows with what is there, not with claims


def read_folder(folder: Path) -> tuple[NDArray[Any], ...]:
    """Return training images and labels, test images and labels, as unsigned bytes.

    All headers are compared before any array is read. Raises DataError.
    """
    files: list[tuple[Path, int, Shape]] = []
    for part in PARTS:
        images = _found(folder, f"{part}-images-idx3-ubyte")
        labels = _found(folder, f"{part}-labels-idx1-ubyte")
        count, *size = _shape(images, IMAGES)
        (marks,) = _shape(labels, LABELS)
        if count != marks:
            raise DataError(
                f"{folder}: {images.name} has {count} images, but {labels.name} has "
                f"{marks} labels"
            )
        files += [(images, IMAGES, (count, *size)), (labels, LABELS, (marks,))]
    return tuple(_values(*file) for file in files)


def _found(folder: Path, name: str) -> Path:
    """Return the path of a file, packed by gzip or not."""
    for path in folder / name, folder / f"{name}.gz":
        if path.is_file():
            return path
    raise DataError(f"{folder}: has neither {name} nor {name}.gz")


def _shape(path: Path, dimensions: int) -> Shape:
    """Return the shape in a file's header. Raises DataError with an offset."""
    with _unpacked(path) as file:
        raw = file.read(_header(dimensions))
    if len(raw) < _header(dimensions):
        raise DataError(
            f"{path}: offset {len(raw)}: the file ends within its header of "
            f"{_header(dimensions)} bytes"
        )
    magic = int.from_bytes((0, 0, UNSIGNED_BYTE, dimensions), "big")
    found = int.from_bytes(raw[:4], "big")
    if found != magic:
        raise DataError(f"{path}: offset 0: magic number {found}, expected {magic}")
    sizes = [raw[at : at + 4] for at in range(4, len(raw), 4)]
    shape = tuple(int.from_bytes(size, "big") for size in sizes)
    if 0 in shape:
        offset = 4 + 4 * shape.index(0)
        raise DataError(f"{path}: offset {offset}: shape {shape}: there are no values")
    return shape


def _values(path: Path, dimensions: int, shape: Shape) -> NDArray[np.uint8]:
    """Return the array of a file, whose header says this shape."""
    end = _header(dimensions) + prod(shape)
    raw = bytearray()
    with _unpacked(path) as file:
        # One byte more than there should be tells that the file is too long.
        while chunk := file.read(min(CHUNK, end + 1 - len(raw))):
            raw += chunk
    if len(raw) != end:
        found = f"{len(raw)} bytes" if len(raw) < end else "more bytes"
        raise DataError(
            f"{path}: offset {min(len(raw), end)}: {found}, but a file of shape "
            f"{shape} has {end}"
        )
    return np.frombuffer(raw, np.uint8, offset=_header(dimensions)).reshape(shape)


def _header(dimensions: int) -> int:
    """Return the bytes before the values."""
    return 4 + 4 * dimensions


@contextmanager
def _unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read what it holds, unpacked. Raises DataError with the offset."""
    file: Any = None
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            with gzip.open(plain) if packed else plain as file:
                yield file
    except (OSError, EOFError, zlib.error) as error:
        offset = 0 if file is None or file.closed else file.tell()
        raise DataError(f"{path}: offset {offset}: cannot be read: {error}") from None
