"""Every algorithm of every part of a convolution, as the layer launches it."""

from dataclasses import dataclass

import numpy as np
import pytest

from snref.layers.conv_algorithms import Window, algorithms
from snref.plans import Algorithm, Part, Tensor

from .reference import (
    Array,
    Compute,
    Padding,
    Stride,
    assert_close,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    central_difference,
    convolution,
    convolution_data,
    convolution_filter,
    convolution_shape,
    execute,
)

PARTS: tuple[Part, ...] = ("forward", "data", "filter")


@dataclass(frozen=True)
class Case:
    """A convolution: image and filter shapes, stride, padding, groups."""

    x: tuple[int, int, int, int]
    w: tuple[int, int, int, int]
    stride: Stride = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    groups: int = 1

    @property
    def y(self) -> tuple[int, int, int, int]:
        return convolution_shape(self.x, self.w, self.stride, self.padding)

    @property
    def window(self) -> Window:
        return (*self.stride, self.padding[0], self.padding[2], self.groups)

    def shapes(self, part: Part) -> tuple[tuple[int, ...], ...]:
        """Of the part's output and its two inputs."""
        return {
            "forward": (self.y, self.x, self.w),
            "data": (self.x, self.y, self.w),
            "filter": (self.w, self.x, self.y),
        }[part]

    def menu(self, part: Part) -> tuple[Algorithm, ...]:
        return algorithms(part, *self.shapes(part), self.window)

    def inputs(self, part: Part, rng: np.random.Generator) -> list[Array]:
        return [
            rng.standard_normal(shape).astype(np.float32)
            for shape in self.shapes(part)[1:]
        ]

    def expected(self, part: Part, a: Array, b: Array) -> Array:
        """The part in float64."""
        if part == "forward":
            return convolution(a, b, self.stride, self.padding, self.groups)
        gradient = convolution_data if part == "data" else convolution_filter
        shape = self.shapes(part)[0]
        return gradient(a, b, shape, self.stride, self.padding, self.groups)

    def terms(self, part: Part) -> int:
        """Products summed for an output."""
        n, k, p, q = self.y
        c, r, s = self.w[1:]
        return {"forward": c * r * s, "data": k * r * s, "filter": n * p * q}[part]


