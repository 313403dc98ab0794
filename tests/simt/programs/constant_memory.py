"""Manual, "Memory management": a constant array."""

import numpy as np
from numba import cuda

WEIGHTS = np.array([0.25, 0.5, 0.25])


@cuda.jit
def smooth(x, out):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i > 0 and i < x.size - 1:
        total = 0.0
        for k in range(3):
            total += weights[k] * x[i + k - 1]
        out[i] = total


x = np.random.default_rng(0).random(50)
out = np.zeros_like(x)
smooth[2, 32](x, out)
np.testing.assert_allclose(out[1:-1], np.convolve(x, WEIGHTS, "valid"))
