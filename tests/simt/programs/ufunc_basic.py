"""Manual, "CUDA Ufuncs": an element-wise function of several types."""

import math

import numpy as np
from numba import vectorize


@vectorize(
    ["float32(float32, float32, float32)", "float64(float64, float64, float64)"],
    target="cuda",
)
def discriminant(a, b, c):
    return math.sqrt(b**2 - 4 * a * c)


random = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    a, b, c = (random.random(1000).astype(dtype) for _ in range(3))
    b += 10
    result = discriminant(a, b, c)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, np.sqrt(b**2 - 4 * a * c), rtol=1e-6)
