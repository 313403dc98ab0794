"""Manual, "Writing CUDA Kernels": a plane of threads over a matrix."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def increment(matrix):
    row, column = cuda.grid(2)
    if row < matrix.shape[0] and column < matrix.shape[1]:
        matrix[row, column] += 1


matrix = np.zeros((37, 51))
threads = (16, 16)
blocks = tuple(math.ceil(n / t) for n, t in zip(matrix.shape, threads, strict=True))
increment[blocks, threads](matrix)
assert (matrix == 1).all()
