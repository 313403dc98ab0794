"""Shapes of images under a sliding window, and the checks of a layer's inputs."""

from typing import TypeAlias

from snref.plans import Shape

Pair: TypeAlias = int | tuple[int, int]
Padding: TypeAlias = int | tuple[int, int] | tuple[int, int, int, int]

MOST_ROWS = 65535  # blocks of a grid in its second or third dimension, on every GPU


def pair(value: Pair) -> tuple[int, int]:
    """Return (height, width) of one number for both, or of one for each."""
    return (value, value) if isinstance(value, int) else value


def sides(padding: Padding) -> tuple[int, int, int, int]:
    """Return the padding of the top, bottom, left and right side.

    >>> sides(1), sides((0, 3)), sides((0, 1, 0, 1))
    ((1, 1, 1, 1), (0, 0, 3, 3), (0, 1, 0, 1))
    """
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) == 2:
        return (padding[0], padding[0], padding[1], padding[1])
    return padding


def check_window(kernel: Pair, stride: Pair, padding: Padding) -> None:
    """Raise ValueError unless kernel and stride are >= 1 and padding is >= 0."""
    for what, value, counts, least in (
        ("kernel", kernel, (2,), 1),
        ("stride", stride, (2,), 1),
        ("padding", padding, (2, 4), 0),
    ):
        numbers = (value,) if isinstance(value, int) else value
        if not isinstance(value, int) and (
            not isinstance(value, tuple) or len(value) not in counts
        ):
            allowed = " or ".join(map(str, counts))
            raise ValueError(f"{what} {value!r}: must be one number or {allowed}")
        if not all(isinstance(n, int) for n in numbers):
            raise ValueError(f"{what} {value}: every number must be whole")
        if min(numbers) < least:
            raise ValueError(f"{what} {value}: every number must be >= {least}")


def positions(image: Shape, kernel: Pair, stride: Pair, padding: Padding) -> Shape:
    """Return the height and width of the output: the number of places of a window.

    The window starts in the padding and stays inside it. Pixels at the end that no
    window reaches are not read.

    >>> positions((227, 227), 11, 4, 0)
    (55, 55)
    """
    top, bottom, left, right = sides(padding)
    padded = image[0] + top + bottom, image[1] + left + right
    (r, s), (down, across) = pair(kernel), pair(stride)
    if padded[0] < r or padded[1] < s:
        raise ValueError(
            f"an image of {padded[0]}x{padded[1]}, padding included, is smaller than "
            f"the kernel of {r}x{s}"
        )
    return (padded[0] - r) // down + 1, (padded[1] - s) // across + 1


def one(inputs: tuple[Shape, ...]) -> Shape:
    """Return the shape of the only input."""
    if len(inputs) != 1:
        raise ValueError(f"{len(inputs)} inputs: this layer has exactly one")
    return inputs[0]


def image(inputs: tuple[Shape, ...]) -> Shape:
    """Return the shape of the only input, a batch of images (N, C, H, W)."""
    shape = one(inputs)
    if len(shape) != 4:
        raise ValueError(f"an input of shape {shape}: it must be (N, C, H, W)")
    return shape


def several(inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Return the shapes of two or more inputs."""
    if len(inputs) < 2:
        raise ValueError(f"{len(inputs)} input: a join has at least 2")
    return inputs


def rows(count: int) -> int:
    """Return the rows of blocks of a grid, for a kernel that loops over a count."""
    return min(count, MOST_ROWS)
