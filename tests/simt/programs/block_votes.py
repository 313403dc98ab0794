"""Barriers that count, and fences."""

import numpy as np
from numba import cuda


@cuda.jit
def votes(x, out):
    i = cuda.grid(1)
    count = cuda.syncthreads_count(x[i] > 0)
    every = cuda.syncthreads_and(x[i] > 0)
    some = cuda.syncthreads_or(x[i] > 0)
    out[i, 0] = count
    out[i, 1] = every
    out[i, 2] = some
    cuda.threadfence()
    cuda.threadfence_block()
    cuda.threadfence_system()
    cuda.nanosleep(1)


x = np.zeros(192, np.int32)
x[:3] = 1
x[64:128] = 1
out = np.full((192, 3), -1, np.int32)
votes[3, 64](x, out)
assert (out[:64, 0] == 3).all() and (out[64:128, 0] == 64).all()
assert [out[64 * b, 1] != 0 for b in range(3)] == [False, True, False]
assert [out[64 * b, 2] != 0 for b in range(3)] == [True, True, False]
