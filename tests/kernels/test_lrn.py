"""Local response normalization, and its gradient."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from snref.kernels import lrn

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

LAUNCH = (2, 2), (lrn.THREADS,)  # too few for the largest: each goes on by a stride


@dataclass(frozen=True)
class Case:
    """An array (N, C, pixels) and the settings of the layer."""

    x: tuple[int, int, int]
    size: int = 5
    alpha: float = 5e-1  # large, so that the denominator is more than k
    beta: float = 0.75
    k: float = 2.0

    @property
    def scalars(self) -> tuple[int, float, float, float]:
        return self.size, self.alpha, self.beta, self.k

    @property
    def terms(self) -> int:
        return 4 * self.size  # of them, the power is worth a few


CASES = {
    "AlexNet's": Case((3, 7, 210)),
    "AlexNet's, its own alpha": Case((3, 11, 50), alpha=5e-4),
    "fewer channels than size": Case((2, 3, 35)),
    "one channel": Case((2, 1, 35)),
    "size 1": Case((2, 6, 35), size=1),
    "size 3, another power": Case((2, 9, 35), size=3, beta=0.6),
    "size 9, k 1": Case((2, 13, 35), size=9, k=1.0),
    "the largest size": Case((1, 20, 35), size=lrn.LARGEST - 1, beta=1.0),
}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def denominator(x: Array, case: Case) -> Array:
    half = case.size // 2
    squares = np.pad(np.square(x), ((0, 0), (half, half), (0, 0)))
    channels = x.shape[1]
    total = sum(squares[:, j : j + channels] for j in range(case.size))
    return case.k + case.alpha / case.size * total


def normalized(x: Array, case: Case) -> Array:
    return x * denominator(x, case) ** -case.beta


def gradient(x: Array, dy: Array, case: Case) -> Array:
    half = case.size // 2
    d = denominator(x, case)
    g = np.pad(dy * x * d ** (-case.beta - 1), ((0, 0), (half, half), (0, 0)))
    total = sum(g[:, j : j + x.shape[1]] for j in range(case.size))
    factor = 2 * case.alpha * case.beta / case.size
    return dy * d**-case.beta - factor * x * total


def forward(case: Case) -> Callable[..., list[Array]]:
    def run(x: Array, threads: int | None = None) -> list[Array]:
        return launch(lrn.forward, *LAUNCH, [x.shape], [x], case.scalars, threads)

    return run


def backward(case: Case) -> Callable[..., list[Array]]:
    def run(x: Array, dy: Array, threads: int | None = None) -> list[Array]:
        return launch(lrn.backward, *LAUNCH, [x.shape], [x, dy], case.scalars, threads)

    return run


def values(case: Case, rng: np.random.Generator) -> list[Array]:
    return [3 * rng.standard_normal(case.x).astype(np.float32) for _ in range(2)]


@each
def test_a_channel_is_divided_by_its_neighbours(
    case: Case, rng: np.random.Generator
) -> None:
    x, dy = values(case, rng)
    exact = x.astype(np.float64), dy.astype(np.float64)
    assert_close(forward(case)(x)[0], normalized(exact[0], case), case.terms)
    assert_close(backward(case)(x, dy)[0], gradient(*exact, case), case.terms)


def test_the_gradient_agrees_with_central_differences(rng: np.random.Generator) -> None:
    case = Case((1, 6, 4))
    x, dy = values(case, rng)
    slope = central_difference(lambda x: normalized(x, case), x, dy, 1e-4)
    assert_close(backward(case)(x, dy)[0], slope, case.terms)


@each
def test_the_gradient_may_lie_on_dy(case: Case, rng: np.random.Generator) -> None:
    x, dy = values(case, rng)
    over = launch_over(lrn.backward, *LAUNCH, 1, [x, dy], case.scalars)
    assert_same_bits(over, backward(case)(x, dy)[0])


def test_lrn_reads_its_inputs_and_repeats_itself(rng: np.random.Generator) -> None:
    case = CASES["AlexNet's"]
    x, dy = values(case, rng)
    for run, inputs in ((forward(case), [x]), (backward(case), [x, dy])):
        assert_reads(run, *inputs)
        assert_repeatable(run, *inputs)


@each
def test_lrn_agrees_with_pytorch(case: Case, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    x, dy = values(case, rng)
    given = torch.tensor(x, requires_grad=True)
    expected = torch.nn.functional.local_response_norm(given, *case.scalars)
    expected.backward(torch.tensor(dy))
    y = expected.detach().numpy().astype(np.float64)
    assert_close(forward(case)(x)[0], y, case.terms)
    (dx,) = backward(case)(x, dy)
    assert_close(dx, given.grad.numpy().astype(np.float64), 2 * case.terms)


@pytest.mark.parametrize("large", (np.inf, np.nan, 1e20))
def test_lrn_at_the_ends_of_float32_agrees_with_pytorch(large: float) -> None:
    torch = pytest.importorskip("torch")
    case = Case((1, 6, 1), size=3, alpha=1e-4, k=1.0)
    x, dy = np.ones(case.x, np.float32), np.ones(case.x, np.float32)
    x[0, 2] = large
    given = torch.tensor(x, requires_grad=True)
    expected = torch.nn.functional.local_response_norm(
        given, case.size, case.alpha, case.beta, case.k
    )
    expected.backward(torch.tensor(dy))
    for ours, theirs in (
        (forward(case)(x)[0], expected.detach()),
        (backward(case)(x, dy)[0], given.grad),
    ):
        np.testing.assert_allclose(ours, theirs.numpy(), 1e-6, 1e-9)
