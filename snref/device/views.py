"""What devices share: how kernels see what a launch gives them, and bounds."""

from math import prod

import numpy as np

from snref.plans import Shape, Tensor, View


def viewed(shape: Shape, view: View) -> Shape:
    """The shape under which a kernel sees a tensor; one dimension stays one.

    >>> [viewed((2, 3, 5, 5), view) for view in ("rows", "channels", "flat")]
    [(2, 75), (2, 3, 25), (150,)]
    >>> viewed((2, 3), "channels"), viewed((3,), "channels")
    ((2, 3, 1), (3,))
    """
    if len(shape) < 2 or view == "shape":
        return shape
    if view == "rows":
        return (shape[0], prod(shape[1:]))
    if view == "channels":
        return (*shape[:2], prod(shape[2:]))
    return (prod(shape),)


def number(scalar: int | float) -> int | np.float32:
    """A scalar of a launch: fractions are float32, as everything is."""
    return np.float32(scalar) if isinstance(scalar, float) else scalar


def check_place(tensor: Tensor, offset: int, slab: int) -> None:
    """Raise ValueError unless a tensor at this offset lies in a slab of this size."""
    if offset < 0 or offset + tensor.aligned_bytes > slab:
        raise ValueError(
            f"{tensor.name}: {tensor.aligned_bytes} bytes at {offset} do not fit a "
            f"slab of {slab} bytes"
        )
