"""Correct kernels of kinds that a checker may take for wrong: check mode is silent."""

import numpy as np
from numba import cuda, float32, float64, int32

N = 64


@cuda.jit
def everyone_writes_the_flag(a, out):
    """All threads write the same value."""
    if a[cuda.threadIdx.x] > -1:
        out[0] = 1


@cuda.jit
def sum_of_a_warp(a, out):
    """Threads of one warp take turns in shared memory: syncwarp orders them."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncwarp()
    d = 16
    while d > 0:
        value = s[t]
        if t % 32 + d < 32:
            value = s[t] + s[t + d]
        cuda.syncwarp()
        s[t] = value
        cuda.syncwarp()
        d //= 2
    out[t] = s[t - t % 32]


@cuda.jit
def shuffles_of_the_first_warp(a, out):
    """The mask is full, and so is each warp that takes part."""
    s = cuda.shared.array(2, float32)
    t = cuda.threadIdx.x
    value = a[t]
    for d in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, d)
    if t % 32 == 0:
        s[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = s[t] if t < 2 else float32(0)
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
        if t == 0:
            out[0] = value


@cuda.jit
def shuffle_of_those_who_take_part(a, out):
    t = cuda.threadIdx.x
    if t < 8:
        out[t] = cuda.shfl_xor_sync(0xFF, a[t], 1)


@cuda.jit
def maximum_by_compare_and_swap(a, out):
    """The loop of the CUDA C++ Programming Guide, section "Atomic Functions"."""
    i = cuda.grid(1)
    old = out[0]
    while old < a[i]:
        assumed = old
        old = cuda.atomic.cas(out, 0, assumed, a[i])
        if old == assumed:
            break


@cuda.jit
def last_block_adds_up(a, out):
    """The programming guide's example of threadfence, section "Memory Fence Functions":
    out[1:] are sums of blocks, out[0] counts those that are done."""
    s = cuda.shared.array(N, float64)
    last = cuda.shared.array(1, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t] = a[i]
    cuda.syncthreads()
    if t == 0:
        total = 0.0
        for k in range(cuda.blockDim.x):
            total += s[k]
        out[1 + cuda.blockIdx.x] = total
        cuda.threadfence()
        last[0] = cuda.atomic.add(out, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        total = 0.0
        for b in range(cuda.gridDim.x):
            total += out[1 + b]
        out[0] = total


@cuda.jit
def double_buffer(a, out):
    s = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    s[0, t] = a[t]
    cuda.syncthreads()
    for k in range(4):
        here, there = k % 2, (k + 1) % 2
        s[there, t] = s[here, t] + s[here, (t + 1) % N]
        cuda.syncthreads()
    out[t] = s[0, t]


@cuda.jit
def given_by_every_path(a, out):
    t = cuda.threadIdx.x
    if t % 2:
        x = a[t]
    else:
        x = -a[t]
    if t > 3:
        y = x
    for k in range(4):
        if k == t % 4:
            break
        z = k
    if t > 3:
        x += y
    if t % 4 > 0:
        x += z
    while True:
        w = x + k
        if w > -1000:
            break
    out[t] = w


@cuda.jit
def neighbours_in_a_ring(a, out):
    """Numba counts negative indices from the end."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t - 1] = a[t - 1]
    cuda.syncthreads()
    out[t] = s[t - 1] + a[-1]


CASES = {
    neighbours_in_a_ring: (1, N),
    everyone_writes_the_flag: (2, N),
    sum_of_a_warp: (1, N),
    shuffles_of_the_first_warp: (1, N),
    shuffle_of_those_who_take_part: (1, N),
    maximum_by_compare_and_swap: (2, 32),
    last_block_adds_up: (4, 16),
    double_buffer: (1, N),
    given_by_every_path: (1, N),
}


def arguments():
    return np.arange(N, dtype=np.float64), np.zeros(N)


def results(a):
    """What each kernel leaves in `out`, by its name, as far as it is told here."""
    halves = np.repeat([a[:32].sum(), a[32:].sum()], 32)
    return {
        "everyone_writes_the_flag": [1],
        "neighbours_in_a_ring": np.roll(a, 1) + a[-1],
        "sum_of_a_warp": halves,
        "shuffles_of_the_first_warp": [a.sum()],
        "shuffle_of_those_who_take_part": [1, 0, 3, 2, 5, 4, 7, 6],
        "maximum_by_compare_and_swap": [a.max()],
        "last_block_adds_up": [a.sum(), *a.reshape(4, 16).sum(1)],
    }
