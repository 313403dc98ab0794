"""Shapes of outputs and parameters, against counting; and what is refused."""

from itertools import product

import pytest

from snref.layers import (
    LRN,
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    ConvTranspose,
    Dropout,
    Fork,
    Linear,
    MaxPool,
    PixelSoftmax,
    ReLU,
    Softmax,
)
from snref.layers.base import Layer
from snref.layers.transformer import (
    AttentionMean,
    AttentionWeights,
    Embedding,
    LayerNorm,
    TiedHead,
    TokenLinear,
    TokenSoftmax,
)


def windows(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    """Count the places of a window, one by one."""
    starts = range(-before, size + after, stride)
    return sum(start + kernel <= size + after for start in starts)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7, 11, (1, 7), (7, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, (2, 1)])
def test_windows_are_counted(
    kernel: int | tuple[int, int], stride: int | tuple[int, int]
) -> None:
    (r, s) = (kernel, kernel) if isinstance(kernel, int) else kernel
    (h, w) = (stride, stride) if isinstance(stride, int) else stride
    for padding in product((0, 1, 2), (0, 3), (0, 1), (0, 2)):
        top, bottom, left, right = padding
        height = windows(13, r, h, top, bottom)
        width = windows(12, s, w, left, right)
        conv = Conv(6, kernel, stride, padding)
        assert conv.output_shape((2, 4, 13, 12)) == (2, 6, height, width)
        if max(top, bottom) < r and max(left, right) < s:
            for pool in (MaxPool, AveragePool):
                shape = pool(kernel, stride, padding).output_shape((2, 4, 13, 12))
                assert shape == (2, 4, height, width)


def test_padding_of_two_numbers_is_height_and_width() -> None:
    assert Conv(1, (1, 7), padding=(0, 3)).output_shape((1, 1, 5, 9)) == (1, 1, 5, 9)
    assert Conv(1, (7, 1), padding=(3, 0)).output_shape((1, 1, 5, 9)) == (1, 1, 5, 9)


def test_a_transposed_convolution_undoes_the_shape_of_a_convolution() -> None:
    for kernel, stride, size in product((1, 2, 3, 5), (1, 2, 3), (1, 2, 5)):
        large = ConvTranspose(4, kernel, stride).output_shape((2, 3, size, size + 1))
        small = Conv(3, kernel, stride).output_shape(large)
        assert small == (2, 3, size, size + 1)


