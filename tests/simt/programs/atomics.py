"""Every atomic operation, on global and shared memory."""

import numpy as np
from numba import cuda, int32


@cuda.jit
def arithmetic(out, reals):
    i = cuda.grid(1)
    cuda.atomic.add(out, 0, i)
    cuda.atomic.sub(out, 1, i)
    cuda.atomic.max(out, 2, i)
    cuda.atomic.min(out, 3, -i)
    cuda.atomic.and_(out, 4, 0xFF00 | i)
    cuda.atomic.or_(out, 5, i)
    cuda.atomic.xor(out, 6, i)
    cuda.atomic.exch(out, 7, 9)
    cuda.atomic.add(reals, 0, 0.5)


n = 256
out = np.zeros(8, np.int64)
out[4] = 0xFFFF
reals = np.zeros(1)
arithmetic[4, 64](out, reals)
total = n * (n - 1) // 2
assert out.tolist() == [total, -total, n - 1, 1 - n, 0xFF00, n - 1, 0, 9]
assert reals[0] == n / 2


@cuda.jit
def counters(out, order):
    i = cuda.grid(1)
    cuda.atomic.inc(out, 0, 9)
    cuda.atomic.dec(out, 1, 9)
    order[i] = cuda.atomic.add(out, 2, 1)


out = np.zeros(3, np.uint32)
order = np.zeros(n, np.int64)
counters[4, 64](out, order)
assert out.tolist() == [n % 10, (-n) % 10, n]
assert sorted(order) == list(range(n))


@cuda.jit
def first(slot, winner):
    i = cuda.grid(1)
    if cuda.atomic.cas(slot, 0, -1, i) == -1:
        winner[i] = 1


slot, winner = np.full(1, -1), np.zeros(n, np.int64)
first[4, 64](slot, winner)
assert winner.sum() == 1 and winner[slot[0]] == 1


@cuda.jit
def histogram(x, out):
    counts = cuda.shared.array(8, int32)
    thread = cuda.threadIdx.x
    if thread < 8:
        counts[thread] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, x[i], 1)
    cuda.syncthreads()
    if thread < 8:
        cuda.atomic.add(out, thread, counts[thread])


x = np.random.default_rng(0).integers(0, 8, 1000)
out = np.zeros(8, np.int32)
histogram[8, 128](x, out)
assert (out == np.bincount(x, minlength=8)).all()
