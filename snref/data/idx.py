"""IDX, the format of MNIST and Fashion-MNIST (LeCun, Cortes and Burges).

A magic number of four bytes (two zeros, the type, here 8 for unsigned bytes, and the
number of dimensions), each dimension as a big-endian integer of four bytes, the values.
"""

import gzip
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snref.data.errors import DataError

UNSIGNED_BYTE = 8
FILES = (
    ("train-images-idx3-ubyte", 3),
    ("train-labels-idx1-ubyte", 1),
    ("t10k-images-idx3-ubyte", 3),
    ("t10k-labels-idx1-ubyte", 1),
)
CHUNK = 2**16  # bytes, read at a time: a damaged packed file is bad after one of them


def read_folder(folder: Path) -> tuple[NDArray[Any], ...]:
    """Training images and labels, test images and labels, as unsigned bytes."""
    parts = []
    for name, dimensions in FILES:
        paths = [folder / name, folder / f"{name}.gz"]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise DataError(f"{folder}: has neither {name} nor {name}.gz")
        parts.append(read(path, dimensions))
    return tuple(parts)


def read(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of an IDX file, packed by gzip or not.

    Raises DataError with the offset in the unpacked file.
    """
    raw = _unpacked(path)
    header = 4 + 4 * dimensions
    if len(raw) < header:
        raise DataError(
            f"{path}: offset {len(raw)}: the file ends within its header of {header} "
            "bytes"
        )
    magic = int.from_bytes((0, 0, UNSIGNED_BYTE, dimensions), "big")
    found = int.from_bytes(raw[:4], "big")
    if found != magic:
        raise DataError(f"{path}: offset 0: magic number {found}, expected {magic}")
    shape = tuple(int.from_bytes(raw[at : at + 4], "big") for at in range(4, header, 4))
    end = header + prod(shape)
    if len(raw) != end:
        raise DataError(
            f"{path}: offset {min(len(raw), end)}: {len(raw)} bytes, but a file of "
            f"shape {shape} has {end}"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _unpacked(path: Path) -> bytearray:
    """All bytes of a file, unpacked if they are packed."""
    raw = bytearray()
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            with gzip.open(plain) if packed else plain as file:
                while chunk := file.read(CHUNK):
                    raw += chunk
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: offset {len(raw)}: cannot be read: {error}") from None
    return raw
