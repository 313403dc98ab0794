"""Kernels with a mistake. The line at fault ends with `# wrong`, or with `# wrong too`
where two lines share it: a report names one of them first and the other beside it."""

import numpy as np
from numba import cuda, float32, int32

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
def ballot_in_a_loop_some_left(a, out):
    t = cuda.threadIdx.x
    k = a[t]
    while k < 5:
        out[t] += cuda.popc(cuda.ballot_sync(0xFFFFFFFF, k > 1))  # wrong
        if k == 3:
            break
        k += 1


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


@cuda.jit
def index_of_the_wrong_size(a, out):
    i = cuda.blockIdx.x * cuda.gridDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] += a[i]  # wrong


@cuda.jit
def stride_of_a_block(a, out):
    for i in range(cuda.grid(1), out.size, cuda.blockDim.x):
        out[i] += a[i]  # wrong


@cuda.jit
def no_barrier_between_tiles(a, out):
    tile = cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(2):
        tile[y, x] = a[k * 8 + y * T // 2 + x // 2]  # wrong
        cuda.syncthreads()
        for j in range(T):
            total += tile[j, x]  # wrong too
    out[y * T + x] = total


@cuda.jit
def bins_not_cleared_in_time(a, out):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0  # wrong too
    cuda.atomic.add(bins, int(a[t]), 1)  # wrong
    cuda.syncthreads()
    if t < 8:
        out[t] = bins[t]


@cuda.jit
def bins_read_too_early(a, out):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, int(a[t]), 1)  # wrong too
    if t < 8:
        out[t] = bins[t]  # wrong


@cuda.jit
def bin_outside(a, out):
    bins = cuda.shared.array(7, int32)
    t = cuda.threadIdx.x
    if t < 7:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, int(a[t]), 1)  # wrong


