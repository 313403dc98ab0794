"""Threads that return before a barrier are not waited for: compiled runs give what the
reference interpreter gives, check mode says so unless it is allowed."""

import numpy as np
import pytest
from numba import cuda, float32

from snref import simt

N = 32
RULE = "exited-before-barrier"


@cuda.jit
def sums_of_blocks(a, out):
    """The last block is not full. Threads that return have something to do before."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    d = N // 2
    s[t] = 0
    if i >= 50:
        s[t] = 100
        return
    s[t] += a[i]
    cuda.syncthreads()  # first
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        cuda.syncthreads()
        d //= 2
    out[i] = s[0]


@cuda.jit(device=True)
def neighbour(s, t, value):
    s[t] = value
    cuda.syncthreads()
    return s[t - 1] if t > 0 else value


@cuda.jit
def two_returns_and_counts(a, out):
    """What is left of a block counts, votes and agrees among itself."""
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = 0
    if cuda.blockIdx.x == 1:
        return
    if t % 4 == 3:
        return
    out[i] = cuda.syncthreads_count(a[t] > 3)  # first
    if a[t] > 5:
        out[i] = 1000
        return
    else:
        value = neighbour(s, t, a[t])
    for k in range(4 if a[t] < 6 else 100):
        cuda.syncthreads()
        value += s[(t + k) % N]
        if k == 2 and a[t] < 100:
            break
        cuda.syncthreads()
        s[t] = value
    if a[t] < 7:
        cuda.syncthreads()
        value += s[(t + 5) % N]
    out[i] += value + 10 * cuda.syncthreads_or(t == 3)


@cuda.jit
def return_on_some_paths(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = a[t]
    if t > 20:
        if a[t] > 4:
            return
        s[t] = 7
    for k in range(t % 3):
        if a[k] > a[t]:
            out[i] = 5
            return
        s[t] += k
    cuda.syncthreads()  # first
    out[i] += s[N - 1 - t]


@cuda.jit
def product_with_a_guard(a, out):
    """A tiled product of 7 x 8 and 8 x 7 numbers, with the guard at the wrong place."""
    left = cuda.shared.array((4, 4), float32)
    right = cuda.shared.array((4, 4), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    left[y, x] = 0
    right[y, x] = 0
    if row >= 7 or column >= 7:
        return
    total = float32(0)
    for tile in range(2):
        left[y, x] = a[row * 8 + tile * 4 + x]
        right[y, x] = a[tile * 4 * 7 + y * 7 + column]
        cuda.syncthreads()  # first
        for k in range(4):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    out[row * 7 + column] = total


@cuda.jit
def the_others_return(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = a[t]
    if t < 20:
        while s[t] > 3:
            s[t] -= 2
    else:
        s[t] = 9
        return
    cuda.syncthreads()  # first
    out[i] = s[N - 1 - t]


@cuda.jit
def guard_at_the_end(a, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < 50:
        s[t] = a[i]
        cuda.syncthreads()
        out[i] = s[t // 2]
        if a[i] > 3:
            cuda.syncthreads()  # first
            out[i] += s[N // 2]


CASES = {
    sums_of_blocks: (2, N),
    two_returns_and_counts: (3, N),
    return_on_some_paths: (2, N),
    product_with_a_guard: ((2, 2), (4, 4)),
    the_others_return: (1, N),
    guard_at_the_end: (2, N),
}
SLOW = {return_on_some_paths, product_with_a_guard, the_others_return, guard_at_the_end}
KERNELS = [
    pytest.param(
        kernel,
        id=kernel.py_func.__name__,
        marks=[pytest.mark.slow] if kernel in SLOW else [],
    )
    for kernel in CASES
]


def arguments():
    numbers = np.random.default_rng(3).integers(0, 8, 64)
    return numbers.astype(np.float32), np.zeros(128, np.float32)


def result(run, kernel, **options):
    given = arguments()
    run(kernel, **options)[CASES[kernel]](*given)
    return given[1]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_compiled_kernel_waits_for_those_that_are_left(kernel):
    expected = result(simt.debug, kernel)
    assert expected.any()
    np.testing.assert_array_equal(result(simt.compile, kernel), expected)


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(*k.values, id=k.id, marks=pytest.mark.slow) if i else k
        for i, k in enumerate(KERNELS)
    ],
)
def test_check_mode_refuses_it_unless_it_is_allowed(kernel):
    with pytest.raises(simt.KernelError, match="has returned before") as caught:
        result(simt.check, kernel)
    finding = caught.value.findings[0]
    source = kernel.py_func.__code__
    with open(source.co_filename, encoding="utf-8") as file:
        assert "# first" in file.readlines()[finding.line - 1]
    assert finding.kind == RULE and finding.thread is not None
    expected = result(simt.debug, kernel)
    allowed = result(simt.check, kernel, allow=[RULE])
    np.testing.assert_array_equal(allowed, expected)


def test_only_this_rule_can_be_allowed():
    with pytest.raises(ValueError, match=f"allow takes {RULE}, not 'race'"):
        simt.check(sums_of_blocks, allow=["race"])


@cuda.jit
def barrier_in_a_branch_after_a_return(a, out):
    t = cuda.threadIdx.x
    if t >= 20:
        return
    if a[t] > 3:
        cuda.syncthreads()
    out[t] = 1


@cuda.jit
def barrier_in_a_loop_of_a_guard(a, out):
    t = cuda.threadIdx.x
    if a[t] > 1:
        for k in range(8):
            if a[t] > k:
                cuda.syncthreads()


@cuda.jit
def return_from_a_loop_with_a_barrier(a, out):
    t = cuda.threadIdx.x
    for k in range(8):
        if a[t] > k:
            return
        cuda.syncthreads()
    out[t] = 1


@pytest.mark.slow
@pytest.mark.parametrize("run", [simt.compile, simt.check])
@pytest.mark.parametrize(
    "kernel",
    [
        barrier_in_a_branch_after_a_return,
        barrier_in_a_loop_of_a_guard,
        return_from_a_loop_with_a_barrier,
    ],
)
def test_a_barrier_that_threads_in_the_kernel_disagree_about_is_refused(run, kernel):
    # Threads that skip a guard have returned: that alone is allowed here.
    allow = {"allow": ("exited-before-barrier",)} if run is simt.check else {}
    with pytest.raises(simt.KernelError, match="must reach the same barrier"):
        run(kernel, **allow)[1, N](*arguments())


@cuda.jit
def shuffle_that_names_all(a, out):
    t = cuda.threadIdx.x
    if t >= 20:
        return
    out[t] = cuda.shfl_down_sync(0xFFFFFFFF, a[t], 1)


@pytest.mark.slow
def test_a_full_mask_that_names_threads_that_have_returned_is_found():
    with pytest.raises(simt.KernelError, match="do not take part") as caught:
        simt.check(shuffle_that_names_all)[1, N](*arguments())
    (finding,) = caught.value.findings
    first = shuffle_that_names_all.py_func.__code__.co_firstlineno
    assert (finding.kind, finding.line) == ("absent-lanes", first + 5)
