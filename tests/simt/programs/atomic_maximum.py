"""Manual, "Supported Atomic Operations": the largest element."""

import numpy as np
from numba import cuda


@cuda.jit
def maximum(result, values):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    cuda.atomic.max(result, 0, values[i])


values = np.random.default_rng(0).random(16384)
result = np.zeros(1)
maximum[256, 64](result, values)
assert result[0] == values.max()
