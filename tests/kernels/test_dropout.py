"""Dropout: its generator against published words, and what it makes of a tensor."""

import numpy as np
import pytest
from numba import cuda, uint32

from snref import simt
from snref.kernels import dropout

from .reference import (
    Array,
    assert_close,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    launch,
    launch_over,
)

LAUNCH = (3,), (256,)  # too few threads for the largest: each goes on by a stride
DRAW = (2018, 4, 7)  # seed, layer, iteration
MANY = 400_000


def forward(
    x: Array,
    threads: int | None = None,
    draw: tuple[int, int, int] = DRAW,
    ratio: float = 0.5,
) -> list[Array]:
    scalars = [*draw, ratio]
    return launch(dropout.forward, *LAUNCH, [x.shape], [x], scalars, threads)


def backward(dy: Array, threads: int | None = None, ratio: float = 0.5) -> list[Array]:
    scalars = [*DRAW, ratio]
    return launch(dropout.backward, *LAUNCH, [dy.shape], [dy], scalars, threads)


def kept(seed: int, layer: int, iteration: int, ratio: float = 0.5) -> Array:
    """1 where a large tensor's element is kept, 0 where it is dropped."""
    ones = np.ones(MANY, np.float32)
    return (forward(ones, None, (seed, layer, iteration), ratio)[0] > 0).astype(float)


# Salmon et al. 2011; the numbers are those of Random123's file kat_vectors, for seven
# rounds: counter, key, words.
KNOWN = (
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "5207ddc2 45165e59 4d8ee751 8c52f662"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "4dfccaba 190a87f0 c47362ba b6b5242a"),
)  # fmt: skip


@cuda.jit
def words(out, c, k):
    if cuda.grid(1) == 0:
        out[0], out[1], out[2], out[3] = dropout.philox(
            uint32(c[0]), uint32(c[1]), uint32(c[2]), uint32(c[3]), k[0], k[1]
        )


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_the_generator_is_philox(counter: str, key: str, expected: str) -> None:
    c, k, e = (
        np.array([int(word, 16) for word in text.split()], np.uint32)
        for text in (counter, key, expected)
    )
    out = np.zeros(4, np.uint32)
    simt.compile(words)[1, 32](out, c, k)
    np.testing.assert_array_equal(out, e)


def test_an_element_is_drawn_by_its_own_counter() -> None:
    """Saved runs end in the same bits only as long as no word changes its place."""
    seed, layer, iteration = 2018 + (5 << 32), 4, 7
    compiled, drawn = simt.compile(words), np.zeros((3, 4), np.uint32)
    for i in range(3):  # three words a quarter, of a tensor of 10
        counter = np.array([i, 0, layer, iteration], np.uint32)
        compiled[1, 32](drawn[i], counter, np.array([2018, 5], np.uint32))
    x = np.ones(10, np.float32)
    (y,) = forward(x, draw=(seed, layer, iteration))
    np.testing.assert_array_equal(y > 0, (drawn.T.ravel() >= 2**31)[:10])


@pytest.mark.parametrize("size", (1, 2, 3, 4, 5, 1023, 5000))
@pytest.mark.parametrize("ratio", (0.0, 0.1, 0.5, 0.9))
def test_elements_are_dropped_or_scaled(
    size: int, ratio: float, rng: np.random.Generator
) -> None:
    x = 1 + rng.random(size).astype(np.float32)
    (y,) = forward(x, ratio=ratio)
    scaled = x.astype(np.float64) / (1 - np.float64(np.float32(ratio)))
    assert_close(y, np.where(y == 0, 0, scaled))
    if ratio == 0:
        assert (y > 0).all()
    assert_same_bits(backward(x, ratio=ratio)[0], y)


@pytest.mark.parametrize("ratio", (0.1, 0.5, 0.9))
def test_the_right_share_is_dropped(ratio: float) -> None:
    deviation = np.sqrt(ratio * (1 - ratio) / MANY)
    assert abs(kept(*DRAW, ratio).mean() - (1 - ratio)) < 5 * deviation


@pytest.mark.parametrize("distance", (1, 2, 3, 4, 55, 256, MANY // 4, MANY // 2))
def test_neighbours_are_independent(distance: int) -> None:
    mask = kept(*DRAW) - 0.5
    together = np.mean(mask[:-distance] * mask[distance:]) / 0.25
    assert abs(together) < 5 / np.sqrt(MANY - distance)


@pytest.mark.parametrize(
    "other",
    [
        (2018, 4, 8),
        (2018, 5, 7),
        (2019, 4, 7),
        (2018 + (1 << 32), 4, 7),
        (2018, 7, 4),
        (-2018, 4, 7),
    ],
    ids=str,
)
def test_seeds_layers_and_iterations_are_independent(
    other: tuple[int, int, int],
) -> None:
    together = np.mean((kept(*DRAW) - 0.5) * (kept(*other) - 0.5)) / 0.25
    assert abs(together) < 5 / np.sqrt(MANY)


def test_every_run_of_eight_elements_is_equally_likely() -> None:
    runs = kept(*DRAW).reshape(-1, 8) @ (1 << np.arange(8))
    counts = np.bincount(runs.astype(int), minlength=256)
    expected = MANY / 8 / 256
    chi_squared = np.sum((counts - expected) ** 2) / expected
    assert abs(chi_squared - 255) < 5 * np.sqrt(2 * 255)


def test_outputs_may_lie_on_inputs(rng: np.random.Generator) -> None:
    x = rng.standard_normal(5000).astype(np.float32)
    for kernel in (dropout.forward, dropout.backward):
        over = launch_over(kernel, *LAUNCH, 0, [x], [*DRAW, 0.5])
        assert_same_bits(over, forward(x)[0])


def test_dropout_reads_its_input_and_repeats_itself(rng: np.random.Generator) -> None:
    x = rng.standard_normal(5000).astype(np.float32)
    for compute in (forward, backward):
        assert_reads(compute, x)
        assert_repeatable(compute, x)


@pytest.mark.parametrize("size", range(1, 10))
def test_four_quarters_are_all_of_a_tensor_of_any_size(size: int) -> None:
    (y,) = forward(np.ones(size, np.float32))  # fails if it writes beside the tensor
    assert set(y) <= {0, 2}


@pytest.mark.parametrize("size", (1, 7, 4000))
def test_parts_of_a_batch_are_dropped_as_the_whole_is(
    size: int, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(size * 5, np.float32)
    for whole, part in (
        (dropout.forward, dropout.forward_part),
        (dropout.backward, dropout.backward_part),
    ):
        (y,) = launch(whole, *LAUNCH, [x.shape], [x], [*DRAW, 0.5])
        for first, last in (0, 2), (2, 3), (3, 5):
            mine = slice(first * size, last * size)
            given = [x[mine]], [*DRAW, 0.5, first * size, x.size]
            (found,) = launch(part, *LAUNCH, [x[mine].shape], *given)
            assert_same_bits(found, y[mine].copy())
        over = launch_over(part, *LAUNCH, 0, [x[mine].copy()], given[1])
        assert_same_bits(over, y[mine].copy())
