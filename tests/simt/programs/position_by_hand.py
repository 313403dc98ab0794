"""Manual, "Writing CUDA Kernels": a thread finds its element by hand."""

import numpy as np
from numba import cuda


@cuda.jit
def increment(array):
    position = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if position < array.size:
        array[position] += 1


array = np.arange(100)
threads = 32
blocks = (array.size + threads - 1) // threads
increment[blocks, threads](array)
assert (array == np.arange(1, 101)).all()
