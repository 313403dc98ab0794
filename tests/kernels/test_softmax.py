"""Softmax, its cross-entropy, and their gradient."""

import numpy as np
import pytest

from snref.kernels import softmax

from .reference import (
    Array,
    assert_close,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    central_difference,
    launch,
    launch_over,
)

LAUNCH = (3,), (softmax.THREADS,)  # fewer blocks than rows: each goes on by a stride
SHAPES = ((7, 10), (5, 129), (2, 1000), (4, 1), (1, 128))
each = pytest.mark.parametrize("shape", SHAPES)


def forward(x: Array, threads: int | None = None) -> list[Array]:
    return launch(softmax.forward, *LAUNCH, [x.shape], [x], threads=threads)


def losses(x: Array, labels: Array, threads: int | None = None) -> list[Array]:
    rows = [x.shape[0]]
    return launch(softmax.losses, *LAUNCH, rows, [x, labels], threads=threads)


def mean(values: Array, threads: int | None = None) -> list[Array]:
    block = (softmax.THREADS,)
    return launch(softmax.mean, (1,), block, [1], [values], threads=threads)


def backward(y: Array, labels: Array, threads: int | None = None) -> list[Array]:
    scalars = [1 / y.shape[0]]
    kernel = softmax.backward
    return launch(kernel, *LAUNCH, [y.shape], [y, labels], scalars, threads)


def exact_softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def exact_losses(x: Array, labels: Array) -> Array:
    top = x.max(1)
    sums = np.exp(x - top[:, None]).sum(1)
    return np.log(sums) + top - x[np.arange(len(x)), labels]


def values(shape: tuple[int, int], rng: np.random.Generator) -> list[Array]:
    x = 4 * rng.standard_normal(shape)
    labels = rng.integers(0, shape[1], shape[0])
    return [x.astype(np.float32), labels.astype(np.int32)]


@each
def test_softmax_and_losses(shape: tuple[int, int], rng: np.random.Generator) -> None:
    x, labels = values(shape, rng)
    exact = x.astype(np.float64)
    (y,) = forward(x)
    assert_close(y, exact_softmax(exact), 8)
    assert_close(y.sum(1), np.ones(shape[0]), 8)
    (loss,) = losses(x, labels)
    expected = exact_losses(exact, labels)
    assert_close(loss, expected, 8)
    assert_close(mean(loss)[0], expected.mean(keepdims=True), 8)


def test_no_score_is_too_large_or_too_small() -> None:
    x = np.array([[1e4, -1e4, 1e4], [-3e38, 3e38, 0], [-np.inf, 0, -90]], np.float32)
    labels = np.array([1, 1, 2], np.int32)
    assert_close(forward(x)[0], np.array([[0.5, 0, 0.5], [0, 1, 0], [0, 1, 0]]))
    assert_close(losses(x, labels)[0], np.array([2e4 + np.log(2), 0, 90]))


@each
def test_the_gradient_is_the_error_of_the_prediction(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    x, labels = values(shape, rng)
    (y,) = forward(x)
    expected = y.astype(np.float64)
    expected[np.arange(len(x)), labels] -= 1
    assert_close(backward(y, labels)[0], expected / shape[0], 8)


def test_the_gradient_agrees_with_central_differences(rng: np.random.Generator) -> None:
    x, labels = values((3, 5), rng)
    share = np.full(3, 1 / 3)
    slope = central_difference(lambda x: exact_losses(x, labels), x, share)
    assert_close(backward(forward(x)[0], labels)[0], slope, 16)


def test_the_gradient_may_lie_on_y(rng: np.random.Generator) -> None:
    x, labels = values((7, 129), rng)
    (y,) = forward(x)
    over = launch_over(softmax.backward, *LAUNCH, 0, [y, labels], [1 / 7])
    assert_same_bits(over, backward(y, labels)[0])


@pytest.mark.parametrize("count", (1, 127, 128, 129, 1000))
def test_the_mean_of_the_losses(count: int, rng: np.random.Generator) -> None:
    given = rng.random(count).astype(np.float32)
    assert_close(mean(given)[0], given.astype(np.float64).mean(keepdims=True), 8)


def test_softmax_reads_its_inputs_and_repeats_itself(
    rng: np.random.Generator,
) -> None:
    x, labels = values((6, 130), rng)
    (y,) = forward(x)
    for compute, inputs in (
        (forward, [x]),
        (losses, [x, labels]),
        (mean, [losses(x, labels)[0]]),
        (backward, [y, labels]),
    ):
        assert_reads(compute, *inputs)
        assert_repeatable(compute, *inputs)


@each
def test_softmax_agrees_with_pytorch(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    torch = pytest.importorskip("torch")
    x, labels = values(shape, rng)
    given = torch.tensor(x, requires_grad=True)
    target = torch.tensor(labels.astype(np.int64))
    expected = torch.nn.functional.cross_entropy(given, target)
    expected.backward()
    (y,) = forward(x)
    theirs = torch.softmax(given, 1).detach().numpy()
    assert_close(y, theirs.astype(np.float64), 8)
    (loss,) = mean(losses(x, labels)[0])
    assert_close(loss, expected.detach().numpy().astype(np.float64).reshape(1), 8)
    (dx,) = backward(y, labels)
    assert_close(dx, given.grad.numpy().astype(np.float64), 16)