@pytest.mark.parametrize(
    ("layer", "inputs", "output"),
    [
        (ReLU(), [(2, 3, 4, 5)], (2, 3, 4, 5)),
        (LRN(), [(2, 3, 4, 5)], (2, 3, 4, 5)),
        (BatchNorm(), [(2, 3)], (2, 3)),
        (Dropout(), [(2, 3, 4, 5)], (2, 3, 4, 5)),
        (Fork(2), [(2, 3)], (2, 3)),
        (Linear(7), [(2, 3, 4, 5)], (2, 7)),
        (AveragePool(), [(2, 3, 4, 5)], (2, 3, 1, 1)),
        (MaxPool(2), [(2, 3, 4, 5)], (2, 3, 2, 2)),
        (Add(), [(2, 3)] * 4, (2, 3)),
        (Concat(), [(2, 3, 4, 5), (2, 1, 4, 5), (2, 6, 4, 5)], (2, 10, 4, 5)),
        (Concat(), [(2, 3), (2, 4)], (2, 7)),
        (Softmax(), [(2, 10)], (2, 10)),
        (PixelSoftmax(), [(2, 10, 4, 5)], (2, 10, 4, 5)),
        (Embedding(9, 8, 6), [(2, 5)], (2, 5, 6)),
        (LayerNorm(), [(2, 5, 6)], (2, 5, 6)),
        (TokenLinear(18), [(2, 5, 6)], (2, 5, 18)),
        (AttentionWeights(3), [(2, 5, 18)], (2, 3, 5, 5)),
        (AttentionMean(), [(2, 3, 5, 5), (2, 5, 18)], (2, 5, 6)),
        (TiedHead("embedding", 9), [(2, 5, 6)], (2, 5, 9)),
        (TokenSoftmax(), [(2, 5, 9)], (2, 5, 9)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Layer) else "",
)
def test_output_shapes(
    layer: Layer, inputs: list[tuple[int, ...]], output: tuple[int, ...]
) -> None:
    assert layer.output_shape(*inputs) == output


def test_response_normalization_is_that_of_krizhevsky_unless_told_otherwise() -> None:
    # n, alpha, beta and k of their section 3.3; alpha counts the whole window here
    assert LRN() == LRN(size=5, alpha=5 * 1e-4, beta=0.75, k=2.0)


def test_parameter_shapes() -> None:
    image = (2, 6, 8, 8)
    grouped = Conv(4, (1, 7), groups=2).parameter_shapes(image)
    assert grouped == {"w": (4, 3, 1, 7), "b": (4,)}
    assert Conv(4, 3, bias=False).parameter_shapes(image) == {"w": (4, 6, 3, 3)}
    transposed = ConvTranspose(4, 2, bias=False).parameter_shapes(image)
    assert transposed == {"w": (6, 4, 2, 2)}
    assert Linear(5).parameter_shapes(image) == {"w": (5, 6 * 8 * 8), "b": (5,)}
    assert BatchNorm().parameter_shapes(image) == {"gamma": (6,), "beta": (6,)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv(0, 3), "filters 0: must be >= 1"),
        (lambda: Conv(4, 0), "kernel 0: every number must be >= 1"),
        (lambda: Conv(4, 3, stride=(1, 0)), r"stride \(1, 0\)"),
        (lambda: Conv(4, 3, padding=-1), "padding .*: every number must be >= 0"),
        (lambda: Conv(4, 3, groups=3), "groups 3: must divide 4 filters"),
        (lambda: ConvTranspose(0, 2), "filters 0"),
        (lambda: MaxPool(3, stride=0), "stride"),
        (lambda: MaxPool(2.5), "kernel 2.5: must be one number or 2"),
        (lambda: Conv(1, (3, 1.5)), "every number must be whole"),
        (lambda: Conv(1, (3, 1, 1)), "must be one number or 2"),
        (lambda: Conv(1, 3, padding=(1, 2, 3)), "must be one number or 2 or 4"),
        (lambda: LRN(k=float("nan")), "k nan: must be > 0"),
        (lambda: BatchNorm(epsilon=float("nan")), "epsilon nan: must be > 0"),
        (lambda: MaxPool(2, padding=2), "padding 2: must be less than the kernel, 2"),
        (lambda: AveragePool(3, padding=(0, 3)), "must be less than the kernel"),
        (lambda: AveragePool(stride=2), "needs a kernel"),
        (lambda: Linear(0), "outputs 0: must be >= 1"),
        (lambda: LRN(4), "size 4: must be odd"),
        (lambda: LRN(5.0), "size 5.0: must be odd"),
        (lambda: LRN(alpha=float("nan")), "alpha nan: must be >= 0"),
        (lambda: LRN(alpha=-1e-4), "alpha -0.0001: must be >= 0"),
        (lambda: LRN(alpha=float("inf")), "alpha inf: must be >= 0"),
        (lambda: LRN(beta=float("nan")), "beta nan: must be >= 0"),
        (lambda: LRN(beta=-0.5), "beta -0.5: must be >= 0"),
        (lambda: LRN(k=0), "k 0: must be > 0"),
        (lambda: Dropout(1.0), "ratio 1.0: must be >= 0 and < 1"),
        (lambda: BatchNorm(epsilon=0), "epsilon 0: must be > 0"),
        (lambda: BatchNorm(momentum=2), "momentum 2"),
        (lambda: Fork(1), "branches 1: must be >= 2"),
    ],
)
def test_settings_without_meaning_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()


def test_the_least_settings_that_mean_something_are_taken() -> None:
    Conv(1, 1, padding=0)
    ConvTranspose(1, 1)
    MaxPool(2, padding=1)
    AveragePool(3, padding=(0, 2))
    Linear(1)
    LRN(1, alpha=0, beta=0)
    Dropout(0)
    Fork(2)
    BatchNorm(momentum=0)
    BatchNorm(momentum=1)


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (Conv(4, 5), [(1, 3, 4, 9)], "image of 4x9, .* smaller than the kernel of 5x5"),
        (Conv(4, 3, groups=2), [(1, 3, 8, 8)], "groups 2: must divide 3 channels"),
        (Conv(4, 3), [(1, 3)], r"must be \(N, C, H, W\)"),
        (Conv(4, 3), [(1, 3, 8, 8)] * 2, "2 inputs: this layer has exactly one"),
        (MaxPool(3), [(1, 3, 8, 2)], "smaller than the kernel"),
        (AveragePool(3), [(1, 3, 2, 8)], "smaller than the kernel"),
        (LRN(), [(1, 3)], r"must be \(N, C, H, W\)"),
        (Add(), [(1, 3)], "1 input: a join has at least 2"),
        (Add(), [(1, 3), (1, 4)], r"\(1, 3\) and \(1, 4\): must be equal"),
        (Concat(), [(1, 3, 8, 8), (1, 3, 8, 7)], "equal but for the channels"),
        (Softmax(), [(8,)], r"must be \(N, classes\)"),
        (Embedding(9, 8, 6), [(2, 9)], "T <= 8"),
        (TokenLinear(4), [(2, 9)], r"must be \(N, T, D\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    layer: Layer, inputs: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        layer.output_shape(*inputs)
