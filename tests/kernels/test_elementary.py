"""Elementary functions, against NumPy's in float64."""

import numpy as np
from numba import cuda

from snref.kernels.elementary import LOWEST, negative_exp

from .reference import Array, launch


@cuda.jit
def apply(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = negative_exp(x[i])


def exp(x: Array) -> Array:
    return launch(apply, (8,), (256,), [x.shape], [x])[0]


def test_negative_exp_is_right_to_two_units_in_the_last_place() -> None:
    x = -np.concatenate([np.linspace(0, 87, 200_000), np.logspace(-9, 1.9, 100_000)])
    x = x.astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    error = np.abs(exp(x) - exact) / np.spacing(exact.astype(np.float32))
    assert error.max() <= 2


def test_negative_exp_at_the_edges() -> None:
    x = np.array([0, -0.0, LOWEST - 0.01, -1e30, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(exp(x), [1, 1, 0, 0, 0, np.nan])
