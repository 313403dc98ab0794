"""Correct kernels of kinds that a checker may take for wrong: check mode is silent."""

from collections import namedtuple

import numpy as np
from numba import cuda, float32, float64, from_dtype, int32

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


@cuda.jit
def groups_of_equal_values(a, out):
    """In each round the first thread that is left takes with it all of its value. The
    warps need different numbers of rounds."""
    t = cuda.threadIdx.x
    value, left, rounds = int(a[t]) % (5 + t // 32 * 4), True, 0
    while True:
        votes = cuda.ballot_sync(0xFFFFFFFF, left)
        if votes == 0:
            break
        rounds += 1
        first = cuda.shfl_sync(0xFFFFFFFF, value, cuda.ffs(votes) - 1)
        if not left:
            continue
        if value == first:
            out[t] = 100 * rounds + cuda.popc(votes)
            left = False


@cuda.jit
def doubled_until_all_are_large(a, out):
    t = cuda.threadIdx.x
    value = a[t] + 1
    for k in range(20, 0, -3):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1) - k
        if cuda.all_sync(0xFFFFFFFF, value > 300):
            break
        for j in range(t % 3):
            if value % 2 == 0:
                break
            value -= j
    out[t] = value


CASES = {
    groups_of_equal_values: (1, N),
    doubled_until_all_are_large: (1, N),
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
    doubled_until_all_are_large,
    scan_in_two_halves,
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


# ------------------------------------------------------------------ said in other words

TABLE = np.arange(8, dtype=np.float32) ** 2
WEIGHTS = (1, 2, 1)
Pair = namedtuple("Pair", "low high")


@cuda.jit(device=True)
def sum_of_block(s, t, value):
    """Every thread of the block calls it: the barriers in it are for all."""
    s[t] = value
    cuda.syncthreads()
    d = s.size // 2
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        cuda.syncthreads()
        d //= 2
    return s[0]


@cuda.jit(device=True)
def ordered(x, y, by=1):
    if x * by > y * by:
        return Pair(y, x)
    return Pair(x, y)


@cuda.jit(device=True)
def applied(f, x, times=1):
    for _ in range(times):
        x = f(x)
    return x


@cuda.jit(device=True)
def summed(first, *rest):
    total = first
    for x in rest:
        total += x
    return total


@cuda.jit(device=True)
def greatest_divisor(x, y):
    return x if y == 0 else greatest_divisor(y, x % y)


@cuda.jit
def barrier_in_a_device_function(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    total = sum_of_block(s, t, a[t])
    cuda.syncthreads()
    out[t] = total + sum_of_block(s, t, 1)


@cuda.jit
def row_of_each_warp(a, out):
    s = cuda.shared.array((2, 32), float32)
    t = cuda.threadIdx.x
    row = s[t // 32]
    row[t % 32] = a[t]
    cuda.syncwarp()
    for x in row:
        out[t] += x


@cuda.jit
def part_of_each_thread(a, out):
    t = cuda.threadIdx.x
    part, target = a[4 * t : 4 * t + 4], out[4 * t : 4 * t + 4]
    for i, x in enumerate(part):
        target[-1 - i] = x


@cuda.jit
def stencil_with_a_halo(a, out):
    s = cuda.shared.array(N + 2, float32)
    t = cuda.threadIdx.x
    s[t + 1] = a[t]
    if t == 0:
        s[0] = s[-1] = 0
    cuda.syncthreads()
    total = 0.0
    for d, w in zip((-1, 0, 1), WEIGHTS):  # noqa: B905
        total += w * s[t + 1 + d]
    out[t] = total


@cuda.jit
def idle_threads_return(a, out):
    i = cuda.grid(1)
    if i >= a.size:
        return
    if i % 3 == 0:
        out[i] = -a[i]
        return
    out[i] = a[i]


@cuda.jit
def functions_within(a, out):
    t = cuda.threadIdx.x

    def place(i, width=8):
        return i % width * width + i // width

    double = lambda x: 2 * x  # noqa: E731
    out[place(t)] = double(a[t]) + applied(lambda x: x + t, 1, times=3)


@cuda.jit
def operation_by_thread(a, out):
    t = cuda.threadIdx.x
    match t % 4:
        case 0:
            out[t] = a[t]
        case 1 | 2:
            out[t] = a[t - 1] + a[t]
        case other if other > 2:
            out[t] = other


@cuda.jit
def first_divisor(a, out):
    t = cuda.threadIdx.x
    for d in range(2, t):
        if t % d == 0:
            out[t] = d
            break
    else:
        out[t] = t


@cuda.jit
def while_there_is_more(a, out):
    t = cuda.threadIdx.x
    left = t
    while (half := left // 2) > 0:
        out[t] += half
        left = half


@cuda.jit
def own_array_sorted(a, out):
    own = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        own[k] = (a[t] * 7 + k * 5) % 11
    for i in range(1, 4):
        for j in range(i, 0, -1):
            pair = ordered(own[j - 1], own[j])
            own[j - 1], own[j] = pair
    out[t] = own[0] + 10 * own[-1]


@cuda.jit
def histogram_of_blocks(a, out):
    counts = cuda.shared.array(8, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 8:
        counts[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(counts, int32(a[i]) % 8, 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(out, t, counts[t])


@cuda.jit
def scan_of_a_warp(a, out):
    """Hillis and Steele 1986, two warps apart."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncwarp()
    d = 1
    while d < 32:
        value = s[t - d] if t % 32 >= d else float32(0)
        cuda.syncwarp()
        s[t] += value
        cuda.syncwarp()
        d *= 2
    out[t] = s[t]


@cuda.jit
def scan_up_and_down(a, out):
    """Blelloch 1990: a tree of sums, then back to its leaves."""
    s = cuda.shared.array(2 * N, float32)
    t = cuda.threadIdx.x
    s[t], s[t + N] = a[t], a[t]
    d = 1
    while d < 2 * N:
        cuda.syncthreads()
        i = (t + 1) * d * 2 - 1
        if i < 2 * N:
            s[i] += s[i - d]
        d *= 2
    if t == 0:
        s[-1] = 0
    while d > 1:
        d //= 2
        cuda.syncthreads()
        i = (t + 1) * d * 2 - 1
        if i < 2 * N:
            s[i - d], s[i] = s[i], s[i] + s[i - d]
    cuda.syncthreads()
    out[t] = s[t + 1]


@cuda.jit
def buffers_that_change_places(a, out):
    s = cuda.shared.array((3, N), float32)
    t = cuda.threadIdx.x
    last, now, new = 0, 1, 2
    s[last, t] = s[now, t] = a[t]
    cuda.syncthreads()
    for _ in range(5):
        s[new, t] = s[now, t - 1] + s[now, (t + 1) % N] - s[last, t]
        last, now, new = now, new, last
        cuda.syncthreads()
    out[t] = s[now, t]


@cuda.jit
def product_of_tiles(a, out):
    left = cuda.shared.array((4, 4), float32)
    right = cuda.shared.array((4, 4), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(0, 8, 4):
        left[y, x] = a[row * 8 + k + x]
        right[y, x] = a[(k + y) * 8 + column]
        cuda.syncthreads()
        for i in range(4):
            total += left[y, i] * right[i, x]
        cuda.syncthreads()
    out[row * 8 + column] = total


@cuda.jit
def sum_by_strides(a, out):
    total = 0.0
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        total += a[i]
    cuda.atomic.add(out, 0, total)


@cuda.jit
def kept_by_ballot(a, out):
    """The odd numbers of each warp, moved together."""
    t = cuda.threadIdx.x
    odd = a[t] % 2 == 1
    votes = cuda.ballot_sync(0xFFFFFFFF, odd)
    if odd:
        before = cuda.popc(votes & cuda.lanemask_lt())
        out[t - t % 32 + before] = a[t]


@cuda.jit
def sorted_until_nobody_swaps(a, out):
    """Odd-even transposition: the loop ends for all threads at once."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t] * 37 % 64
    swapped, odd = 2, 0
    while swapped > 0:
        cuda.syncthreads()
        i, swap = 2 * t + odd, False
        if i + 1 < N and s[i] > s[i + 1]:
            s[i], s[i + 1] = s[i + 1], s[i]
            swap = True
        odd = 1 - odd
        swapped = 2 if cuda.syncthreads_or(swap) else swapped - 1
    out[t] = s[t]


@cuda.jit
def bitonic_sort(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t] * 37 % 64
    cuda.syncthreads()
    size = 2
    while size <= N:
        d = size // 2
        while d > 0:
            other = t ^ d
            if other > t:
                by = 1 if t & size == 0 else -1
                pair = ordered(s[t], s[other], by)
                s[t], s[other] = (pair.low, pair.high) if by > 0 else pair
            cuda.syncthreads()
            d //= 2
        size *= 2
    out[t] = s[t]


@cuda.jit
def table_read_by_all(a, out):
    table = cuda.const.array_like(TABLE)
    t = cuda.threadIdx.x
    out[t] = table[t % 8] + TABLE[-1 - t % 8] + table[0]


@cuda.jit
def places_from_a_counter(a, out):
    """Each thread gets a place of its own."""
    i = cuda.grid(1)
    if a[i] % 4 == 1:
        place = cuda.atomic.add(out, 0, 1)
        out[1 + int(place)] = 1


@cuda.jit
def divisors_by_recursion(a, out):
    t = cuda.threadIdx.x
    out[t] = greatest_divisor(t + 12, 60)


@cuda.jit
def leaves_together(a, out):
    """The flag is the same for all between two barriers."""
    found = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        found[0] = 0
    cuda.syncthreads()
    for k in range(10):
        if t * k == 150:
            found[0] = 1
        cuda.syncthreads()
        if found[0]:
            out[t] = k
            break
        cuda.syncthreads()


@cuda.jit
def complex_numbers(a, out):
    t = cuda.threadIdx.x
    z = complex(a[t], 1)
    for _ in range(2):
        z = z * z + complex(0, a[t])
    out[t] = z.real + z.imag


@cuda.jit
def pairs_of_the_block(a, out):
    s = cuda.shared.array((2, N), int32)
    t = cuda.threadIdx.x
    low, high = s[0], s[1]
    low[t], high[t] = t & 7, t >> 3
    cuda.syncthreads()
    out[t] = low[t ^ 1] * 8 + high[-1 - t] | 64


@cuda.jit
def turned_in_place(a, out):
    """Each pair of elements is one thread's."""
    t = cuda.threadIdx.x
    if t < N // 2:
        a[t], a[-1 - t] = a[-1 - t], a[t]
    cuda.syncthreads()
    out[t] = a[t]


@cuda.jit
def any_number_summed(a, out):
    t = cuda.threadIdx.x
    out[t] = summed(a[t], a[-1], a[t - 1]) + summed(a[-1]) + summed(*WEIGHTS)


@cuda.jit
def written_after_all_have_read(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    x, y = s[t - 1], s[(t + 1) % N]
    cuda.syncthreads()
    s[t] = x + y
    out[t] = s[t]


@cuda.jit
def mask_of_those_in_the_branch(a, out):
    t = cuda.threadIdx.x
    mask = cuda.ballot_sync(0xFFFFFFFF, t % 32 < 12)
    if t % 32 < 12:
        out[t] = cuda.shfl_up_sync(mask, a[t], 1)
        if cuda.all_sync(mask, a[t] >= 0):
            out[t] += 100


@cuda.jit
def same_minimum_from_every_thread(a, out):
    s = cuda.shared.array(1, float64)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = a[0]
    cuda.syncthreads()
    cuda.atomic.min(s, 0, a[t] - 5)
    cuda.syncthreads()
    out[0] = s[0]


@cuda.jit
def spin_lock(a, out):
    """What a thread does with the lock: a load that all share, a loop, a branch."""
    if cuda.threadIdx.x % 2 == 0:
        while cuda.atomic.cas(out, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        count = out[1]
        out[1] = count + 1
        if count < 20:
            for k in range(2, 5):
                out[k] += out[1] * k
        cuda.threadfence()
        cuda.atomic.exch(out, 0, 0)
    cuda.syncthreads()
    out[5] = 1


PAIR = np.dtype([("x", np.float32), ("k", np.int32)])
pair = from_dtype(PAIR)


@cuda.jit
def records_and_vectors(a, out):
    s = cuda.shared.array(N, pair)
    t = cuda.threadIdx.x
    s[t].x = a[t]
    s[t].k = t
    cuda.syncthreads()
    other = s[N - 1 - t]
    v = cuda.float32x2(other.x, other.k)
    w = cuda.float4(v, 1, 2.5)
    out[t] = w.x + w.y * w.w + cuda.int3(1.7, 2, 3).x + v.y


@cuda.jit
def those_in_the_loop(a, out):
    t = cuda.threadIdx.x
    for _ in range(t % 4 + 1):
        out[t] += cuda.popc(cuda.activemask())


CASES |= {
    spin_lock: (2, N),
    records_and_vectors: (1, N),
    those_in_the_loop: (1, N),
    complex_numbers: (1, N),
    pairs_of_the_block: (1, N),
    turned_in_place: (1, N),
    any_number_summed: (1, N),
    written_after_all_have_read: (1, N),
    mask_of_those_in_the_branch: (1, N),
    same_minimum_from_every_thread: (1, N),
    barrier_in_a_device_function: (1, N),
    row_of_each_warp: (1, N),
    part_of_each_thread: (1, 16),
    stencil_with_a_halo: (1, N),
    idle_threads_return: (3, 32),
    functions_within: (1, N),
    operation_by_thread: (1, N),
    first_divisor: (1, N),
    while_there_is_more: (1, N),
    own_array_sorted: (1, N),
    histogram_of_blocks: (4, 16),
    scan_of_a_warp: (1, N),
    scan_up_and_down: (1, N),
    buffers_that_change_places: (1, N),
    product_of_tiles: ((2, 2), (4, 4)),
    sum_by_strides: (3, 8),
    kept_by_ballot: (1, N),
    sorted_until_nobody_swaps: (1, N),
    bitonic_sort: (1, N),
    table_read_by_all: (2, N),
    places_from_a_counter: (2, 32),
    divisors_by_recursion: (1, N),
    leaves_together: (1, N),
}

VARIANTS |= {
    groups_of_equal_values,
    sorted_until_nobody_swaps,
    written_after_all_have_read,
    part_of_each_thread,
    mask_of_those_in_the_branch,
    neighbours_in_a_ring,
    shuffles_of_the_first_warp,
    sums_one_after_another,
    last_warp_is_not_full,
    pairs_of_the_block,
    turned_in_place,
    any_number_summed,
    same_minimum_from_every_thread,
    stencil_with_a_halo,
    functions_within,
    scan_up_and_down,
    buffers_that_change_places,
    kept_by_ballot,
    bitonic_sort,
    divisors_by_recursion,
    those_in_the_loop,
    row_of_each_warp,
    idle_threads_return,
    operation_by_thread,
    first_divisor,
    while_there_is_more,
    own_array_sorted,
    scan_of_a_warp,
    product_of_tiles,
    sum_by_strides,
    table_read_by_all,
    places_from_a_counter,
}
