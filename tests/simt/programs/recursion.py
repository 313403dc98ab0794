"""Manual, "Supported Python features": a device function that calls itself."""

import numpy as np
from numba import cuda


@cuda.jit("int64(int64)", device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit
def numbers(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = fibonacci(i)


out = np.zeros(10, np.int64)
numbers[1, 32](out)
assert out.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
