"""Manual of numba-cuda, "Passing a pointer to a kernel": refused."""

import numpy as np
from numba import cuda, types


@cuda.jit(types.void(types.CPointer(types.uint8), types.int64))
def add_one(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] += 1


x = cuda.to_device(np.arange(5, dtype=np.uint8))
pointer = x.__cuda_array_interface__["data"][0]
add_one[1, 32](pointer, len(x))
assert (x.copy_to_host() == np.arange(1, 6)).all()
