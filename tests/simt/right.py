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


@cuda.jit(device=True)
def sum_of_the_block(s, t, value):
    s[t] = value
    cuda.syncthreads()
    d = cuda.blockDim.x // 2
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        cuda.syncthreads()
        d //= 2
    total = s[0]
    cuda.syncthreads()
    return total


@cuda.jit
def sums_one_after_another(a, out):
    """The function's second barrier lets the next sum use the same memory."""
    s = cuda.shared.array(32, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    value = a[i]
    for k in range(3):
        value = sum_of_the_block(s, t, value % 7) + k
        if value < 0:
            break
    out[i] = value


@cuda.jit
def scan_in_two_halves(a, out):
    """Reads of a step are over before its writes begin. The block is odd."""
    s = cuda.shared.array(33, float64)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 1
    while d < 33:
        value = s[t - d] if t >= d else 0.0
        cuda.syncthreads()
        s[t] += value
        cuda.syncthreads()
        d *= 2
    out[t] = s[t]


@cuda.jit
def sorted_by_odd_and_even(a, out):
    s = cuda.shared.array(N, float64)
    t = cuda.threadIdx.x
    s[t] = a[t] * 29 % 31
    cuda.syncthreads()
    for k in range(N):
        if t % 2 == k % 2 and t + 1 < N and s[t] > s[t + 1]:
            s[t], s[t + 1] = s[t + 1], s[t]
        cuda.syncthreads()
    out[t] = s[t]


@cuda.jit
def sorted_by_pairs(a, out):
    """Bitonic sort: of two partners the lower one exchanges."""
    s = cuda.shared.array(N, float64)
    t = cuda.threadIdx.x
    s[t] = a[t] * 29 % 31
    cuda.syncthreads()
    k = 2
    while k <= N:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t and (s[t] > s[other]) == ((t & k) == 0):
                s[t], s[other] = s[other], s[t]
            cuda.syncthreads()
            j //= 2
        k *= 2
    out[t] = s[t]


@cuda.jit
def bins_in_shared_memory(a, out):
    bins = cuda.shared.array(10, int32)
    t = cuda.threadIdx.x
    if t < 10:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, int(a[cuda.grid(1)]) % 10, 1)
    cuda.syncthreads()
    if t < 10:
        cuda.atomic.add(out, t, bins[t])


@cuda.jit
def tile_turned(a, out):
    tile = cuda.shared.array((8, 9), float64)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[y * 8 + x]
    cuda.syncthreads()
    out[x * 8 + y] = tile[y, x] + tile[7 - y, 7 - x]


@cuda.jit
def block_in_three_dimensions(a, out):
    s = cuda.shared.array((4, 2, 3), float64)
    x, y, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    s[z, y, x] = a[z * 6 + y * 3 + x]
    cuda.syncthreads()
    out[z * 6 + y * 3 + x] = s[3 - z, 1 - y, 2 - x]


@cuda.jit
def neighbours_behind_a_guard(a, out):
    """A tile larger than the data: what is outside is set, not read from `a`."""
    s = cuda.shared.array(34, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t + 1] = a[i] if i < 50 else 0.0
    if t == 0:
        s[0] = a[i - 1] if i > 0 else 0.0
    if t == 31:
        s[33] = a[i + 1] if i + 1 < 50 else 0.0
    cuda.syncthreads()
    if i < 50:
        out[i] = s[t] - 2 * s[t + 1] + s[t + 2]


@cuda.jit
def swapped_buffers(a, out):
    """Two buffers under two names that change places."""
    s = cuda.shared.array((2, N), float64)
    t = cuda.threadIdx.x
    here = 0
    s[here, t] = a[t]
    for d in (1, 2, 4, 8, 16, 32):
        cuda.syncthreads()
        s[1 - here, t] = s[here, t] + (s[here, t - d] if t >= d else 0.0)
        here = 1 - here
    out[t] = s[here, t]


@cuda.jit
def each_thread_its_own(a, out):
    """Local arrays hold nothing of the thread before; all is set before it is read."""
    t = cuda.threadIdx.x
    counts = cuda.local.array((2, 4), int32)
    for i in range(2):
        for j in range(4):
            counts[i, j] = 0
    for k in range(int(a[t]) % 9):
        counts[k % 2, k % 4] += k
    total = 0
    for i in range(2):
        for j in range(4):
            total = total * 3 + counts[i, j]
    out[t] = total


@cuda.jit
def list_by_a_counter(a, out):
    """Places are given out by an atomic: no two threads get the same."""
    if int(a[cuda.grid(1)]) % 3 == 0:
        place = cuda.atomic.add(out, 0, 1)
        out[1 + int(place)] = 1


@cuda.jit
def counts_of_the_block(a, out):
    t = cuda.threadIdx.x
    many = cuda.syncthreads_count(a[t] > 30)
    every = cuda.syncthreads_and(a[t] < 64)
    some = cuda.syncthreads_or(a[t] == 55)
    out[t] = many * 4 + (2 if every else 0) + (1 if some else 0)


