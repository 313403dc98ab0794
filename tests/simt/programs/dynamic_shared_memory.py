"""Manual, "Memory management": the size of a shared array comes with the launch."""

import numpy as np
from numba import cuda


@cuda.jit
def reverse(x):
    held = cuda.shared.array(0, dtype=np.float32)
    i = cuda.threadIdx.x
    held[i] = x[i]
    cuda.syncthreads()
    x[i] = held[cuda.blockDim.x - 1 - i]


x = np.arange(32, dtype=np.float32)
reverse[1, 32, 0, 128](x)
assert (x == np.arange(32)[::-1]).all()
