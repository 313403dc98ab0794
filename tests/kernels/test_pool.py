"""Max and average pooling against loops over windows in float64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from snref import simt
from snref.kernels import pool

from .reference import (
    Array,
    assert_close,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    central_difference,
    launch,
)

LAUNCH = (5,), (32,)  # fewer blocks than planes: each goes on by a stride


@dataclass(frozen=True)
class Case:
    """Images, a window, its stride, and padding at the top, bottom, left and right."""

    x: tuple[int, int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def y(self) -> tuple[int, int, int, int]:
        n, c, h, w = self.x
        top, bottom, left, right = self.padding
        return (
            n,
            c,
            (h + top + bottom - self.kernel[0]) // self.stride[0] + 1,
            (w + left + right - self.kernel[1]) // self.stride[1] + 1,
        )

    @property
    def scalars(self) -> tuple[int, ...]:
        return (*self.kernel, *self.stride, self.padding[0], self.padding[2])

    def windows(self) -> Iterator[tuple[int, int, slice, slice]]:
        """Every (p, q) with the rows and columns of the image that it covers."""
        for p in range(self.y[2]):
            for q in range(self.y[3]):
                top = p * self.stride[0] - self.padding[0]
                left = q * self.stride[1] - self.padding[2]
                rows = slice(max(top, 0), min(top + self.kernel[0], self.x[2]))
                columns = slice(max(left, 0), min(left + self.kernel[1], self.x[3]))
                yield p, q, rows, columns


CASES = {
    "3x3, stride 2": Case((2, 3, 13, 11), (3, 3), (2, 2)),
    "2x2, stride 2": Case((3, 4, 6, 7), (2, 2), (2, 2)),
    "3x3, stride 1, padding 1": Case((2, 3, 5, 9), (3, 3), (1, 1), (1, 1, 1, 1)),
    "3x3, stride 2, right and bottom": Case((1, 5, 8, 6), (3, 3), (2, 2), (0, 1, 0, 1)),
    "5x5, stride 3, uneven padding": Case((2, 2, 11, 17), (5, 5), (3, 3), (2, 1, 0, 3)),
    "11x11, stride 4": Case((1, 2, 23, 27), (11, 11), (4, 4), (3, 3, 3, 3)),
    "1x7": Case((2, 3, 5, 13), (1, 7), (1, 1), (0, 0, 3, 3)),
    "7x1": Case((2, 3, 13, 5), (7, 1), (1, 1), (3, 3, 0, 0)),
    "3x2, strides 1 and 3": Case((2, 3, 7, 14), (3, 2), (1, 3)),
    "3x3, stride 3, padding 1": Case((2, 3, 7, 9), (3, 3), (3, 3), (1, 1, 1, 1)),
    "gaps between windows": Case((2, 3, 11, 12), (2, 3), (4, 5)),
    "the whole image": Case((3, 7, 6, 5), (6, 5), (6, 5)),
    "one pixel": Case((1, 1, 1, 1), (1, 1), (1, 1)),
    "several tiles": Case((2, 2, 4, 391), (3, 3), (1, 2), (1, 1, 1, 1)),
    "a wide kernel in several tiles": Case((1, 2, 3, 150), (2, 60), (1, 3)),
}
APART = {  # where no window overlaps another
    name: case
    for name, case in CASES.items()
    if case.stride[0] >= case.kernel[0] and case.stride[1] >= case.kernel[1]
}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
both = pytest.mark.parametrize("count_padding", (0, 1))


def compute(name: str, case: Case, *more: int) -> Callable[..., list[Array]]:
    """A kernel as a function of its inputs."""
    shape = case.y if name.endswith("forward") else case.x

    def run(*inputs: Array, threads: int | None = None) -> list[Array]:
        scalars = (*case.scalars, *more)
        kernel = getattr(pool, name)
        return launch(kernel, *LAUNCH, [shape], inputs, scalars, threads)

    return run


def highest(x: Array, case: Case) -> Array:
    y = np.empty(case.y)
    for p, q, rows, columns in case.windows():
        y[:, :, p, q] = x[:, :, rows, columns].max((2, 3))
    return y


def highest_gradient(x: Array, dy: Array, case: Case) -> Array:
    dx = np.zeros(case.x)
    for p, q, rows, columns in case.windows():
        window = x[:, :, rows, columns]
        first = window.reshape(*case.x[:2], -1).argmax(2)
        for n, c in np.ndindex(*case.x[:2]):
            r, s = divmod(int(first[n, c]), window.shape[3])
            dx[n, c, rows.start + r, columns.start + s] += dy[n, c, p, q]
    return dx


def count(rows: slice, columns: slice, case: Case, count_padding: int) -> int:
    inside = (rows.stop - rows.start) * (columns.stop - columns.start)
    return case.kernel[0] * case.kernel[1] if count_padding else inside


def average(x: Array, case: Case, count_padding: int) -> Array:
    y = np.empty(case.y)
    for p, q, rows, columns in case.windows():
        m = count(rows, columns, case, count_padding)
        y[:, :, p, q] = x[:, :, rows, columns].sum((2, 3)) / m
    return y


def average_gradient(dy: Array, case: Case, count_padding: int) -> Array:
    dx = np.zeros(case.x)
    for p, q, rows, columns in case.windows():
        share = dy[:, :, p, q] / count(rows, columns, case, count_padding)
        dx[:, :, rows, columns] += share[:, :, None, None]
    return dx


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


@each
def test_the_largest_value_of_every_window(
    case: Case, rng: np.random.Generator
) -> None:
    x = normal(rng, case.x)
    (y,) = compute("max_forward", case)(x)
    assert_same_bits(y, highest(x, case).astype(np.float32))


@each
def test_the_first_maximum_takes_the_gradient(
    case: Case, rng: np.random.Generator
) -> None:
    dy = normal(rng, case.y)
    ties = rng.integers(-2, 3, case.x).astype(np.float32)
    flat = (np.full_like(ties, value) for value in (0, -np.inf))
    for x in (normal(rng, case.x), ties, *flat):
        (dx,) = compute("max_backward", case)(x, dy)
        terms = case.kernel[0] * case.kernel[1]
        assert_close(dx, highest_gradient(x, dy.astype(np.float64), case), terms)


@each
def test_two_launches_give_the_gradient_the_same_bits_over_the_image(
    case: Case, rng: np.random.Generator
) -> None:
    """First the places of all maxima; then dx, which may lie on x."""
    dy = normal(rng, case.y)
    ties = rng.integers(-2, 3, case.x).astype(np.float32)
    some = np.where(rng.random(case.x) < 0.2, np.float32(np.nan), ties)
    flat = [np.full_like(ties, value) for value in (0, -np.inf, np.nan)]
    flat[-1].flat[-1] = 0  # the tests in check mode take an array of NaN for unwritten
    for x in (normal(rng, case.x), ties, some, *flat):
        (expected,) = compute("max_backward", case)(x, dy)
        index = np.full(case.y, -1, np.int32)
        simt.compile(pool.max_indices)[LAUNCH](index, x, *case.scalars)
        simt.compile(pool.max_scatter)[LAUNCH](x, index, dy, *case.scalars)
        assert_same_bits(x, expected)


@pytest.mark.parametrize("case", APART.values(), ids=APART)
def test_the_gradient_of_windows_apart_has_the_same_bits_over_the_image(
    case: Case, rng: np.random.Generator
) -> None:
    dy = normal(rng, case.y)
    dy.flat[::3] = -0.0
    ties = rng.integers(-2, 3, case.x).astype(np.float32)
    some = np.where(rng.random(case.x) < 0.2, np.float32(np.nan), ties)
    for x in normal(rng, case.x), ties, some:
        (expected,) = compute("max_backward", case)(x, dy)
        assert_same_bits(compute("max_backward_apart", case)(x, dy)[0], expected)
        simt.check(pool.max_backward_apart)[LAUNCH](x, x, dy, *case.scalars)
        assert_same_bits(x, expected)


@each
@both
def test_the_mean_of_every_window(
    case: Case, count_padding: int, rng: np.random.Generator
) -> None:
    x = normal(rng, case.x)
    (y,) = compute("average_forward", case, count_padding)(x)
    terms = case.kernel[0] * case.kernel[1]
    assert_close(y, average(x.astype(np.float64), case, count_padding), terms)


@each
@both
def test_a_mean_s_gradient_is_shared_out(
    case: Case, count_padding: int, rng: np.random.Generator
) -> None:
    dy = normal(rng, case.y)
    (dx,) = compute("average_backward", case, count_padding)(dy)
    terms = case.kernel[0] * case.kernel[1]
    expected = average_gradient(dy.astype(np.float64), case, count_padding)
    assert_close(dx, expected, terms)


def global_forward(x: Array, threads: int | None = None) -> list[Array]:
    shape, at = (*x.shape[:2], 1), ((2,), (256,))
    return launch(pool.global_average_forward, *at, [shape], [x], threads=threads)


def global_backward(dy: Array, threads: int | None = None) -> list[Array]:
    shape, kernel = (*dy.shape[:2], 49), pool.global_average_backward
    return launch(kernel, *LAUNCH, [shape], [dy], threads=threads)


@pytest.mark.parametrize("shape", ((3, 5), (2, 300), (1, 1)))
def test_global_average_is_the_average_of_one_window(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    case = Case((*shape, 7, 7), (7, 7), (7, 7))
    x, dy = normal(rng, case.x), normal(rng, case.y)
    y = average(x.astype(np.float64), case, 0).reshape(*shape, 1)
    assert_close(global_forward(x.reshape(*shape, 49))[0], y, 49)
    dx = average_gradient(dy.astype(np.float64), case, 0).reshape(*shape, 49)
    assert_close(global_backward(dy.reshape(*shape, 1))[0], dx)


def test_gradients_agree_with_central_differences(rng: np.random.Generator) -> None:
    case = Case((1, 2, 5, 6), (3, 3), (2, 2), (1, 0, 1, 0))
    # Distinct values, further apart than twice the step of the difference.
    x = rng.permutation(60).reshape(case.x).astype(np.float32)
    dy = normal(rng, case.y)
    slope = central_difference(lambda x: highest(x, case), x, dy)
    assert_close(compute("max_backward", case)(x, dy)[0], slope, 9)
    for count_padding in (0, 1):
        backward = compute("average_backward", case, count_padding)
        slope = central_difference(lambda x: average(x, case, count_padding), x, dy)  # noqa: B023
        assert_close(backward(dy)[0], slope, 9)


def test_a_nan_is_not_hidden(rng: np.random.Generator) -> None:
    case = CASES["3x3, stride 2"]
    x = normal(rng, case.x)
    x[0, 1, 4, 4] = np.nan
    (y,) = compute("max_forward", case)(x)
    np.testing.assert_array_equal(y, highest(x, case).astype(np.float32))
    assert np.isnan(y).sum() == 4


def last_nan_gradient(x: Array, dy: Array, case: Case) -> Array:
    """As `highest_gradient`, where a window's last NaN goes before every number."""
    dx = np.zeros(case.x)
    for p, q, rows, columns in case.windows():
        window = x[:, :, rows, columns]
        for n, c in np.ndindex(*case.x[:2]):
            values = window[n, c].ravel()
            nans = np.flatnonzero(np.isnan(values))
            place = nans[-1] if nans.size else values.argmax()
            r, s = divmod(int(place), window.shape[3])
            dx[n, c, rows.start + r, columns.start + s] += dy[n, c, p, q]
    return dx


