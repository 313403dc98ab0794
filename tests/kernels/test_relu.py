"""ReLU's kernels: exact, so they are compared bit by bit."""

import numpy as np
import pytest

from snref import simt
from snref.kernels import relu

from .reference import (
    Array,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    launch,
    launch_over,
)

SIZES = (1, 255, 256, 257, 5000)
LAUNCH = (3,), (256,)  # too few threads for the largest: each goes on by a stride


def forward(x: Array, threads: int | None = None) -> list[Array]:
    return launch(relu.forward, *LAUNCH, [x.shape], [x], threads=threads)


def backward(s: Array, dy: Array, threads: int | None = None) -> list[Array]:
    return launch(relu.backward, *LAUNCH, [dy.shape], [s, dy], threads=threads)


def values(rng: np.random.Generator, size: int, count: int) -> list[Array]:
    found = [rng.standard_normal(size).astype(np.float32) for _ in range(count)]
    found[0][::7] = 0
    return found


@pytest.mark.parametrize("size", SIZES)
def test_relu_keeps_what_is_positive(size: int, rng: np.random.Generator) -> None:
    x, dy = values(rng, size, 2)
    (y,) = forward(x)
    assert_same_bits(y, np.maximum(x, 0))
    (dx,) = backward(x, dy)
    assert_same_bits(dx, np.where(x > 0, dy, np.float32(0)))


def test_backward_takes_the_sign_from_x_or_from_y(rng: np.random.Generator) -> None:
    x, dy = values(rng, 1000, 2)
    assert_same_bits(backward(x, dy)[0], backward(forward(x)[0], dy)[0])


def test_a_nan_is_not_hidden() -> None:
    x = np.array([np.nan, -np.inf, np.inf, -0.0], np.float32)
    np.testing.assert_array_equal(forward(x)[0], [np.nan, 0, np.inf, 0])


def test_a_gradient_passes_where_the_input_is_no_number() -> None:
    s = np.array([np.nan, 1, 0, -0.0, -1, np.inf, -np.inf], np.float32)
    dy = np.arange(1, 8, dtype=np.float32)
    np.testing.assert_array_equal(backward(s, dy)[0], [1, 2, 0, 0, 0, 6, 0])


def test_relu_in_place_is_relu(rng: np.random.Generator) -> None:
    x, dy = values(rng, 1000, 2)
    assert_same_bits(launch_over(relu.forward, *LAUNCH, 0, [x]), forward(x)[0])
    over = launch_over(relu.backward, *LAUNCH, 1, [x, dy])
    assert_same_bits(over, backward(x, dy)[0])


@pytest.mark.parametrize("size", (*SIZES, 31, 32, 33))
def test_a_bit_an_element_tells_where_the_gradient_passes(
    size: int, rng: np.random.Generator
) -> None:
    x, dy = values(rng, size, 2)
    x[1::5] = np.nan
    words = np.zeros(-(-size // relu.BITS), np.int32)
    simt.check(relu.signs)[LAUNCH](words, forward(x)[0])
    dx = np.empty_like(dy)
    simt.check(relu.backward_by_signs)[LAUNCH](dx, words, dy)
    assert_same_bits(dx, backward(x, dy)[0])
    simt.compile(relu.backward_by_signs)[LAUNCH](dy, words, dy)
    assert_same_bits(dy, dx)


def test_relu_reads_its_inputs_and_repeats_itself(rng: np.random.Generator) -> None:
    x, dy = values(rng, 5000, 2)
    for compute, inputs in ((forward, [x]), (backward, [x, dy])):
        assert_reads(compute, *inputs)
        assert_repeatable(compute, *inputs)


def test_relu_agrees_with_pytorch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    x, dy = values(rng, 1000, 2)
    x[::5] = np.nan
    given = torch.tensor(x, requires_grad=True)
    expected = torch.relu(given)
    expected.backward(torch.tensor(dy))
    np.testing.assert_array_equal(forward(x)[0], expected.detach().numpy())
    assert_same_bits(backward(x, dy)[0], given.grad.numpy())