@cuda.jit
def barriers_by_what_is_shared(a, out):
    """A loop as long as shared memory says: all threads read the same."""
    s = cuda.shared.array(N, float64)
    t = cuda.threadIdx.x
    s[t] = a[t] + 3
    cuda.syncthreads()
    for k in range(int(s[0])):
        value = s[(t + k) % N]
        cuda.syncthreads()
        s[t] = value + k
        cuda.syncthreads()
        if s[5] > 1000:
            break
    out[t] = s[t]


@cuda.jit
def halves_of_a_warp_apart(a, out):
    """Each half names itself in its mask."""
    t = cuda.threadIdx.x
    value = a[t]
    if t % 32 < 16:
        value += cuda.shfl_xor_sync(0xFFFF, value, 1)
    else:
        value -= cuda.shfl_xor_sync(0xFFFF0000, value, 2)
    out[t] = value


@cuda.jit
def last_warp_is_not_full(a, out):
    """33 threads: the second warp has one, and its mask says so."""
    t = cuda.threadIdx.x
    votes = cuda.ballot_sync(0xFFFFFFFF if t < 32 else 1, a[t] > 20)
    out[t] = cuda.popc(votes)


@cuda.jit
def first_lane_tells_the_warp(a, out):
    """One atomic a warp: the first lane shares the place that it got."""
    t = cuda.threadIdx.x
    takes = int(a[t]) % 3 == 0
    votes = cuda.ballot_sync(0xFFFFFFFF, takes)
    first = int32(0)
    if t % 32 == 0:
        first = int32(cuda.atomic.add(out, 0, cuda.popc(votes)))
    first = cuda.shfl_sync(0xFFFFFFFF, first, 0)
    if takes:
        place = first + cuda.popc(votes & ((1 << (t % 32)) - 1))
        out[1 + place] = 1


@cuda.jit
def lock_by_exchange(a, out):
    """A counter behind a lock that threads take one after another."""
    got = False
    while not got:
        if cuda.atomic.exch(out, 1, 1) == 0:
            cuda.atomic.add(out, 0, a[cuda.grid(1)])
            cuda.threadfence()
            cuda.atomic.exch(out, 1, 0)
            got = True


@cuda.jit
def strides_of_the_grid(a, out):
    i = cuda.grid(1)
    while i < out.size:
        out[i] = 2 * a[i]
        i += cuda.gridsize(1)


@cuda.jit
def window_with_a_shared_row(a, out):
    """A part of an array under a name of its own."""
    t = cuda.threadIdx.x
    row = a[t // 8 * 8 : t // 8 * 8 + 8]
    total = row[-1]
    for k in range(row.size):
        total += (k + 1) * row[k]
    out[t] = total


@cuda.jit
def exchange_with_the_host(a, out):
    """In place: each thread reads and writes its own element and shares a copy."""
    s = cuda.shared.array(N, float64)
    t = cuda.threadIdx.x
    s[t] = a[t]
    a[t] = 0
    cuda.syncthreads()
    out[t] = s[N - 1 - t]
    a[t] = s[t]


@cuda.jit
def flags_of_blocks(a, out):
    """A block publishes by a fence and an atomic; later ones add up what is there."""
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if t == 0:
        out[1 + b] = a[b]
        cuda.threadfence()
        before = cuda.atomic.add(out, 0, 1)
        if before == cuda.gridDim.x - 1:
            total = 0.0
            for k in range(cuda.gridDim.x):
                total += out[1 + k]
            out[40] = total


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
    sums_one_after_another: (2, 32),
    scan_in_two_halves: (1, 33),
    sorted_by_odd_and_even: (1, N),
    sorted_by_pairs: (1, N),
    bins_in_shared_memory: (2, 32),
    tile_turned: (1, (8, 8)),
    block_in_three_dimensions: (1, (3, 2, 4)),
    neighbours_behind_a_guard: (2, 32),
    swapped_buffers: (1, N),
    each_thread_its_own: (1, N),
    list_by_a_counter: (2, 32),
    counts_of_the_block: (1, N),
    barriers_by_what_is_shared: (1, N),
    halves_of_a_warp_apart: (1, N),
    last_warp_is_not_full: (1, 33),
    first_lane_tells_the_warp: (1, N),
    lock_by_exchange: (2, 32),
    strides_of_the_grid: (2, 16),
    window_with_a_shared_row: (1, N),
    exchange_with_the_host: (1, N),
    flags_of_blocks: (4, 32),
}

# Kernels that are run by `pytest -m slow` only.
VARIANTS = {
    scan_in_two_halves,
    sorted_by_odd_and_even,
    sorted_by_pairs,
    bins_in_shared_memory,
    tile_turned,
    block_in_three_dimensions,
    neighbours_behind_a_guard,
    swapped_buffers,
    each_thread_its_own,
    list_by_a_counter,
    counts_of_the_block,
    barriers_by_what_is_shared,
    first_lane_tells_the_warp,
    lock_by_exchange,
    strides_of_the_grid,
    window_with_a_shared_row,
    exchange_with_the_host,
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