@each
@pytest.mark.parametrize("share", (0.1, 0.5, 1.0))
def test_the_last_nan_of_a_window_takes_the_gradient(
    case: Case, share: float, rng: np.random.Generator
) -> None:
    x = rng.integers(-2, 3, case.x).astype(np.float32)
    x[rng.random(case.x) < share] = np.nan
    dy = rng.integers(1, 9, case.y).astype(np.float32)  # sums of these are exact
    (dx,) = compute("max_backward", case)(x, dy)
    np.testing.assert_array_equal(dx, last_nan_gradient(x, dy, case))


def test_pooling_reads_its_inputs_and_repeats_itself(
    rng: np.random.Generator,
) -> None:
    case = CASES["5x5, stride 3, uneven padding"]
    x, dy = normal(rng, case.x), normal(rng, case.y)
    for run, inputs in (
        (compute("max_forward", case), [x]),
        (compute("max_backward", case), [x, dy]),
        (compute("average_forward", case, 0), [x]),
        (compute("average_backward", case, 0), [dy]),
        (global_forward, [normal(rng, (2, 300, 49))]),
        (global_backward, [normal(rng, (2, 300, 1))]),
    ):
        assert_reads(run, *inputs)
        assert_repeatable(run, *inputs)


def test_pooling_agrees_with_pytorch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    pytorch = torch.nn.functional
    for case in CASES.values():
        top, bottom, left, right = case.padding
        if (top, left) != (bottom, right) or 2 * top > case.kernel[0]:
            continue  # PyTorch has no such padding
        window = case.kernel, case.stride, (top, left)
        x, dy = normal(rng, case.x), normal(rng, case.y)
        terms = case.kernel[0] * case.kernel[1]
        spoilt = np.where(rng.random(case.x) < 0.2, np.float32(np.nan), x)
        given = torch.tensor(spoilt, requires_grad=True)
        pytorch.max_pool2d(given, *window).backward(torch.ones(case.y))
        (dx,) = compute("max_backward", case)(spoilt, np.ones(case.y, np.float32))
        np.testing.assert_array_equal(dx, given.grad.numpy())
        given = torch.tensor(x, requires_grad=True)
        expected = pytorch.max_pool2d(given, *window)
        expected.backward(torch.tensor(dy))
        assert_same_bits(compute("max_forward", case)(x)[0], expected.detach().numpy())
        (dx,) = compute("max_backward", case)(x, dy)
        assert_close(dx, given.grad.numpy().astype(np.float64), terms)
        for count_padding in (0, 1):
            given = torch.tensor(x, requires_grad=True)
            expected = pytorch.avg_pool2d(
                given, *window, count_include_pad=bool(count_padding)
            )
            expected.backward(torch.tensor(dy))
            (y,) = compute("average_forward", case, count_padding)(x)
            assert_close(y, expected.detach().numpy().astype(np.float64), terms)
            (dx,) = compute("average_backward", case, count_padding)(dy)
            assert_close(dx, given.grad.numpy().astype(np.float64), terms)
