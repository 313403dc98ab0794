"""Manual, "Supported Atomic Operations": an index of three numbers."""

import numpy as np
from numba import cuda


@cuda.jit
def maximum(result, values):
    i, j, k = cuda.grid(3)
    cuda.atomic.max(result, (0, 1, 2), values[i, j, k])


values = np.random.default_rng(0).random((10, 10, 10))
result = np.zeros((3, 3, 3))
maximum[(2, 2, 2), (5, 5, 5)](result, values)
assert result[0, 1, 2] == values.max() and np.count_nonzero(result) == 1
