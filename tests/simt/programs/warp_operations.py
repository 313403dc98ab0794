"""Threads of a warp: shuffles, votes, lanes."""

import numpy as np
from numba import cuda

ALL = 0xFFFFFFFF


@cuda.jit
def shuffles(out):
    lane = cuda.laneid
    out[0, lane] = cuda.shfl_sync(ALL, lane, 5)
    out[1, lane] = cuda.shfl_up_sync(ALL, lane, 1)
    out[2, lane] = cuda.shfl_down_sync(ALL, lane, 1)
    out[3, lane] = cuda.shfl_xor_sync(ALL, lane, 1)
    out[4, lane] = cuda.warpsize


lanes = np.arange(32)
out = np.zeros((5, 32), np.int32)
shuffles[1, 32](out)
assert (out[0] == 5).all()
assert (out[1] == np.maximum(lanes - 1, 0)).all()
assert (out[2] == np.minimum(lanes + 1, 31)).all()
assert (out[3] == lanes ^ 1).all()
assert (out[4] == 32).all()


@cuda.jit
def total(x, out):
    i = cuda.grid(1)
    value = x[i]
    shift = 16
    while shift > 0:
        value += cuda.shfl_down_sync(ALL, value, shift)
        cuda.syncwarp()
        shift //= 2
    if i % 32 == 0:
        out[i // 32] = value


x = np.arange(128)
out = np.zeros(4, np.int64)
total[2, 64](x, out)
assert (out == x.reshape(4, 32).sum(1)).all()


@cuda.jit
def votes(x, out):
    lane = cuda.threadIdx.x
    out[0, lane] = cuda.all_sync(ALL, x[lane] > 0) != 0
    out[1, lane] = cuda.any_sync(ALL, x[lane] > 30) != 0
    out[2, lane] = cuda.eq_sync(ALL, x[lane] > 30) != 0
    out[3, lane] = cuda.ballot_sync(ALL, x[lane] % 2 == 0)
    out[4, lane] = cuda.activemask()


out = np.zeros((5, 32), np.int64)
votes[1, 32](np.arange(32), out)
assert not out[0].any() and out[1].all() and not out[2].any()
assert (out[3] & ALL == 0x55555555).all()
assert (out[4] & ALL == ALL).all()