# No size a multiple of a tile, unless the point is that it is one.
QUICK = {"3x3", "3x3, even sizes", "3x3, groups", "3x3, stride 2", "1x1, stride 2"}
QUICK |= {"5x5, one channel"}
CASES = {
    "3x3": Case((2, 5, 9, 11), (7, 5, 3, 3), padding=(1, 1, 1, 1)),
    "3x3, even sizes": Case((2, 16, 8, 16), (32, 16, 3, 3), padding=(1, 1, 1, 1)),
    "3x3, several tiles": Case((3, 35, 13, 37), (67, 35, 3, 3), padding=(1, 1, 1, 1)),
    "3x3, wide padding": Case((1, 3, 5, 4), (5, 3, 3, 3), padding=(3, 2, 1, 3)),
    "3x3, groups": Case((2, 6, 7, 9), (10, 3, 3, 3), padding=(1, 0, 0, 2), groups=2),
    "3x3, a group a channel": Case(
        (2, 6, 9, 7), (6, 1, 3, 3), padding=(1, 1, 1, 1), groups=6
    ),
    "3x3, two filters a channel": Case((2, 3, 9, 7), (6, 1, 3, 3), groups=3),
    "3x3, stride 2": Case((2, 5, 11, 14), (7, 5, 3, 3), (2, 2), (1, 1, 1, 1)),
    "3x3, stride 2 by 1": Case((2, 5, 11, 14), (7, 5, 3, 3), (2, 1), (0, 1, 2, 0)),
    "3x3, stride 1 by 3": Case((2, 5, 11, 14), (7, 5, 3, 3), (1, 3), (1, 2, 0, 1)),
    "3x3, stride 4, groups": Case(
        (2, 8, 13, 15), (12, 4, 3, 3), (4, 4), (1, 1, 1, 1), groups=2
    ),
    "1x1": Case((3, 9, 7, 7), (19, 9, 1, 1)),
    "1x1, many": Case((2, 40, 12, 12), (70, 40, 1, 1)),
    "1x1, stride 2": Case((2, 9, 9, 7), (5, 9, 1, 1), (2, 2)),
    "1x1, stride 3, padding": Case((2, 9, 9, 7), (5, 9, 1, 1), (3, 3), (2, 0, 1, 3)),
    "5x5, stride 3": Case((2, 4, 14, 17), (6, 4, 5, 5), (3, 3), (2, 2, 2, 2)),
    "5x5, one channel": Case((2, 1, 12, 12), (20, 1, 5, 5)),
    "7x7, stride 2": Case((1, 3, 23, 21), (64, 3, 7, 7), (2, 2), (3, 3, 3, 3)),
    "11x11, stride 4": Case((1, 3, 43, 39), (96, 3, 11, 11), (4, 4)),
    "1x7": Case((2, 4, 6, 13), (5, 4, 1, 7), padding=(0, 0, 3, 3)),
    "7x1": Case((2, 4, 13, 6), (5, 4, 7, 1), padding=(3, 3, 0, 0)),
    "3x3, slices": Case((5, 3, 24, 26), (6, 3, 3, 3), padding=(1, 1, 1, 1)),
    "3x3, slices, groups": Case((3, 4, 37, 35), (6, 2, 3, 3), groups=2),
    "the whole image": Case((3, 4, 5, 6), (7, 4, 5, 6)),
    "one pixel": Case((1, 1, 1, 1), (1, 1, 1, 1)),
    "stride beyond the image": Case((2, 2, 3, 3), (3, 2, 2, 2), (4, 4)),
}


def computation(algorithm: Algorithm, output: tuple[int, ...]) -> Compute:
    """The algorithm as a function of its two inputs."""

    def compute(a: Array, b: Array, threads: int | None = None) -> list[Array]:
        tensors = [Tensor("y", output), Tensor("a", a.shape), Tensor("b", b.shape)]
        scratch = None
        if algorithm.workspace:
            size = (algorithm.workspace // 4,)
            scratch = Tensor("scratch", size, "workspace")
        launches = algorithm.launches(*tensors, scratch)
        return execute(launches, {tensors[1]: a, tensors[2]: b}, tensors[:1], threads)

    return compute


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES],
)
def test_algorithms_are_the_convolution_and_of_one_order_the_same_bits(
    name: str, part: Part, rng: np.random.Generator
) -> None:
    case = CASES[name]
    inputs = case.inputs(part, rng)
    expected = case.expected(part, *inputs)
    results: dict[str, Array] = {}
    for way in case.menu(part):
        (actual,) = computation(way, case.shapes(part)[0])(*inputs)
        # Winograd adds and subtracts up to 16 pixels and 9 taps before it multiplies.
        factor = 16 if way.order == "winograd" else 1
        assert_close(actual, expected, factor * case.terms(part))
        assert_same_bits(results.setdefault(way.order, actual), actual)
    assert "taps" in results


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["3x3, several tiles", "3x3, stride 4, groups"])
def test_runs_repeat_to_the_bit_on_one_thread_and_two(
    name: str, part: Part, rng: np.random.Generator
) -> None:
    case = CASES[name]
    for way in case.menu(part):
        compute = computation(way, case.shapes(part)[0])
        assert_repeatable(compute, *case.inputs(part, rng))


