"""Manual, "Examples": the product of matrices, an element a thread."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def product(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


a = np.arange(16).reshape(4, 4)
b = np.ones((4, 4))
c = cuda.to_device(np.zeros((4, 4)))
threads = (16, 16)
blocks = tuple(math.ceil(n / t) for n, t in zip(c.shape, threads, strict=True))
product[blocks, threads](cuda.to_device(a), cuda.to_device(b), c)
assert (c.copy_to_host() == a @ b).all()
