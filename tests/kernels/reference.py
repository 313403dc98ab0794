"""What the kernel tests share: launching, checking, and float64 references.

The references are as slow and as obvious as NumPy allows; the kernels are compared
with them, with central differences of them, and with PyTorch where it is installed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref import simt
from snref.device.views import viewed
from snref.kernels import find
from snref.plans import Launch, Tensor

Array: TypeAlias = NDArray[Any]
Dimensions: TypeAlias = int | tuple[int, ...]
Compute: TypeAlias = Callable[..., Sequence[Array]]
"""A computation under test: compute(*inputs, threads=None) returns its outputs."""


# Launching


FENCE = 64  # elements on each side of an array, which no kernel may touch


def fenced(value: Array) -> Array:
    """A copy of an array with a fence on both sides, for assert_fences."""
    whole = np.full(value.size + 2 * FENCE, 0xA5, np.uint8).repeat(value.itemsize)
    inner = whole.view(value.dtype)[FENCE : FENCE + value.size].reshape(value.shape)
    inner[...] = value
    return inner


def assert_fences(inner: Array) -> None:
    """Fail if somebody wrote before or behind an array that is fenced."""
    whole = inner.base
    while whole.base is not None:
        whole = whole.base
    sides = FENCE * inner.itemsize
    assert (whole[:sides] == 0xA5).all(), "written before the first element"
    assert (whole[-sides:] == 0xA5).all(), "written behind the last element"


def blank(shape: Dimensions) -> Array:
    """A float32 array full of NaN, so that an element nobody writes is seen."""
    return fenced(np.full(shape, np.nan, np.float32))


def launch(
    kernel: Any,
    grid: Dimensions,
    block: Dimensions,
    outputs: Sequence[Dimensions],
    inputs: Sequence[Array],
    scalars: Sequence[int | float] = (),
    threads: int | None = None,
) -> list[Array]:
    """Run kernel(*outputs, *inputs, *scalars) on outputs full of NaN; return those.

    Outputs are given by shape. Fails if the kernel wrote into an input, or beside any
    array.
    """
    results = [blank(shape) for shape in outputs]
    copies = [fenced(value) for value in inputs]
    numbers = [np.float32(s) if isinstance(s, float) else s for s in scalars]
    simt.compile(kernel, threads=threads)[grid, block](*results, *copies, *numbers)
    for array in (*results, *copies):
        assert_fences(array)
    for before, after in zip(inputs, copies, strict=True):
        assert_same_bits(before, after)
    return results


def launch_over(
    kernel: Any,
    grid: Dimensions,
    block: Dimensions,
    over: int,
    inputs: Sequence[Array],
    scalars: Sequence[int | float] = (),
) -> Array:
    """Run a kernel whose output lies on the memory of inputs[over]; return it."""
    copies = [fenced(value) for value in inputs]
    numbers = [np.float32(s) if isinstance(s, float) else s for s in scalars]
    simt.compile(kernel)[grid, block](copies[over], *copies, *numbers)
    for array in copies:
        assert_fences(array)
    for i, (before, after) in enumerate(zip(inputs, copies, strict=True)):
        if i != over:
            assert_same_bits(before, after)
    return copies[over]


def execute(
    launches: Sequence[Launch],
    given: Mapping[Tensor, Array],
    wanted: Sequence[Tensor],
    threads: int | None = None,
) -> list[Array]:
    """Run a layer's launches as they are declared; return the wanted tensors.

    Whatever is not given starts full of NaN. Fails if a launch changes a given
    tensor that it does not declare as an output.
    """
    arrays = {tensor: fenced(value) for tensor, value in given.items()}
    for launch in launches:
        tensors = (*launch.outputs, *launch.inputs)
        for tensor in tensors:
            if tensor not in arrays:
                arrays[tensor] = blank(tensor.shape)
        kernel = simt.compile(find(launch.kernel), threads=threads)
        kernel[launch.grid, launch.block](
            *(arrays[t].reshape(viewed(t.shape, launch.view)) for t in tensors),
            *(np.float32(s) if isinstance(s, float) else s for s in launch.scalars),
        )
    for array in arrays.values():
        assert_fences(array)
    changed = {tensor for launch in launches for tensor in launch.outputs}
    for tensor, value in given.items():
        if tensor not in changed:
            assert_same_bits(value, arrays[tensor])
    return [arrays[tensor] for tensor in wanted]


# Checking


def assert_close(actual: Array, expected: Array, terms: int = 1) -> None:
    """Compare a float32 result with a float64 one, each a sum of `terms` products.

    Rounding errors of a sum grow like the square root of its terms, by one unit in
    the last place of its typical size each; eight times that leaves room for the
    unlucky element, and a wrong or missing term is far outside.
    """
    assert actual.shape == expected.shape
    assert np.isfinite(actual).all()
    size = max(float(np.sqrt(np.mean(np.square(expected)))), 1e-30)
    unit = float(np.finfo(np.float32).eps)
    limit = 8 * unit * np.sqrt(max(terms, 1)) * (size + np.abs(expected))
    excess = np.abs(actual.astype(np.float64) - expected) / limit
    worst = np.unravel_index(int(excess.argmax()), excess.shape)
    assert excess[worst] <= 1, (
        f"element {tuple(map(int, worst))}: {actual[worst]} instead of "
        f"{expected[worst]}, {excess[worst]:.1f} times the allowed error"
    )


def assert_same_bits(first: Array, second: Array) -> None:
    """Equal to the last bit, NaN and the sign of zero included."""
    assert first.shape == second.shape and first.dtype == second.dtype
    assert first.tobytes() == second.tobytes()


def assert_repeatable(compute: Compute, *inputs: Array) -> None:
    """Two runs give the same bits, and so do one thread and two."""
    once = compute(*inputs, threads=1)
    for threads in (1, 2):
        for a, b in zip(once, compute(*inputs, threads=threads), strict=True):
            assert_same_bits(a, b)


def poisoned(value: Array) -> Array:
    """The same array spoilt: NaN everywhere, or every index another one."""
    return np.full_like(value, np.nan) if value.dtype.kind == "f" else value ^ 1


def assert_reads(compute: Compute, *inputs: Array) -> None:
    """Every declared input matters: spoiling it changes the result."""
    clean = [output.tobytes() for output in compute(*inputs)]
    for i in range(len(inputs)):
        spoilt = [poisoned(v) if i == j else v for j, v in enumerate(inputs)]
        outputs = [output.tobytes() for output in compute(*spoilt)]
        assert outputs != clean, f"input {i} has no influence"


def central_difference(
    f: Callable[[Array], Array], x: Array, dy: Array, step: float = 1e-3
) -> Array:
    """The gradient of sum(f(x) * dy) by x, in float64, one element at a time."""
    x = x.astype(np.float64)
    gradient = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        here = x[i]
        x[i] = here + step
        above = float(np.sum(f(x) * dy))
        x[i] = here - step
        below = float(np.sum(f(x) * dy))
        x[i] = here
        gradient[i] = (above - below) / (2 * step)
    return gradient


# Convolution; a padding is (top, bottom, left, right)

Padding: TypeAlias = tuple[int, int, int, int]
Stride: TypeAlias = tuple[int, int]


def convolution_shape(
    x: Sequence[int], w: Sequence[int], stride: Stride, padding: Padding
) -> tuple[int, int, int, int]:
    """The shape (N, K, P, Q) of the output."""
    top, bottom, left, right = padding
    height = (x[2] + top + bottom - w[2]) // stride[0] + 1
    width = (x[3] + left + right - w[3]) // stride[1] + 1
    return x[0], w[0], height, width


def _padded(x: Array, padding: Padding) -> Array:
    top, bottom, left, right = padding
    edges = ((0, 0), (0, 0), (top, bottom), (left, right))
    return np.pad(x.astype(np.float64), edges)


def _taps(
    filters: Sequence[int], output: Sequence[int], stride: Stride
) -> list[tuple[int, int, slice, slice]]:
    """For each filter tap (r, s), the rows and columns of the padded image it meets."""
    return [
        (
            r,
            s,
            slice(r, r + stride[0] * (output[2] - 1) + 1, stride[0]),
            slice(s, s + stride[1] * (output[3] - 1) + 1, stride[1]),
        )
        for r in range(filters[2])
        for s in range(filters[3])
    ]


def _grouped(x: Array, groups: int) -> Array:
    """(N, C, ...) as (N, groups, C / groups, ...)."""
    return x.reshape(x.shape[0], groups, -1, *x.shape[2:])


def convolution(
    x: Array, w: Array, stride: Stride, padding: Padding, groups: int = 1
) -> Array:
    """y[n,k,p,q] = sum over c,r,s of x[n,c,p*stride+r-pad,q*stride+s-pad] w[k,c,r,s]"""
    shape = convolution_shape(x.shape, w.shape, stride, padding)
    image = _grouped(_padded(x, padding), groups)
    filters = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    y = np.zeros((shape[0], groups, shape[1] // groups, *shape[2:]))
    for r, s, rows, columns in _taps(w.shape, shape, stride):
        window = image[..., rows, columns]
        y += np.einsum("ngcpq,gkc->ngkpq", window, filters[..., r, s])
    return y.reshape(shape)


def convolution_data(
    dy: Array,
    w: Array,
    shape: Sequence[int],
    stride: Stride,
    padding: Padding,
    groups: int = 1,
) -> Array:
    """The gradient by x, of the given shape: every product put back where it was."""
    gradient = _padded(np.zeros(shape), padding)
    grouped = _grouped(gradient, groups)
    filters = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    outer = _grouped(dy.astype(np.float64), groups)
    for r, s, rows, columns in _taps(w.shape, dy.shape, stride):
        window = np.einsum("ngkpq,gkc->ngcpq", outer, filters[..., r, s])
        grouped[..., rows, columns] += window
    top, _, left, _ = padding
    return gradient[:, :, top : top + shape[2], left : left + shape[3]]


def convolution_filter(
    x: Array,
    dy: Array,
    shape: Sequence[int],
    stride: Stride,
    padding: Padding,
    groups: int = 1,
) -> Array:
    """The gradient by w, of the given shape (K, C / groups, R, S)."""
    image = _grouped(_padded(x, padding), groups)
    outer = _grouped(dy.astype(np.float64), groups)
    gradient = np.zeros((groups, shape[0] // groups, *shape[1:]))
    for r, s, rows, columns in _taps(shape, dy.shape, stride):
        window = image[..., rows, columns]
        gradient[..., r, s] = np.einsum("ngkpq,ngcpq->gkc", outer, window)
    return gradient.reshape(tuple(shape))
