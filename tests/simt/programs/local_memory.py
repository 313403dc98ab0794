"""Manual, "Memory management": an array of each thread's own."""

import numpy as np
from numba import cuda, float64

TERMS = 8


@cuda.jit
def exponential(x, out):
    i = cuda.grid(1)
    powers = cuda.local.array(TERMS, float64)
    if i < x.size:
        powers[0] = 1.0
        for k in range(1, TERMS):
            powers[k] = powers[k - 1] * x[i] / k
        total = 0.0
        for k in range(TERMS):
            total += powers[k]
        out[i] = total


x = np.linspace(0, 0.5, 77)
out = np.zeros_like(x)
exponential[3, 32](x, out)
np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)
