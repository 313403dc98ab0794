"""Parse and print what people write and read: sizes, option values, messages."""

import re
from collections.abc import Sequence
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
DIGITS = 40  # the longest number that is accepted
_SIZE = re.compile(r"(\d+\.?\d*|\.\d+)\s*([a-zA-Z]*)")


def parsed(size: str | int) -> int:
    """Parse a size that a person wrote. Returns bytes.

    Raises ValueError that names what is allowed.

    >>> parsed("1.5GiB"), parsed("2 MB"), parsed(512)
    (1610612736, 2000000, 512)
    """
    match = _SIZE.fullmatch(str(size).strip())
    if not match or match[2].upper() not in UNITS or len(match[1]) > DIGITS:
        raise ValueError(
            f"{shortened(size)} is no size: a number >= 0 of bytes, "
            "or with KB, MB, GB (powers of 1000), KiB, MiB or GiB (of 1024)"
        )
    if not match[2] and "." in match[1]:
        raise ValueError(f"{match[1]} is no whole number of bytes; {match[1]}GiB?")
    return int(Fraction(match[1]) * UNITS[match[2].upper()])


def shortened(value: object) -> str:
    """Return a value as Python writes it, cut at 40 characters.

    >>> shortened("conv1"), shortened("9" * 100)
    ("'conv1'", "'999999999999999999999999999999999999...")
    """
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def one_of(what: str, value: object, allowed: Sequence[object]) -> None:
    """Raise ValueError that names the allowed values, unless the value is one.

    >>> one_of("recompute", "speed", (None, "speed-centric"))
    Traceback (most recent call last):
    ValueError: recompute 'speed': must be one of None, 'speed-centric'
    """
    if value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ValueError(f"{what} {shortened(value)}: must be one of {words}")


def mebibytes(nbytes: int) -> str:
    """Print bytes in MiB = 2^20 bytes, as the papers do.

    >>> mebibytes(232320000)
    '221.558'
    """
    return f"{nbytes / 2**20:.3f}"