@cuda.jit
def last_warp_without_a_barrier(a, out):
    """As it was written before threads of a warp could part."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    if t < 32:
        s[t] += s[t + 32]  # wrong
        s[t] += s[t + 16]  # wrong too
    if t == 0:
        out[0] = s[0]


@cuda.jit
def total_read_before_it_is_there(a, out):
    total = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        total[0] = 0  # wrong too
        for i in range(N):
            total[0] += a[i]  # wrong too
    out[t] = a[t] / total[0]  # wrong


@cuda.jit
def reversed_by_all_threads(a, out):
    t = cuda.threadIdx.x
    left = a[t]  # wrong too
    a[t] = a[N - 1 - t]  # wrong
    a[N - 1 - t] = left  # wrong too


@cuda.jit
def sort_of_odd_and_even(a, out):
    t = cuda.threadIdx.x
    for k in range(N):
        if t % 2 == k % 2 and t + 1 < N and a[t] > a[t + 1]:  # wrong
            low = a[t + 1]
            a[t + 1] = a[t]  # wrong too
            a[t] = low  # wrong too


@cuda.jit
def greatest_without_an_atomic(a, out):
    if a[cuda.threadIdx.x] > out[0]:  # wrong too
        out[0] = a[cuda.threadIdx.x]  # wrong


@cuda.jit
def flag_between_warps(a, out):
    s = cuda.shared.array(2, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[1] = a[0]
        s[0] = 1  # wrong too
    if t == 32 and s[0] == 1:  # wrong
        out[0] = s[1]


@cuda.jit
def index_from_the_data(a, out):
    t = cuda.threadIdx.x
    out[t] = a[int(a[t]) * 10]  # wrong


@cuda.jit
def too_few_local_elements(a, out):
    window = cuda.local.array(3, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        window[k] = a[t]  # wrong
    out[t] = window[0]


@cuda.jit
def value_from_a_loop_of_some(a, out):
    t = cuda.threadIdx.x
    k = t
    while k < 40:
        found = a[k]
        k += 40
    out[t] = found  # wrong


@cuda.jit
def barrier_inside_the_branch_of_a_sum(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    d = N // 2
    while d > 0:
        cuda.syncthreads()
        if t < d:  # wrong
            s[t] += s[t + d]
            cuda.syncthreads()
        d //= 2
    out[t] = s[0]


@cuda.jit(device=True)
def meet(s, t, value):
    s[t] = value
    cuda.syncthreads()
    return s[t ^ 1]


@cuda.jit
def barrier_in_a_function_for_some(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = 0
    if a[t] > 3:  # wrong
        out[t] = meet(s, t, a[t])
    out[t] += 1


@cuda.jit
def ballot_after_some_returned(a, out):
    t = cuda.threadIdx.x
    if t >= 40:
        return
    out[t] = cuda.ballot_sync(0xFFFFFFFF, a[t] > 3)  # wrong


@cuda.jit
def lock_within_a_warp(a, out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:  # wrong
        pass
    a[0] += 1


@cuda.jit
def lock_without_a_fence(a, out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:
        pass
    out[1] += a[0]  # wrong
    cuda.atomic.exch(out, 0, 0)


@cuda.jit
def exchanges_without_a_lock(a, out):
    cuda.atomic.exch(out, 0, 0)
    out[1] += a[0]  # wrong
    cuda.threadfence()


@cuda.jit
def barrier_of_the_grid(a, out):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, 1)
        while cuda.atomic.add(out, 0, 0) < cuda.gridDim.x:  # wrong
            pass
    cuda.syncthreads()


@cuda.jit
def too_few_threads(a, out):  # wrong
    i = cuda.grid(1)
    out[i] = a[i]


@cuda.jit
def calls_what_is_not_there(a, out):
    out[cuda.grid(1)] = median(a)  # noqa: F821  # wrong


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
    ballot_in_a_loop_some_left: (1, N, "names threads of the warp", ()),
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
    index_of_the_wrong_size: (2, 32, "nothing orders blocks", ()),
    stride_of_a_block: (2, 32, "nothing orders blocks", ()),
    no_barrier_between_tiles: (1, (T, T), "no barrier between", ()),
    bins_not_cleared_in_time: (1, N, "no barrier between", ()),
    bins_read_too_early: (1, N, "no barrier between", ()),
    bin_outside: (1, N, "bins[7] is out of bounds", ()),
    last_warp_without_a_barrier: (1, N, "no barrier between", ()),
    total_read_before_it_is_there: (1, N, "no barrier between", ()),
    reversed_by_all_threads: (1, N, "no barrier between", ()),
    sort_of_odd_and_even: (1, N, "no barrier between", ()),
    greatest_without_an_atomic: (1, N, "no barrier between", ()),
    flag_between_warps: (1, N, "no barrier between", ()),
    index_from_the_data: (1, N, "a[70] is out of bounds", ()),
    too_few_local_elements: (1, N, "window[3] is out of bounds", ()),
    value_from_a_loop_of_some: (1, N, "found has no value here", ()),
    barrier_inside_the_branch_of_a_sum: (1, N, "differ", ()),
    barrier_in_a_function_for_some: (1, N, "differs between threads", ()),
    ballot_after_some_returned: (1, N, "names threads of the warp", ()),
    lock_within_a_warp: (1, N, "goes on for ever", ()),
    lock_without_a_fence: (1, N, "no barrier between", ()),
    exchanges_without_a_lock: (1, N, "no barrier between", ()),
    barrier_of_the_grid: (2, 32, "goes on for ever", ()),
    too_few_threads: (1, 32, "out[32] is never written", ("out",)),
    calls_what_is_not_there: (1, N, "median", ()),
}

# Kernels that make the mistake of another one in other surroundings.
VARIANTS = {
    atomics_of_two_blocks_and_a_read,
    two_warps_with_a_barrier_each,
    atomic_after_a_plain_write,
    atomics_of_two_threads_and_a_read,
    swapped_and_written,
    off_by_one,
    race_through_a_device_function,
    two_warps_without_a_barrier,
    last_warp_without_a_barrier,
    loop_that_may_not_run,
    too_few_local_elements,
    barrier_in_a_function_for_some,
    lost_update,
    lock_without_a_fence,
    exchanges_without_a_lock,
    ballot_in_a_loop_some_left,
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
    index_of_the_wrong_size,
    stride_of_a_block,
    no_barrier_between_tiles,
    bins_not_cleared_in_time,
    bins_read_too_early,
    bin_outside,
    total_read_before_it_is_there,
    reversed_by_all_threads,
    sort_of_odd_and_even,
    greatest_without_an_atomic,
    flag_between_warps,
    index_from_the_data,
    value_from_a_loop_of_some,
    barrier_inside_the_branch_of_a_sum,
    ballot_after_some_returned,
    lock_within_a_warp,
    barrier_of_the_grid,
}


def arguments():
    """64 numbers from 0 to 7, and room for 64."""
    rng = np.random.default_rng(11)
    return rng.integers(0, 8, N).astype(np.float32), np.zeros(N, np.float32)
