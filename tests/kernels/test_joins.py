"""Joins: copies and sums are exact, so they are compared bit by bit."""

import numpy as np
import pytest

from snref import simt
from snref.kernels import joins

from .reference import (
    Array,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    launch,
    launch_over,
)

LAUNCH = (3,), (256,)  # too few threads for the largest: each goes on by a stride
ROWS = (2, 2), (256,)  # and too few rows of blocks


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def copy(x: Array, threads: int | None = None) -> list[Array]:
    return launch(joins.copy, *LAUNCH, [x.shape], [x], threads=threads)


def add(a: Array, b: Array, threads: int | None = None) -> list[Array]:
    return launch(joins.add, *LAUNCH, [a.shape], [a, b], threads=threads)


def accumulate(y: Array, x: Array, threads: int | None = None) -> list[Array]:
    result = y.copy()
    simt.compile(joins.accumulate, threads=threads)[LAUNCH](result, x)
    return [result]


def concat(*xs: Array, threads: int | None = None) -> list[Array]:
    y = np.full((xs[0].shape[0], sum(x.shape[1] for x in xs)), np.nan, np.float32)
    offset = 0
    for x in xs:
        simt.compile(joins.concat, threads=threads)[ROWS](y, x, offset)
        offset += x.shape[1]
    return [y]


def split(dy: Array, threads: int | None = None) -> list[Array]:
    shape = (dy.shape[0], dy.shape[1] // 3)
    offsets = (0, 7, 2 * shape[1])
    return [
        launch(joins.split, *ROWS, [shape], [dy], [offset], threads)[0]
        for offset in offsets
    ]


@pytest.mark.parametrize("size", (1, 255, 256, 257, 5000))
def test_copies_and_sums(size: int, rng: np.random.Generator) -> None:
    a, b = normal(rng, size), normal(rng, size)
    assert_same_bits(copy(a)[0], a)
    assert_same_bits(add(a, b)[0], a + b)
    assert_same_bits(accumulate(a, b)[0], a + b)


def test_concat_and_split_move_columns(rng: np.random.Generator) -> None:
    xs = [normal(rng, 3, columns) for columns in (1, 700, 35)]
    assert_same_bits(concat(*xs)[0], np.concatenate(xs, axis=1))
    dy = normal(rng, 3, 1500)
    for piece, start in zip(split(dy), (0, 7, 1000), strict=True):
        assert_same_bits(piece, np.ascontiguousarray(dy[:, start : start + 500]))


def test_concat_leaves_the_other_columns_alone(rng: np.random.Generator) -> None:
    y, x = normal(rng, 3, 20), normal(rng, 3, 5)
    before = y.copy()
    simt.compile(joins.concat)[ROWS](y, x, 7)
    assert_same_bits(y[:, 7:12].copy(), x)
    y[:, 7:12] = before[:, 7:12]
    assert_same_bits(y, before)


def test_take_and_put_move_images(rng: np.random.Generator) -> None:
    y, before = normal(rng, 5000), normal(rng, 5000)
    part = launch(joins.take, *LAUNCH, [1500], [y], [2000])[0]
    assert_same_bits(part, y[2000:3500].copy())
    after = before.copy()
    simt.compile(joins.put)[LAUNCH](after, part, 2000)
    assert_same_bits(after[2000:3500].copy(), part)
    after[2000:3500] = before[2000:3500]
    assert_same_bits(after, before)


def test_a_sum_may_lie_on_its_first_term(rng: np.random.Generator) -> None:
    a, b = normal(rng, 1000), normal(rng, 1000)
    assert_same_bits(launch_over(joins.add, *LAUNCH, 0, [a, b]), a + b)
    assert_same_bits(launch_over(joins.copy, *LAUNCH, 0, [a]), a)


def test_joins_read_their_inputs_and_repeat_themselves(
    rng: np.random.Generator,
) -> None:
    a, b, rows = normal(rng, 5000), normal(rng, 5000), normal(rng, 3, 1500)
    for compute, inputs in (
        (copy, [a]),
        (add, [a, b]),
        (accumulate, [a, b]),
        (concat, [rows, rows[:, :7].copy()]),
        (split, [rows]),
    ):
        assert_reads(compute, *inputs)
        assert_repeatable(compute, *inputs)
