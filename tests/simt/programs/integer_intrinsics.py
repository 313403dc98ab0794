"""Bits, fused multiply-add, cube root, selection."""

import numpy as np
from numba import cuda, int32


@cuda.jit
def bits(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = cuda.popc(x[i])
        out[1, i] = cuda.brev(x[i])
        out[2, i] = cuda.clz(x[i])
        out[3, i] = cuda.ffs(x[i])
        out[4, i] = cuda.selp(x[i] > 5, int32(1), int32(2))


x = np.array([0, 1, 6, 0x7FFFFFFF], np.int32)
out = np.zeros((5, 4), np.int32)
bits[1, 32](x, out)
assert out[0].tolist() == [0, 1, 2, 31]
assert out[1].view(np.uint32).tolist() == [0, 1 << 31, 0b011 << 29, 0xFFFFFFFE]
assert out[2].tolist() == [32, 31, 29, 1]
assert out[3].tolist() == [0, 1, 2, 1]
assert out[4].tolist() == [2, 2, 1, 1]


@cuda.jit
def wide_bits(x, counts, reversed_bits):
    i = cuda.grid(1)
    if i < x.size:
        counts[0, i] = cuda.popc(x[i])
        counts[1, i] = cuda.clz(x[i])
        counts[2, i] = cuda.ffs(x[i])
        reversed_bits[i] = cuda.brev(x[i])


x = np.array([0, 1, 1 << 40, 0xFFFFFFFFFFFFFFFF], np.uint64)
counts, reversed_bits = np.zeros((3, 4), np.int32), np.zeros(4, np.uint64)
wide_bits[1, 32](x, counts, reversed_bits)
assert counts.tolist() == [[0, 1, 1, 64], [64, 63, 23, 0], [0, 1, 41, 1]]
assert reversed_bits.tolist() == [0, 1 << 63, 1 << 23, 0xFFFFFFFFFFFFFFFF]


@cuda.jit
def reals(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = cuda.fma(x[i], x[i], -1.0)
        out[1, i] = cuda.cbrt(x[i])


x = np.array([1 + 2.0**-30, 8.0, 27.0])
out = np.zeros((2, 3))
reals[1, 32](x, out)
assert out[0, 0] == 2.0**-29 + 2.0**-60
np.testing.assert_allclose(out[1], np.cbrt(x))
