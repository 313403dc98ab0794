"""float16: arrays, shared memory, arithmetic and the functions of `cuda.fp16`."""

import math

import numpy as np
from numba import cuda, float32
from numba.core.types import float16
from numba.cuda import fp16

N = 64


@cuda.jit(device=True)
def rectified(x):
    return fp16.hmax(x, float16(0))


@cuda.jit
def layer(y, x, w, bias):
    """y = max(0, 2 w x + bias) with the elements of x in reverse order."""
    reverse = cuda.shared.array(N, float16)
    i = cuda.threadIdx.x
    reverse[N - 1 - i] = x[i]
    cuda.syncthreads()
    y[i] = rectified(cuda.fp16.hfma(w[i], reverse[i] * float16(2), bias))


@cuda.jit
def mean_square(out, x):
    total = float32(0)  # a sum of halves loses the small ones
    for i in range(x.size):
        total += x[i] * x[i]
    out[0] = math.sqrt(total / x.size)


assert cuda.is_float16_supported()
random = np.random.default_rng(0)
x, w = random.normal(size=(2, N)).astype(np.float16)
bias = np.float16(0.1)
y, norm = cuda.device_array(N, np.float16), np.zeros(1, np.float16)
layer[1, N](y, x, w, bias)
mean_square[1, 1](norm, y)

# the product of two halves has at most 22 digits, which a float64 holds
right = w.astype(float) * (2 * x[::-1]) + bias
right = np.maximum(right.astype(np.float16), 0)
assert (y.copy_to_host() == right).all()
total = np.float32(0)
for square in right * right:
    total += np.float32(square)
assert norm[0] == np.float16(math.sqrt(total / N))
