"""Device functions for the index arithmetic that the convolutions share."""

from numba import cuda


@cuda.jit(device=True)
def unravel(d, R, S):
    """(c, r, s) with d = (c R + r) S + s: the place that row d of X stands for."""
    c = d // (R * S)
    r = (d - c * (R * S)) // S
    return c, r, d - (c * R + r) * S


@cuda.jit(device=True)
def phase_along(first, stride, pad, filter_size, size):
    """A phase along one axis: the pixels that meet the filter's places first,
    first + stride, ...

    Returns how many such places there are, the first pixel, how many pixels there are,
    and the output that meets the first pixel at place `first`. Pixels are one stride
    apart, and so are places; outputs follow each other.
    """
    places = max((filter_size - first + stride - 1) // stride, 0)
    output = (pad - first + stride - 1) // stride
    pixel = output * stride + first - pad
    pixels = max((size - pixel + stride - 1) // stride, 0)
    return places, pixel, pixels, output
