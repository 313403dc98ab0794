"""Manual, "Examples": a NumPy ufunc called in a kernel."""

import numpy as np
from numba import cuda


@cuda.jit
def sine(out, x):
    np.sin(x, out)


x = np.arange(10, dtype=np.float32) - 5
out = np.zeros_like(x)
sine[1, 1](out, x)
np.testing.assert_allclose(out, np.sin(x), rtol=1e-6)
