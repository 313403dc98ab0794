"""Manual, "Debugging CUDA Python with the CUDA Simulator": its kernel."""

import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, out):
    x = cuda.threadIdx.x
    bx = cuda.blockIdx.x
    bdx = cuda.blockDim.x
    i = bx * bdx + x
    out[i] = a[i] + b[i]


a = np.arange(128.0)
out = np.zeros(128)
add[4, 32](a, a, out)
assert (out == 2 * a).all()
