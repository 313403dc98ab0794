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


@cuda.jit
def matches(x, out):
    lane = cuda.threadIdx.x
    out[0, lane] = cuda.match_any_sync(ALL, x[lane])
    mask, same = cuda.match_all_sync(ALL, x[lane] * 0)
    out[1, lane] = mask
    out[2, lane] = same
    mask, same = cuda.match_all_sync(ALL, x[lane])
    out[3, lane] = mask
    out[4, lane] = same
    out[5, lane] = cuda.lanemask_lt()


x = np.arange(32) % 3
out = np.zeros((6, 32), np.int64)
matches[1, 32](x, out)
groups = [sum(1 << i for i in range(32) if i % 3 == k) for k in range(3)]
assert (out[0] & ALL == np.array(groups)[x]).all()
assert (out[1] & ALL == ALL).all() and out[2].all()
assert not out[3].any() and not out[4].any()
assert (out[5] & ALL == (1 << lanes) - 1).all()
