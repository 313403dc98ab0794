"""Batch normalization: statistics, both passes, running averages."""

import numpy as np
import pytest

from snref import simt
from snref.kernels import batchnorm

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

EPSILON = 1e-3
SHAPES = ((5, 3, 49), (17, 4, 65), (9, 5, 1), (1, 3, 300), (33, 2, 7))
CHANNELS = (2,), (batchnorm.PIXELS, batchnorm.IMAGES)  # two blocks for all channels
each = pytest.mark.parametrize("shape", SHAPES)


def elementwise(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Too few threads for all pixels, too few blocks for all images."""
    return (1, shape[1], 2), (64,)


def statistics(x: Array, threads: int | None = None) -> list[Array]:
    shapes = [x.shape[1], x.shape[1]]
    return launch(batchnorm.statistics, *CHANNELS, shapes, [x], threads=threads)


def forward(*inputs: Array, threads: int | None = None) -> list[Array]:
    shape = inputs[0].shape
    kernel, at = batchnorm.forward, elementwise(shape)
    return launch(kernel, *at, [shape], inputs, [EPSILON], threads)


def reduce(*inputs: Array, threads: int | None = None) -> list[Array]:
    shapes = [inputs[0].shape[1], inputs[0].shape[1]]
    return launch(batchnorm.reduce, *CHANNELS, shapes, inputs, [EPSILON], threads)


def backward(*inputs: Array, threads: int | None = None) -> list[Array]:
    shape = inputs[0].shape
    kernel, at = batchnorm.backward, elementwise(shape)
    return launch(kernel, *at, [shape], inputs, [EPSILON], threads)


def running(*inputs: Array, threads: int | None = None) -> list[Array]:
    averages = [value.copy() for value in inputs[:2]]
    kernel = simt.compile(batchnorm.running, threads=threads)
    kernel[(1,), (32,)](*averages, *inputs[2:], np.float32(0.1), 50)
    return averages


def column(values: Array) -> Array:
    return values[:, None]


def standardized(x: Array) -> Array:
    mean = x.mean((0, 2), keepdims=True)
    return (x - mean) / np.sqrt(x.var((0, 2), keepdims=True) + EPSILON)


def values(shape: tuple[int, int, int], rng: np.random.Generator) -> list[Array]:
    """x far from zero, dy, gamma, beta."""
    x = 20 + 3 * rng.standard_normal(shape)
    dy = rng.standard_normal(shape)
    gamma, beta = 1 + rng.random(shape[1]), rng.standard_normal(shape[1])
    return [value.astype(np.float32) for value in (x, dy, gamma, beta)]


@each
def test_mean_and_variance_of_a_channel(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    x = values(shape, rng)[0]
    mean, variance = statistics(x)
    exact = x.astype(np.float64)
    # The tree adds each thread's share, and the shares: few errors, of means' size.
    assert_close(mean, exact.mean((0, 2)), 1)
    assert_close(variance, exact.var((0, 2)), 9)


@each
def test_forward_standardizes_scales_and_shifts(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    x, _, gamma, beta = values(shape, rng)
    (y,) = forward(x, *statistics(x), gamma, beta)
    expected = column(gamma) * standardized(x.astype(np.float64)) + column(beta)
    assert_close(y, expected, 100)  # a mean's rounding is 20 / 3 of the deviation's


@each
def test_gradients_of_all_three_inputs(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    x, dy, gamma, _ = values(shape, rng)
    mean, variance = statistics(x)
    dgamma, dbeta = reduce(x, dy, mean, variance)
    (dx,) = backward(x, dy, mean, variance, gamma, dgamma, dbeta)
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    z, m = standardized(x), x.shape[0] * x.shape[2]
    scale = column(gamma / np.sqrt(x.var((0, 2)) + EPSILON))
    exact_dgamma, exact_dbeta = (dy * z).sum((0, 2)), dy.sum((0, 2))
    assert_close(dbeta, exact_dbeta, m)
    assert_close(dgamma, exact_dgamma, 100 * m)
    slope = dy - column(exact_dbeta) / m - z * column(exact_dgamma) / m
    assert_close(dx, scale * slope, 100)


def test_the_gradient_agrees_with_central_differences(rng: np.random.Generator) -> None:
    x, dy, gamma, beta = values((2, 2, 5), rng)
    mean, variance = statistics(x)
    dgamma, dbeta = reduce(x, dy, mean, variance)
    (dx,) = backward(x, dy, mean, variance, gamma, dgamma, dbeta)
    scaled = lambda x: column(gamma) * standardized(x) + column(beta)  # noqa: E731
    assert_close(dx, central_difference(scaled, x, dy), 100)


def test_outputs_may_lie_on_inputs(rng: np.random.Generator) -> None:
    x, dy, gamma, beta = values((17, 4, 65), rng)
    mean, variance = statistics(x)
    at = elementwise(x.shape)
    inputs = [x, mean, variance, gamma, beta]
    over = launch_over(batchnorm.forward, *at, 0, inputs, [EPSILON])
    assert_same_bits(over, forward(*inputs)[0])
    inputs = [x, dy, mean, variance, gamma, *reduce(x, dy, mean, variance)]
    over = launch_over(batchnorm.backward, *at, 1, inputs, [EPSILON])
    assert_same_bits(over, backward(*inputs)[0])


def test_running_averages_use_the_unbiased_variance(rng: np.random.Generator) -> None:
    old_mean, old_variance, mean, variance = (
        rng.random(40).astype(np.float32) for _ in range(4)
    )
    results = running(old_mean, old_variance, mean, variance)
    exact = [
        0.9 * old_mean.astype(np.float64) + 0.1 * mean,
        0.9 * old_variance.astype(np.float64) + 0.1 * variance * 50 / 49,
    ]
    for result, expected in zip(results, exact, strict=True):
        assert_close(result, expected)


def test_batch_norm_reads_its_inputs_and_repeats_itself(
    rng: np.random.Generator,
) -> None:
    x, dy, gamma, beta = values((17, 4, 65), rng)
    mean, variance = statistics(x)
    sums = reduce(x, dy, mean, variance)
    for compute, inputs in (
        (statistics, [x]),
        (forward, [x, mean, variance, gamma, beta]),
        (reduce, [x, dy, mean, variance]),
        (backward, [x, dy, mean, variance, gamma, *sums]),
        (running, [mean, variance, gamma, beta]),
    ):
        assert_reads(compute, *inputs)
        assert_repeatable(compute, *inputs)


@each
def test_batch_norm_agrees_with_pytorch(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    torch = pytest.importorskip("torch")
    x, dy, gamma, beta = values(shape, rng)
    mean, variance = statistics(x)
    given, scale, shift = (
        torch.tensor(value, requires_grad=True) for value in (x, gamma, beta)
    )
    averages = torch.zeros(shape[1]), torch.ones(shape[1])
    expected = torch.nn.functional.batch_norm(
        given, *averages, scale, shift, training=True, momentum=0.1, eps=EPSILON
    )
    expected.backward(torch.tensor(dy))
    results = reduce(x, dy, mean, variance)
    results += backward(x, dy, mean, variance, gamma, *results)
    results += forward(x, mean, variance, gamma, beta)
    theirs = (scale.grad, shift.grad, given.grad, expected.detach())
    m = shape[0] * shape[2]
    for result, other in zip(results, theirs, strict=True):
        assert_close(result, other.numpy().astype(np.float64), 200 * m)
    running_mean = np.zeros(shape[1], np.float32)
    running_variance = np.ones(shape[1], np.float32)
    simt.compile(batchnorm.running)[(1,), (32,)](
        running_mean, running_variance, mean, variance, np.float32(0.1), m
    )
    assert_close(running_mean, averages[0].numpy().astype(np.float64), 100)
    assert_close(running_variance, averages[1].numpy().astype(np.float64), 100)
