"""Control flow that a compiler of kernels may get wrong.

Every kernel takes (a, out, n): 64 small whole numbers as float32, 128 zeros, a number.
All arithmetic is exact in float32, so any correct execution gives the same bits. The
file knows nothing of this project: Numba's simulator runs it, too.
"""

import math

import numpy as np
from numba import cuda, float32, int32

N = 32
ROWS, COLUMNS = 4, 8
WEIGHTS = (1, 2, 3)


@cuda.jit
def loop_with_break_and_continue(a, out, n):
    t = cuda.grid(1)
    total = float32(0)
    for i in range(12):
        if i == 2:
            continue
        if a[i] > t % 7:
            break
        for j in range(4):
            if j > t % 3:
                break
            if j == 1:
                continue
            total += a[j] + i
    out[t] = total


@cuda.jit
def uniform_loop_left_by_break(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    value = a[t]
    rounds = 0
    while True:
        s[t] = value
        cuda.syncthreads()
        value = value + s[(t + 3) % N]
        cuda.syncthreads()
        rounds += 1
        if rounds == n:
            break
    out[t] = value


@cuda.jit
def uniform_loop_with_continue(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(6):
        if i % 2 == 1:
            continue
        s[t] = a[t] + i
        cuda.syncthreads()
        total += s[N - 1 - t]
        cuda.syncthreads()
    out[t] = total


@cuda.jit
def chain_of_elif(a, out, n):
    t = cuda.grid(1)
    if t % 4 == 0:
        r = float32(1)
        for k in range(3):
            r += a[k] * t
    elif t % 4 == 1:
        r = float32(2)
        k = 0
        while k < t % 5:
            r += a[k]
            k += 1
    elif t % 4 == 2:
        r = -a[t % N]
    else:
        r = float32(t)
    out[t] = r


@cuda.jit
def name_with_three_meanings(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = t
    s[i] = a[i]
    cuda.syncthreads()
    total = float32(0)
    for i in range(3):
        total += s[(t + i) % N]
    i = N - 1 - t
    cuda.syncthreads()
    s[t] = total + i
    cuda.syncthreads()
    out[t] = s[i] + i


@cuda.jit
def value_set_on_one_path(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    x = float32(0)
    if a[t] > 2:
        x = a[t] * 2
    y = x
    for k in range(2):
        if t % 2 == k:
            y = y + 1
        s[t] = y
        cuda.syncthreads()
        if t > 0:
            x = s[t - 1]
        cuda.syncthreads()
    out[t] = x + y


@cuda.jit
def state_under_a_mask(a, out, n):
    t = cuda.grid(1)
    if t < n:
        best = float32(-1000)
        where = 0
        for k in range(8):
            v = a[(t * 7 + k) % N]
            if v > best:
                best = v
                where = k
        out[t] = best * 10 + where
    else:
        for k in range(2):
            out[t] = -k - 1


@cuda.jit
def trip_counts_that_differ(a, out, n):
    t = cuda.grid(1)
    s = 0
    for i in range(t % 5, 17, 1 + t % 3):
        s += i
        for j in range(i, 3):
            s += 100 * j
    out[t] = s


@cuda.jit
def collatz(a, out, n):
    m = cuda.grid(1) + 1
    steps = 0
    while m != 1:
        m = m // 2 if m % 2 == 0 else 3 * m + 1
        steps += 1
    out[cuda.grid(1)] = steps


@cuda.jit
def strided_loops_nested(a, out, n):
    t = cuda.threadIdx.x
    s = float32(0)
    for i in range(t, 70, N):
        for j in range(t, 50, N):
            s += a[(i + j) % N]
        k = i
        while k > 3:
            k -= 3
        s += k
    out[t] = s


@cuda.jit
def swapped_in_a_loop(a, out, n):
    t = cuda.threadIdx.x
    x, y = a[t], float32(t)
    for _ in range(5):
        x, y = y, x + y
    p, q, r = t, t + 1, t * t
    out[t] = x - y + p * q + r


@cuda.jit
def elements_swapped(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    if t < N // 2:
        s[t], s[N - 1 - t] = s[N - 1 - t], s[t]
    cuda.syncthreads()
    out[t] = s[t]


@cuda.jit
def local_arrays_across_a_barrier(a, out, n):
    t = cuda.threadIdx.x
    w = cuda.local.array((2, 4), float32)
    index = cuda.local.array(4, int32)
    s = cuda.shared.array(N, float32)
    for i in range(4):
        index[i] = (t + i) % N
        w[0, i] = a[index[i]]
        w[1, i] = i
    s[t] = w[0, 0] + w[1, 3]
    cuda.syncthreads()
    total = float32(0)
    for i in range(4):
        total += s[index[i]] * w[1, (i + t) % 4]
    out[t] = total


@cuda.jit(device=True)
def clamp(v, low, high):
    if v < low:
        return low
    if v > high:
        return high
    return v


@cuda.jit(device=True)
def fetch(values, i):
    return values[clamp(i, 0, values.size - 1)]


@cuda.jit
def device_functions_that_return_early(a, out, n):
    t = cuda.grid(1)
    rounds = clamp(a.size, 1, 8)
    total = float32(0)
    for k in range(rounds):
        total += fetch(a, t - k)
    out[t] = total


@cuda.jit(device=True)
def minmax(x, y):
    if x < y:
        return x, y
    return y, x


@cuda.jit
def device_function_with_two_results(a, out, n):
    t = cuda.threadIdx.x
    low, high = minmax(a[t], a[N - 1 - t])
    out[t] = 3 * high - low


@cuda.jit(device=True)
def total_of_block(value):
    part = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    part[t] = value
    cuda.syncthreads()
    half = N // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    total = part[0]
    cuda.syncthreads()
    return total


@cuda.jit
def device_function_with_barriers_twice(a, out, n):
    t = cuda.threadIdx.x
    first = total_of_block(a[t])
    second = total_of_block(a[t] + first)
    out[t] = first - second + t


@cuda.jit
def device_function_inside_an_expression(a, out, n):
    t = cuda.threadIdx.x
    out[t] = a[t] + 2 * total_of_block(a[t]) - total_of_block(float32(1))


@cuda.jit(device=True)
def add_to(values, i, x):
    values[i] += x


@cuda.jit
def device_function_that_writes_shared(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    add_to(s, t, 5)
    cuda.syncthreads()
    out[t] = s[(t + 1) % N]


@cuda.jit(device=True)
def first_above(values, limit):
    for i in range(values.size):
        if values[i] > limit:
            return i
    return -1


@cuda.jit
def device_function_that_returns_from_a_loop(a, out, n):
    t = cuda.threadIdx.x
    out[t] = first_above(a, t % 9)


@cuda.jit
def return_from_nested_loops(a, out, n):
    t = cuda.grid(1)
    for i in range(5):
        for j in range(5):
            if a[i] + a[j] > t % 13:
                out[t] = 10 * i + j
                return
        out[t] += 1000
    out[t] = -1


@cuda.jit
def return_on_some_paths(a, out, n):
    t = cuda.grid(1)
    if t % 2 == 0:
        if t % 3 == 0:
            out[t] = 1
            return
        out[t] = 2
    else:
        out[t] = 3
    out[t] += 10


@cuda.jit
def branch_all_threads_take(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    m = 1
    if n > 4:
        m = 2
        s[t] = a[t]
        cuda.syncthreads()
        v = s[(t + m) % N]
    elif n == 4:
        v = float32(7)
    else:
        v = a[t]
    if cuda.blockIdx.x == 1:
        m += 10
    out[cuda.grid(1)] = v * m


@cuda.jit
def integer_division_and_shifts(a, out, n):
    t = cuda.grid(1)
    h = int32(t)
    acc = 0
    for i in range(6):
        h = int32(h * 3 + 1)
        acc ^= (h >> i) & 255
    out[t] = acc + (t // 3) * (t % 3) + (-t // 4) + (-t % 4) + (t**2) % 11


@cuda.jit
def uniform_value_inside_a_branch(a, out, n):
    t = cuda.grid(1)
    base = 5
    if a[t % N] > 1:
        base = 3
        step = 2
        s = float32(0)
        for k in range(0, n, step):
            s += a[(t + k) % N] + base
        out[t] = s
    else:
        out[t] = base


@cuda.jit
def loop_on_a_shared_flag(a, out, n):
    s = cuda.shared.array(N, float32)
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    if t == 0:
        flag[0] = 4
    cuda.syncthreads()
    while flag[0] > 0:
        x = s[(t + 1) % N]
        cuda.syncthreads()
        s[t] = x + s[t]
        if t == 0:
            flag[0] -= 1
        cuda.syncthreads()
    out[t] = s[t]


@cuda.jit
def value_of_the_round_before(a, out, n):
    t = cuda.threadIdx.x
    before = float32(0)
    total = float32(0)
    for i in range(6):
        total += before * i
        now = a[(t * i) % N]
        before = now + t
    out[t] = total + before


@cuda.jit
def three_dimensions(a, out, n):
    x, y, z = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    s = cuda.shared.array((2, 4, 4), float32)
    s[z, y, x] = a[(x + 4 * y + 16 * z) % N]
    cuda.syncthreads()
    out[(x * 4 + y) * 2 + z] = s[1 - z, x, y] + cuda.blockDim.x * 100 + cuda.gridDim.x


@cuda.jit
def two_dimensional_grid(a, out, n):
    x, y = cuda.grid(2)
    width, _ = cuda.gridsize(2)
    if x < 12 and y < 9:
        out[y * width + x] = a[x] * 100 + a[y] + cuda.blockIdx.y


@cuda.jit
def transpose_through_a_tile(a, out, n):
    tile = cuda.shared.array((ROWS, COLUMNS + 1), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[y * COLUMNS + x]
    cuda.syncthreads()
    i = y * COLUMNS + x
    out[i] = tile[i % ROWS, i // ROWS]


@cuda.jit
def inclusive_scan(a, out, n):
    s = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    source = 0
    s[source, t] = a[t]
    cuda.syncthreads()
    d = 1
    while d < N:
        v = s[source, t]
        if t >= d:
            v += s[source, t - d]
        s[1 - source, t] = v
        source = 1 - source
        d *= 2
        cuda.syncthreads()
    out[t] = s[source, t]


@cuda.jit
def odd_even_sort(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    for phase in range(N):
        i = 2 * t + phase % 2
        if i + 1 < N and s[i] > s[i + 1]:
            s[i], s[i + 1] = s[i + 1], s[i]
        cuda.syncthreads()
    out[t] = s[t]


@cuda.jit
def game_of_life(a, out, n):
    cells = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    alive = int32(a[t] > 3)
    for _ in range(n):
        cells[t] = alive
        cuda.syncthreads()
        near = 0
        for d in range(-2, 3):
            if d != 0:
                near += cells[(t + d + N) % N]
        alive = int32(near == 2 or (near == 3 and alive == 1))
        cuda.syncthreads()
    out[t] = alive


@cuda.jit
def mask_within_a_mask(a, out, n):
    t = cuda.grid(1)
    total = float32(0)
    if t < n * 8:
        for i in range(3):
            if a[(t + i) % N] > 2:
                for j in range(2):
                    total += a[(t + i + j) % N]
            else:
                for j in range(3):
                    total -= j
    out[t] = total


@cuda.jit
def else_with_a_loop(a, out, n):
    t = cuda.grid(1)
    if t % 2 == 0:
        v = a[t % N]
    else:
        v = float32(0)
        for i in range(4):
            v += a[i]
            if v > 9:
                v -= 9
    out[t] = v


@cuda.jit
def conditional_expressions(a, out, n):
    t = cuda.grid(1)
    v = a[t % N] if t < 40 else -a[(t + 1) % N]
    w = (t if t % 2 else -t) if v > 0 else t * 3
    out[t] = v + w + (1 if 2 < t <= 9 else 0)


@cuda.jit
def guards_that_short_circuit(a, out, n):
    t = cuda.grid(1)
    i = t - 5
    if (i >= 0 and i < a.size and a[i] > 1) or t == 2:
        out[t] = 1
    else:
        out[t] = 2 if not (i < 0 or a[min(i, a.size - 1)] > 4) else 3


@cuda.jit
def call_behind_a_guard(a, out, n):
    t = cuda.grid(1)
    i = t - 5
    if i >= 0 and fetch(a, i) > 2:
        out[t] = fetch(a, i) if i % 2 == 0 else -fetch(a, i + 1)


@cuda.jit
def while_that_calls(a, out, n):
    t = cuda.grid(1)
    i = 0
    while fetch(a, t + i) < 6 and i < 9:
        i += 1
    out[t] = i


@cuda.jit
def loop_variable_read_afterwards(a, out, n):
    t = cuda.threadIdx.x
    i = -1
    for i in range(n):
        if a[(t + i) % N] > 6:
            break
    out[t] = i


@cuda.jit
def strided_loop_variable_read_afterwards(a, out, n):
    t = cuda.grid(1)
    i = -1
    for i in range(t, 75, 32):
        for _ in range(2):
            out[t] += a[i % 64]
    out[t] = out[t] * 100 + i


@cuda.jit
def parameter_assigned(a, out, n):
    t = cuda.grid(1)
    n = n * 2 + t % 3
    for i in range(n):
        if i % 2:
            n += 1
    out[t] = n


@cuda.jit
def grid_stride(a, out, n):
    for i in range(cuda.grid(1), 128, cuda.gridsize(1)):
        out[i] = a[i % 64] * 2 + i


@cuda.jit
def grid_stride_while(a, out, n):
    i = cuda.grid(1)
    while i < 128:
        out[i] = a[i % 64] - i
        i += cuda.gridsize(1)


@cuda.jit
def grid_stride_with_sums(a, out, n):
    total = float32(0)
    for i in range(cuda.grid(1), 64, cuda.gridsize(1)):
        for j in range(3):
            total += a[(i + j) % 64]
        if total > 20:
            total -= 20
    out[cuda.grid(1)] = total


@cuda.jit
def downward_loop(a, out, n):
    t = cuda.threadIdx.x
    s = float32(0)
    for i in range(t, -1, -1):
        s = s * 2 % 64 + a[i]
    for i in range(n, 0, -1):
        s += i
    out[t] = s


@cuda.jit
def barrier_under_a_launch_wide_condition(a, out, n):
    s = cuda.shared.array(N, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i < 64:
        s[t] = a[i]
        cuda.syncthreads()
        out[i] = s[N - 1 - t]


@cuda.jit
def barrier_after_an_early_return(a, out, n):
    s = cuda.shared.array(N, float32)
    i = cuda.grid(1)
    if i >= 64:
        return
    s[cuda.threadIdx.x] = a[i] * 2
    cuda.syncthreads()
    out[i] = s[(cuda.threadIdx.x + n) % N]


@cuda.jit
def barrier_in_a_strided_loop(a, out, n):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    for i in range(t, 64, N):
        s[t] = a[i]
        cuda.syncthreads()
        out[i] = s[(t + 1) % N] + i
        cuda.syncthreads()


@cuda.jit
def tuple_of_constants(a, out, n):
    t = cuda.threadIdx.x
    out[t] = a[t] * WEIGHTS[0] + a[(t + 1) % N] * WEIGHTS[2]


@cuda.jit
def functions_of_math(a, out, n):
    t = cuda.threadIdx.x
    x = a[t]
    y = math.sqrt(x * x) + math.fabs(-x) + math.floor(x / 2) + abs(-t)
    out[t] = max(y, float32(3)) + min(t, 7) + math.copysign(1.0, x - 3)


@cuda.jit
def counts_and_votes_of_a_block(a, out, n):
    t = cuda.threadIdx.x
    big = cuda.syncthreads_count(a[t] > 3)
    some = cuda.syncthreads_or(a[t] > 100)
    every = cuda.syncthreads_and(a[t] >= 0)
    out[t] = big * 4 + (2 if some else 0) + (1 if every else 0)


@cuda.jit
def histogram_of_atomics(a, out, n):
    i = cuda.grid(1)
    if i < 64:
        cuda.atomic.add(out, int(a[i]), 1)
        cuda.atomic.max(out, 100, a[i])
        cuda.atomic.min(out, 101, -a[i])


@cuda.jit
def shared_atomics(a, out, n):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    for k in range(3):
        cuda.atomic.add(bins, int(a[t] + k) % 8, 1)
    cuda.syncthreads()
    if t < 8:
        out[t] = bins[t]


@cuda.jit(device=True)
def row_total(row):
    total = float32(0)
    for x in row:
        total += x
    return total * row.shape[0]


@cuda.jit
def rows_handed_to_a_function(a, out, n):
    s = cuda.shared.array((ROWS, COLUMNS), float32)
    t = cuda.threadIdx.x
    mine = s[t % ROWS]
    mine[t // ROWS] = a[t]
    cuda.syncthreads()
    last = a[60:]
    out[t] = row_total(mine) + row_total(s[:, t % COLUMNS]) + last[t % 4] + last.size


@cuda.jit
def loop_over_constants(a, out, n):
    t = cuda.threadIdx.x
    total = float32(0)
    for d in (8, 4, 1):
        total = total * 2 + a[(t + d) % 64]
    out[t] = total


@cuda.jit
def loops_with_an_else(a, out, n):
    t = cuda.threadIdx.x
    for i in range(t, 64):
        if a[i] == 7:
            out[t] = i
            break
    else:
        out[t] = -1
    k = 0
    while k < t % 5:
        if a[k] == 3:
            break
        k += 1
    else:
        out[32 + t] = k + 100
    for i in range(3):
        for j in range(3):
            if a[i + j] > t % 8:
                break
        else:
            continue
        out[64 + t] = 1
        break
    else:
        out[64 + t] = 2


@cuda.jit(device=True)
def place_of(values, wanted):
    for i, x in enumerate(values):
        if x == wanted:
            return i
    else:
        return -1


@cuda.jit
def return_from_a_loop_with_an_else(a, out, n):
    t = cuda.threadIdx.x
    out[t] = place_of(a, t % 9)


@cuda.jit
def zipped_and_numbered(a, out, n):
    rows = cuda.shared.array((ROWS, COLUMNS), float32)
    t = cuda.threadIdx.x
    rows[t // COLUMNS, t % COLUMNS] = a[t]
    cuda.syncthreads()
    total = float32(0)
    for i, (x, w) in enumerate(zip(a, WEIGHTS), n):  # noqa: B905
        total += i * x * w
    for row in rows:
        for k, x in enumerate(row[2:]):
            total += k * x
    for i, j in zip(range(t, 20), range(60, 0, -7)):  # noqa: B905
        total += a[i] * j
    for x in rows[t % ROWS]:
        total += x
    out[t] = total


@cuda.jit
def constants_of_the_kernel_as_shapes(a, out, n):
    width = 16
    size = (2, width)
    s = cuda.shared.array(size, float32)
    own = cuda.local.array(width // 8, float32)
    t = cuda.threadIdx.x
    s[t // width, t % width] = a[t]
    cuda.syncthreads()
    own[0] = s[1 - t // width, t % width]
    own[1] = width
    out[t] = own[0] + own[1]


@cuda.jit
def names_for_values_within_expressions(a, out, n):
    t = cuda.threadIdx.x
    k = 1
    while (x := a[(t * k) % 64]) < 6 and (k := k + 1) < 9:
        out[32 + t] += x
    y = k + (k := t) * 2 if (z := a[t]) > 3 else z
    out[t] = y + k + (k := k + 1) + k


@cuda.jit
def chosen_by_match(a, out, n):
    t = cuda.threadIdx.x
    match int(a[t]):
        case 0:
            out[t] = 10
        case 1 | 2:
            out[t] = 20
        case k if k % 2 == 1:
            out[t] = k * 3
        case 4 as k:
            out[t] = k
        case _:
            out[t] = -1
    match n:
        case 5:
            out[32 + t] = 1
        case m:
            out[32 + t] = m


@cuda.jit
def functions_within(a, out, n):
    t = cuda.threadIdx.x
    weight = n + 1

    def scaled(x, by=2):
        if x > 5:
            return x
        total = x * by * weight
        return total + shifted(x)

    shifted = lambda x: x + weight  # noqa: E731
    total = scaled(a[t])
    out[t] = total + scaled(a[t + 1], by=3) + shifted(t)


tripled = cuda.jit(lambda x: x * 3, device=True)


@cuda.jit
def lambda_as_a_device_function(a, out, n):
    out[cuda.threadIdx.x] = tripled(a[cuda.threadIdx.x]) + tripled(1)


@cuda.jit
def bodies_that_do_nothing(a, out, n):
    """A docstring, too, is a statement."""
    t = cuda.threadIdx.x
    if a[t] > 3:
        pass
    elif a[t] > 1:
        cuda.threadfence()
    else:
        assert t >= 0
    for _ in range(int(a[t])):
        """Nothing."""
    while t > 100:
        pass
    out[t] = 1


@cuda.jit(device=True)
def doubled_if_large(x):
    if x > 3:
        x *= 2
    return x


@cuda.jit
def updated_by_what_needs_statements(a, out, n):
    t = cuda.threadIdx.x
    total = a[t]
    total += doubled_if_large(a[t + 1])
    out[t] = total
    out[t] += doubled_if_large(a[t + 2])
    out[t] -= total if total > 5 else doubled_if_large(total)
    out[32 + t] += cuda.syncthreads_or(a[t] > 5)


@cuda.jit
def remainders(a, out, n):
    t = cuda.threadIdx.x
    out[t] = math.fmod(t - 15, 4) + math.fmod(a[t] - 5.5, float32(2))


CASES = {
    **dict.fromkeys(
        (
            loop_with_break_and_continue,
            chain_of_elif,
            state_under_a_mask,
            trip_counts_that_differ,
            collatz,
            device_functions_that_return_early,
            return_from_nested_loops,
            return_on_some_paths,
            branch_all_threads_take,
            integer_division_and_shifts,
            uniform_value_inside_a_branch,
            mask_within_a_mask,
            else_with_a_loop,
            conditional_expressions,
            guards_that_short_circuit,
            call_behind_a_guard,
            while_that_calls,
            strided_loop_variable_read_afterwards,
            parameter_assigned,
            grid_stride,
            grid_stride_while,
            grid_stride_with_sums,
            barrier_under_a_launch_wide_condition,
            histogram_of_atomics,
        ),
        (2, 32),
    ),
    **dict.fromkeys(
        (
            uniform_loop_left_by_break,
            uniform_loop_with_continue,
            name_with_three_meanings,
            value_set_on_one_path,
            strided_loops_nested,
            swapped_in_a_loop,
            elements_swapped,
            local_arrays_across_a_barrier,
            device_function_with_two_results,
            device_function_with_barriers_twice,
            device_function_inside_an_expression,
            device_function_that_writes_shared,
            device_function_that_returns_from_a_loop,
            loop_on_a_shared_flag,
            value_of_the_round_before,
            inclusive_scan,
            odd_even_sort,
            game_of_life,
            loop_variable_read_afterwards,
            downward_loop,
            barrier_in_a_strided_loop,
            rows_handed_to_a_function,
            loop_over_constants,
            tuple_of_constants,
            functions_of_math,
            loops_with_an_else,
            return_from_a_loop_with_an_else,
            zipped_and_numbered,
            constants_of_the_kernel_as_shapes,
            names_for_values_within_expressions,
            chosen_by_match,
            functions_within,
            lambda_as_a_device_function,
            bodies_that_do_nothing,
            remainders,
            updated_by_what_needs_statements,
            counts_and_votes_of_a_block,
            shared_atomics,
        ),
        (1, 32),
    ),
    three_dimensions: (1, (4, 4, 2)),
    two_dimensional_grid: ((3, 3), (4, 3)),
    transpose_through_a_tile: (1, (8, 4)),
    barrier_after_an_early_return: (3, 32),
}

# Kernels that are run by `pytest -m slow` only: others have nearly the same.
VARIANTS = {
    call_behind_a_guard,
    while_that_calls,
    conditional_expressions,
    strided_loops_nested,
    device_function_with_two_results,
    device_function_with_barriers_twice,
    device_function_inside_an_expression,
    loop_on_a_shared_flag,
    loop_over_constants,
    tuple_of_constants,
    return_from_a_loop_with_an_else,
    names_for_values_within_expressions,
    lambda_as_a_device_function,
    bodies_that_do_nothing,
    three_dimensions,
    uniform_value_inside_a_branch,
    parameter_assigned,
    collatz,
    elements_swapped,
    return_on_some_paths,
    inclusive_scan,
    odd_even_sort,
    game_of_life,
    loop_variable_read_afterwards,
    grid_stride,
    grid_stride_while,
    two_dimensional_grid,
    transpose_through_a_tile,
    histogram_of_atomics,
    functions_of_math,
}


def name(kernel):
    """The name of a kernel, compiled or simulated."""
    return getattr(kernel, "py_func", getattr(kernel, "fn", kernel)).__name__


def arguments():
    """New arguments: they are the same each time."""
    a = np.random.default_rng(5).integers(0, 8, 64).astype(np.float32)
    return a, np.zeros(128, np.float32), 4


if __name__ == "__main__":  # with NUMBA_ENABLE_CUDASIM=1: the results, to a file
    import sys

    results = {}
    for kernel, (grid, block) in CASES.items():
        given = arguments()
        kernel[grid, block](*given)
        results[name(kernel)] = given[1]
    np.savez(sys.argv[1], **results)
