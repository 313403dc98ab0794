"""cuda.libdevice: functions for one kind of number, and some that are fast."""

import numpy as np
from numba import cuda
from numba.cuda import libdevice


@cuda.jit
def polar(length, angle, x, y):
    i = cuda.grid(1)
    if i < x.size:
        sine, cosine = libdevice.sincosf(angle[i])
        x[i] = length[i] * cosine
        y[i] = length[i] * sine


@cuda.jit
def softmax(y, x):
    i = cuda.grid(1)
    if i < x.size:
        total = np.float32(0)
        for v in x:
            total += cuda.libdevice.fast_expf(v)
        y[i] = cuda.libdevice.fast_fdividef(cuda.libdevice.fast_expf(x[i]), total)


n = 100
random = np.random.default_rng(0)
length, angle = random.uniform(1, 6, (2, n)).astype(np.float32)
x, y = np.zeros((2, n), np.float32)
polar[2, 64](length, angle, x, y)
assert np.allclose(np.hypot(x, y), length)
assert np.allclose(np.arctan2(y, x) % (2 * np.pi), angle % (2 * np.pi), atol=1e-5)
softmax[2, 64](y, x)
assert np.allclose(y, np.exp(x) / np.exp(x).sum(), rtol=1e-5)
