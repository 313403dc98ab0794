"""Bytes as people write and read them. In code, bytes are bytes."""

import re
from fractions import Fraction

UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}
_SIZE = re.compile(r"(\d+\.?\d*|\.\d+)\s*([a-zA-Z]*)")


def parsed(size: str | int) -> int:
    """A number of bytes from what a person wrote.

    Raises ValueError that names what is allowed.

    >>> parsed("1.5GiB"), parsed("2 MB"), parsed(512)
    (1610612736, 2000000, 512)
    """
    match = _SIZE.fullmatch(str(size).strip())
    if not match or match[2].upper() not in UNITS:
        raise ValueError(
            f"{size!r} is no size: a number >= 0 of bytes, "
            "or with KB, MB, GB (powers of 1000), KiB, MiB or GiB (of 1024)"
        )
    return int(Fraction(match[1]) * UNITS[match[2].upper()])


def mebibytes(nbytes: int) -> str:
    """Bytes in MiB = 2^20 bytes, as the papers print them.

    >>> mebibytes(232320000)
    '221.558'
    """
    return f"{nbytes / 2**20:.3f}"
