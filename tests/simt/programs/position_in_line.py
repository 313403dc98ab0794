"""Manual, "Writing CUDA Kernels": the same by `cuda.grid(1)`."""

import numpy as np
from numba import cuda


@cuda.jit
def increment(array):
    position = cuda.grid(1)
    if position < array.size:
        array[position] += 1


array = np.zeros(1000, np.float32)
increment[8, 128](array)
assert (array == 1).all()
