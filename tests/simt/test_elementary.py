"""exp and log of the generated code against the library's in float64."""

import math

import numpy as np
import pytest
from numba import cuda

from snref import simt


@cuda.jit
def exponentials(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.exp(x[i])


@cuda.jit
def logarithms(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.log(x[i])


def computed(kernel, x):
    y = np.full_like(x, 7)
    simt.compile(kernel)[-(-x.size // 256), 256](x, y)
    return y


def units(y, exact):
    """The error in units of the last place of the float32 next to the exact value."""
    return np.abs(y - exact) / np.spacing(np.abs(exact).astype(np.float32))


def test_exp_is_within_two_units_in_the_last_place():
    x = np.linspace(-103, 88.7, 300_001).astype(np.float32)
    assert units(computed(exponentials, x), np.exp(x.astype(float))).max() <= 2


def test_log_is_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-103, 88, 200_000)).astype(np.float32)
    near = (1 + rng.uniform(-0.4, 0.6, 100_000)).astype(np.float32)
    x = np.concatenate([x[x > 0], near[near != 1]])
    assert units(computed(logarithms, x), np.log(x.astype(float))).max() <= 2


@pytest.mark.parametrize(
    ("kernel", "library"), [(exponentials, np.exp), (logarithms, np.log)]
)
def test_values_at_the_edges(kernel, library):
    edges = [0.0, 1.0, np.inf, -np.inf, np.nan, 89.0, 1e30, -1e30, -104.5, 1e-45, -1.0]
    x = np.array(edges, np.float32)
    with np.errstate(all="ignore"):
        exact = library(x.astype(float)).astype(np.float32)
    np.testing.assert_allclose(computed(kernel, x), exact, rtol=3e-7)


@cuda.jit
def divisions(a, b, quotient, rest):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // b[i]
        rest[i] = a[i] % b[i]


def test_division_of_integers_is_exact():
    rng = np.random.default_rng(0)
    sides = [[0, 1, -1, 2, 7, -7, 2**40 + 1, 2**62 + 5, 2**63 - 1, -(2**63) + 1]]
    sides += [rng.integers(-(2**63) + 1, 2**63 - 1, 40), rng.integers(-99, 99, 40)]
    a, b = (x.ravel() for x in np.meshgrid(*[np.concatenate(sides)] * 2))
    a, b = a[b != 0], b[b != 0]
    quotient, rest = np.zeros_like(a), np.zeros_like(a)
    simt.compile(divisions)[-(-a.size // 256), 256](a, b, quotient, rest)
    np.testing.assert_array_equal(quotient, a // b)
    np.testing.assert_array_equal(rest, a % b)


def test_float64_is_the_librarys():
    x = np.linspace(0.1, 20, 100)
    np.testing.assert_allclose(computed(exponentials, x), np.exp(x), rtol=1e-15)