@pytest.mark.parametrize("part", ["forward", "data"])
@pytest.mark.parametrize("name", ["3x3, several tiles", "3x3, stride 2", "1x1"])
def test_an_image_does_not_depend_on_the_next(
    name: str, part: Part, rng: np.random.Generator
) -> None:
    """The next is infinite: a channel too many, times zero, would show."""
    case = CASES[name]
    a, b = case.inputs(part, rng)
    other = a.copy()
    other[1:] = np.inf
    for way in case.menu(part):
        compute = computation(way, case.shapes(part)[0])
        (alone,), (beside,) = compute(a, b), compute(other, b)
        assert_same_bits(beside[0], alone[0])


@pytest.mark.parametrize("part", PARTS)
def test_both_inputs_are_read(part: Part, rng: np.random.Generator) -> None:
    case = CASES["3x3, groups"]
    for way in case.menu(part):
        compute = computation(way, case.shapes(part)[0])
        assert_reads(compute, *case.inputs(part, rng))


@pytest.mark.parametrize("name", ["3x3, wide padding", "3x3, stride 2 by 1"])
def test_gradients_are_central_differences(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    x, w = case.inputs("forward", rng)
    dy = rng.standard_normal(case.y).astype(np.float32)
    by_data = central_difference(lambda x: case.expected("forward", x, w), x, dy)
    by_filter = central_difference(lambda w: case.expected("forward", x, w), w, dy)
    for way in case.menu("data"):
        (dx,) = computation(way, case.x)(dy, w)
        assert_close(dx, by_data, 16 * case.terms("data"))
    for way in case.menu("filter"):
        (dw,) = computation(way, case.w)(x, dy)
        assert_close(dw, by_filter, case.terms("filter"))


@pytest.mark.parametrize("name", CASES)
def test_pytorch_agrees(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    case = CASES[name]
    x, w = case.inputs("forward", rng)
    dy = rng.standard_normal(case.y).astype(np.float32)
    top, bottom, left, right = case.padding
    images = torch.from_numpy(x).requires_grad_()
    filters = torch.from_numpy(w).requires_grad_()
    padded = torch.nn.functional.pad(images, (left, right, top, bottom))
    y = torch.nn.functional.conv2d(
        padded, filters, stride=case.stride, groups=case.groups
    )
    y.backward(torch.from_numpy(dy))
    theirs = {"forward": y.detach(), "data": images.grad, "filter": filters.grad}
    inputs = {"forward": (x, w), "data": (dy, w), "filter": (x, dy)}
    for part in PARTS:
        first = case.menu(part)[0]
        (ours,) = computation(first, case.shapes(part)[0])(*inputs[part])
        expected = theirs[part].numpy().astype(np.float64)
        assert_close(ours, expected, 2 * case.terms(part))


@pytest.mark.parametrize("part", PARTS)
def test_zeros_of_the_padding_are_multiplied(
    part: Part, rng: np.random.Generator
) -> None:
    """So that an infinite factor gives NaN, by all algorithms of an order alike."""
    case = CASES["3x3, stride 2 by 1"]
    a, b = case.inputs(part, rng)
    b[0, 0, 0, 0] = np.inf
    results = [
        computation(way, case.shapes(part)[0])(a, b)[0]
        for way in case.menu(part)
        if way.order == "taps"
    ]
    assert np.isnan(results[0]).any()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_every_kernel_shape_is_used_by_some_case() -> None:
    """So that the tests above cover each of them."""
    from snref.kernels.conv import direct, im2col, tiled, winograd

    used = set()
    for case in CASES.values():
        for part in PARTS:
            output, a, b = (Tensor("t", shape) for shape in case.shapes(part))
            for way in case.menu(part):
                scratch = Tensor("scratch", (way.workspace // 4,), "workspace")
                used |= {
                    launch.kernel for launch in way.launches(output, a, b, scratch)
                }
    written = {
        f"conv.{module.__name__.rpartition('.')[2]}.{name}"
        for module in (direct, im2col, tiled, winograd)
        for name, value in vars(module).items()
        if hasattr(value, "py_func") and not value.targetoptions.get("device")
    }
    assert used == written
