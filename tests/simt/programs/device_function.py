"""Manual, "Writing Device Functions"."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def add(a, b):
    return a + b


@cuda.jit
def add_arrays(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = add(a[i], b[i])


a = np.arange(40.0)
out = np.zeros_like(a)
add_arrays[2, 32](a, a, out)
assert (out == 2 * a).all()
