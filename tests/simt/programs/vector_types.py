"""Manual, "CUDA-Specific Types": vectors, made of numbers and of vectors."""

import numpy as np
from numba import cuda, float32, uint32
from numba.cuda import float2, float32x2, float32x3, uint32x2, uint32x3, uint32x4


@cuda.jit(device=True)
def dot(v, w):
    return v.x * w.x + v.y * w.y


@cuda.jit(device=True)
def turned(v):
    return float2(-v.y, v.x)


@cuda.jit
def vectors(out, counts):
    i = cuda.grid(1)
    v = float32x2(1.0, i)
    w = turned(v)
    out[i, 0] = dot(v, w)
    out[i, 1] = dot(v, v)
    if i > 2:
        v = w
    out[i, 2] = v.x
    three = float32x3(float32(0.0), w)
    out[i, 3] = three.x + three.z

    zero = uint32(0)
    pair = uint32x2(1, 2)
    mixed = uint32x3(zero, pair)
    four = uint32x4(pair, pair)
    counts[i] = mixed.z * 1000 + four.x * 100 + four.y * 10 + four.w


n = 32
i = np.arange(n)
out, counts = np.zeros((n, 4), np.float32), np.zeros(n, np.int64)
vectors[1, n](out, counts)
assert (out[:, 0] == 0).all()
assert (out[:, 1] == 1 + i**2).all()
assert (out[:, 2] == np.where(i > 2, -i, 1)).all()
assert (out[:, 3] == 1).all()
assert (counts == 2122).all()
