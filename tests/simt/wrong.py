"""Kernels with a mistake. The line at fault ends with `# wrong`, or with `# wrong too`
where two lines share it: a report names one of them first and the other beside it."""

import numpy as np
from numba import cuda, float32

N = 64
T = 8
LIMIT = 40


@cuda.jit
def no_barrier_after_the_store(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]  # wrong too
    out[t] = s[N - 1 - t]  # wrong


@cuda.jit
def no_barrier_before_the_next_store(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(4):
        s[t] = a[t] * k  # wrong
        cuda.syncthreads()
        total += s[(t + 1) % N]  # wrong too
    out[t] = total


@cuda.jit
def no_barrier_in_a_reduction(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = N // 2
    while d > 0:
        if t < d:
            s[t] += s[t + d]  # wrong
        d //= 2
    if t == 0:
        out[0] = s[0]


@cuda.jit
def barrier_too_late_in_a_tile(a, out):
    tile = cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[y * T + x]  # wrong too
    out[y * T + x] = tile[x, y]  # wrong
    cuda.syncthreads()


@cuda.jit
def scan_in_place(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 1
    while d < N:
        if t >= d:
            s[t] += s[t - d]  # wrong
        cuda.syncthreads()
        d *= 2
    out[t] = s[t]


@cuda.jit
def neighbour_overwritten(a, out):
    t = cuda.threadIdx.x
    if t > 0:
        a[t] = a[t - 1]  # wrong
    out[t] = 1


@cuda.jit
def two_writers(a, out):
    out[cuda.threadIdx.x // 2] = a[cuda.threadIdx.x]  # wrong


@cuda.jit
def flags_that_differ(a, out):
    if a[cuda.threadIdx.x] > -1:
        out[0] = cuda.threadIdx.x // 2  # wrong


@cuda.jit
def two_warps_with_a_barrier_each(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]  # wrong too
    cuda.syncwarp()
    out[t] = s[N - 1 - t]  # wrong


@cuda.jit
def warp_without_a_barrier(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncwarp()
    value = s[t // 32 * 32 + (t + 1) % 32]  # wrong too
    s[t] = value  # wrong


@cuda.jit
def full_mask_in_a_branch(a, out):
    t = cuda.threadIdx.x
    value = a[t]
    if t < 8:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, 1)  # wrong
    out[t] = value


@cuda.jit
def barrier_of_a_warp_in_a_branch(a, out):
    t = cuda.threadIdx.x
    if a[t] > 3:
        cuda.syncwarp()  # wrong
        out[t] = 1


@cuda.jit
def vote_in_a_loop_some_left(a, out):
    t = cuda.threadIdx.x
    for _ in range(t, 40):
        out[t] += cuda.any_sync(0xFFFFFFFF, True)  # wrong


@cuda.jit
def value_of_some_threads(a, out):
    t = cuda.threadIdx.x
    if t < 4:
        x = a[t]
    out[t] = x  # wrong


@cuda.jit
def loop_that_may_not_run(a, out):
    t = cuda.threadIdx.x
    for k in range(t):
        last = a[k]
    out[t] = last  # wrong


@cuda.jit
def last_block_without_a_fence(a, out):
    t = cuda.threadIdx.x
    if t == 0:
        out[1 + cuda.blockIdx.x] = a[cuda.blockIdx.x]  # wrong too
        if cuda.atomic.add(out, 0, 1) == cuda.gridDim.x - 1:
            a[0] = out[1]  # wrong


@cuda.jit
def fence_without_an_atomic(a, out):
    t = cuda.threadIdx.x
    if t == 0:
        out[1 + cuda.blockIdx.x] = a[cuda.blockIdx.x]  # wrong too
        cuda.threadfence()
        if cuda.blockIdx.x == cuda.gridDim.x - 1:
            a[0] = out[1]  # wrong


@cuda.jit
def swapped_and_written(a, out):
    t = cuda.threadIdx.x
    cuda.atomic.cas(out, 0, 0, 1)  # wrong too
    out[0] = t  # wrong


@cuda.jit
def lost_update(a, out):
    i = cuda.grid(1)
    out[int(a[i]) % 4] += 1  # wrong


@cuda.jit
def two_blocks_one_place(a, out):
    out[cuda.threadIdx.x] = cuda.blockIdx.x  # wrong


@cuda.jit
def block_reads_what_another_writes(a, out):
    i = cuda.grid(1)
    out[i] = a[i]  # wrong too
    if i >= 32:
        a[i] = out[i - 32]  # wrong


@cuda.jit
def block_overwrites_what_another_reads(a, out):
    i = cuda.grid(1)
    out[i] = a[(i + 32) % N]  # wrong too
    a[i] = 0  # wrong


@cuda.jit
def atomic_and_plain(a, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(out, 0, a[t])  # wrong too
    out[t % 2] = 0  # wrong


@cuda.jit
def atomic_after_a_plain_write(a, out):
    t = cuda.threadIdx.x
    if t == 0:
        out[0] = 1  # wrong too
    cuda.atomic.add(out, 0, a[t])  # wrong


@cuda.jit
def atomics_of_two_threads_and_a_read(a, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(out, t // 2, a[t])  # wrong
    a[t] = out[t // 2]  # wrong too


@cuda.jit
def atomics_of_two_blocks_and_a_read(a, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(out, t, a[t])  # wrong too
    if cuda.blockIdx.x == 1:
        a[t] = out[t]  # wrong


@cuda.jit
def uninitialised_tile(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t > 0:
        s[t] = a[t]
    cuda.syncthreads()
    out[t] = s[t]  # wrong


@cuda.jit
def uninitialised_halo(a, out):
    s = cuda.shared.array(N + 2, float32)
    t = cuda.threadIdx.x
    s[t + 1] = a[t]
    cuda.syncthreads()
    out[t] = s[t] + s[t + 2]  # wrong


@cuda.jit
def uninitialised_accumulator(a, out):
    acc = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for j in range(4):
        acc[j] += a[t] * j  # wrong
    out[t] = acc[0]


@cuda.jit
def output_read_first(a, out):
    t = cuda.threadIdx.x
    out[t] += a[t]  # wrong


@cuda.jit
def off_by_one(a, out):
    i = cuda.grid(1)
    if i < N:
        out[i] = a[i + 1]  # wrong


@cuda.jit
def guard_with_the_wrong_sign(a, out):
    i = cuda.grid(1)
    if i <= N:
        out[i] = a[0]  # wrong


@cuda.jit
def no_guard(a, out):
    i = cuda.grid(1)
    out[i] = i  # wrong


@cuda.jit
def shared_array_too_small(a, out):
    s = cuda.shared.array(N - 1, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]  # wrong
    cuda.syncthreads()
    out[t] = s[0]


@cuda.jit
def rows_and_columns_exchanged(a, out):
    tile = cuda.shared.array((T, 2 * T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[x + T, y] = a[y * T + x]  # wrong
    cuda.syncthreads()
    out[y * T + x] = tile[y, x]


@cuda.jit
def before_the_first(a, out):
    i = cuda.grid(1)
    out[i] = a[i - 65]  # wrong


@cuda.jit(device=True)
def store_next(values, i, v):
    values[i + 1] = v  # wrong


@cuda.jit
def mistake_in_a_device_function(a, out):
    t = cuda.threadIdx.x
    store_next(out, t, a[t])


@cuda.jit(device=True)
def gather(values, i):
    return values[N - 1 - i]  # wrong


@cuda.jit
def race_through_a_device_function(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]  # wrong too
    out[t] = gather(s, t)


@cuda.jit
def barrier_for_half_the_block(a, out):
    t = cuda.threadIdx.x
    if t < 32:  # wrong
        out[t] = a[t]
        cuda.syncthreads()


@cuda.jit
def barrier_behind_a_guard(a, out):
    i = cuda.grid(1)
    if i < LIMIT + int(a[0]) * 0:  # wrong
        out[i] = a[i]
        cuda.syncthreads()
    a[i] = 0


@cuda.jit
def barrier_in_the_last_branch(a, out):
    i = cuda.grid(1)
    if i < LIMIT + int(a[0]) * 0:
        out[i] = a[i]
        cuda.syncthreads()  # wrong
        a[i] = out[i + 1]


@cuda.jit
def barrier_after_some_returned(a, out):
    i = cuda.grid(1)
    if i >= out.size - 20:
        return
    cuda.syncthreads()  # wrong
    out[i] = a[i]


@cuda.jit
def barrier_in_a_loop_some_leave(a, out):
    t = cuda.threadIdx.x
    for i in range(10):
        if a[t] > i:  # wrong
            break
        cuda.syncthreads()
    out[t] = 1


@cuda.jit
def barrier_in_loops_of_different_length(a, out):
    t = cuda.threadIdx.x
    for _ in range(t):  # wrong
        cuda.syncthreads()
    out[t] = 1


@cuda.jit
def two_warps_without_a_barrier(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]  # wrong too
    cuda.syncwarp()
    out[t] = s[(t + 32) % N]  # wrong


@cuda.jit
def past_the_end_of_a_row(a, out):
    s = cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row = s[y]
    row[x] = a[y * T + x]
    cuda.syncthreads()
    out[y * T + x] = row[x + 1]  # wrong


# kernel: (grid, block, what the report says, names of outputs)
CASES = {
    no_barrier_after_the_store: (1, N, "no barrier between", ()),
    no_barrier_before_the_next_store: (1, N, "no barrier between", ()),
    no_barrier_in_a_reduction: (1, N, "no barrier between", ()),
    barrier_too_late_in_a_tile: (1, (T, T), "no barrier between", ()),
    scan_in_place: (1, N, "no barrier between", ()),
    neighbour_overwritten: (1, N, "no barrier between", ()),
    two_writers: (1, N, "is written here and also", ()),
    flags_that_differ: (1, N, "is written here and also", ()),
    two_warps_with_a_barrier_each: (1, N, "with no barrier between", ()),
    warp_without_a_barrier: (1, N, "with no barrier between", ()),
    full_mask_in_a_branch: (1, N, "names threads of the warp", ()),
    barrier_of_a_warp_in_a_branch: (1, N, "names threads of the warp", ()),
    vote_in_a_loop_some_left: (1, N, "names threads of the warp", ()),
    value_of_some_threads: (1, N, "x has no value here", ()),
    loop_that_may_not_run: (1, N, "last has no value here", ()),
    last_block_without_a_fence: (3, 32, "nothing orders blocks", ()),
    fence_without_an_atomic: (3, 32, "nothing orders blocks", ()),
    swapped_and_written: (1, N, "with no barrier between", ()),
    lost_update: (1, N, "no barrier between", ()),
    two_blocks_one_place: (2, 32, "nothing orders blocks", ()),
    block_reads_what_another_writes: (2, 32, "nothing orders blocks", ()),
    block_overwrites_what_another_reads: (2, 32, "nothing orders blocks", ()),
    atomic_and_plain: (1, 32, "(here: an atomic operation of thread 1", ()),
    atomic_after_a_plain_write: (1, 32, "also in line", ()),
    atomics_of_two_threads_and_a_read: (1, 32, "no barrier between", ()),
    atomics_of_two_blocks_and_a_read: (2, 32, "by an atomic operation", ()),
    uninitialised_tile: (1, N, "before anything was written", ()),
    uninitialised_halo: (1, N, "before anything was written", ()),
    uninitialised_accumulator: (1, N, "before anything was written", ()),
    output_read_first: (1, N, "before anything was written", ("out",)),
    off_by_one: (1, N, "a[64] is out of bounds", ()),
    guard_with_the_wrong_sign: (2, N, "out[64] is out of bounds", ()),
    no_guard: (2, N, "out[64] is out of bounds", ()),
    shared_array_too_small: (1, N, "s[63] is out of bounds", ()),
    rows_and_columns_exchanged: (1, (T, T), "tile[8, 0] is out of bounds", ()),
    before_the_first: (1, N, "a[-65] is out of bounds", ()),
    mistake_in_a_device_function: (1, N, "out[64] is out of bounds", ()),
    race_through_a_device_function: (1, N, "no barrier between", ()),
    barrier_for_half_the_block: (1, N, "t differs between threads", ()),
    barrier_behind_a_guard: (1, N, "i differs between threads", ()),
    barrier_in_the_last_branch: (1, N, "has returned before this barrier", ()),
    barrier_after_some_returned: (1, N, "has returned before this barrier", ()),
    barrier_in_a_loop_some_leave: (1, N, "differ between threads", ()),
    barrier_in_loops_of_different_length: (1, N, "t differs between threads", ()),
    past_the_end_of_a_row: (1, (T, T), "s[0, 8] is out of bounds", ()),
    two_warps_without_a_barrier: (1, N, "no barrier between", ()),
}

# Kernels that make the mistake of another one in other surroundings.
VARIANTS = {
    no_barrier_in_a_reduction,
    barrier_too_late_in_a_tile,
    scan_in_place,
    neighbour_overwritten,
    flags_that_differ,
    vote_in_a_loop_some_left,
    barrier_of_a_warp_in_a_branch,
    fence_without_an_atomic,
    uninitialised_halo,
    no_guard,
    shared_array_too_small,
    rows_and_columns_exchanged,
    barrier_after_some_returned,
    barrier_in_loops_of_different_length,
}


def arguments():
    """64 numbers from 0 to 7, and room for 64."""
    rng = np.random.default_rng(11)
    return rng.integers(0, 8, N).astype(np.float32), np.zeros(N, np.float32)
