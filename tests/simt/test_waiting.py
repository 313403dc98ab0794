"""A loop that waits for what cannot come ends the launch, by name; no other does."""

from pathlib import Path

import numpy as np
import pytest
from numba import cuda, int32

from snref import simt

LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


@cuda.jit
def first_waits_for_the_last(flag, out):
    if cuda.blockIdx.x == 0:
        while flag[0] == 0:  # endless
            pass
    if cuda.blockIdx.x == cuda.gridDim.x - 1:
        flag[0] = 1
    out[cuda.grid(1)] = 1


@cuda.jit
def barrier_of_the_grid(count, out):
    out[cuda.grid(1)] = 1
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(count, 0, 1)
        while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x:  # endless
            cuda.nanosleep(100)
    cuda.syncthreads()
    out[cuda.grid(1)] += 1


@cuda.jit
def lock_that_is_not_given_back(lock, out):
    tries = 0
    while cuda.atomic.exch(lock, 0, 1) != 0:  # endless
        tries += 1
    out[0] += 1


@cuda.jit
def lock_taken_by_all(lock, out):
    done = False
    while not done:  # endless
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            out[0] += 1
            done = True


@cuda.jit
def lock_tried_again(lock, out):
    held = cuda.atomic.cas(lock, 0, 0, 1)
    while held != 0:  # endless
        held = cuda.atomic.cas(lock, 0, 0, 1)
    out[0] += 1


@cuda.jit
def waits_for_the_next_thread(flag, out):
    t = cuda.threadIdx.x
    while True:  # endless
        ready = t == 31 or flag[t + 1] != 0
        cuda.threadfence_block()
        if ready:
            break
    flag[t] = 1


@cuda.jit
def stores_and_goes_on(flag, out):
    while True:  # endless
        out[cuda.grid(1)] += 1
        for i in range(flag.size):
            if flag[i]:
                break


def kernels(*always):
    """Of each kernel a parameter; only some are run always."""

    def parameter(kernel):
        marks = [] if kernel in always else [pytest.mark.slow]
        return pytest.param(kernel, marks=marks, id=kernel.py_func.__name__)

    return lambda *all_: [parameter(k) for k in all_]


ENDLESS = kernels(first_waits_for_the_last, lock_taken_by_all, stores_and_goes_on)(
    stores_and_goes_on,
    first_waits_for_the_last,
    barrier_of_the_grid,
    lock_that_is_not_given_back,
    lock_taken_by_all,
    lock_tried_again,
    waits_for_the_next_thread,
)


@pytest.mark.parametrize("kernel", ENDLESS)
@pytest.mark.parametrize("run", [simt.compile, simt.check])
def test_a_loop_that_waits_for_ever_is_named(run, kernel):
    with pytest.raises(simt.KernelError, match="goes on for ever") as caught:
        run(kernel)[3, 32](np.zeros(33, np.int32), np.zeros(96))
    place, _, problem = str(caught.value).partition(f": {kernel.py_func.__name__}: ")
    file, line = place.split(":")
    text = LINES[int(line) - 1]
    assert file == "test_waiting.py" and text.endswith("# endless")
    assert text.strip() in problem and "(block 0)" in problem


@cuda.jit
def work_from_a_queue(count, out):
    while True:
        i = cuda.atomic.add(count, 0, 1)
        if i >= out.size:
            break
        out[i] += 1


@cuda.jit
def waits_for_earlier_blocks(count, out):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(count, 0, 0) < cuda.blockIdx.x:
            pass
    cuda.syncthreads()
    out[cuda.grid(1)] = 1
    cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(count, 0, 1)


@cuda.jit
def waits_for_an_earlier_flag(flag, out):
    b = cuda.blockIdx.x
    while b > 0 and flag[b - 1] == 0:
        pass
    out[cuda.grid(1)] = 1
    cuda.syncthreads()
    flag[b] = 1


@cuda.jit
def counts_by_compare_and_swap(count, out):
    i = cuda.grid(1)
    while count[0] < 100 * (i + 1):
        cuda.atomic.cas(count, 0, count[0], count[0] + 1)
    while True:
        seen = count[1]
        if cuda.atomic.cas(count, 1, seen, seen + 1) == seen:
            break
    out[i] = count[1] == i + 1


@cuda.jit
def keys_of_a_table(keys, out):
    i = cuda.grid(1)
    key = i // 3 + 1
    place = key * 7 % 33
    while True:
        old = cuda.atomic.cas(keys, place, 0, key)
        if old == 0 or old == key:
            break
        place = (place + 1) % 33
    out[i] = 1


@cuda.jit
def signals_in_turn(flag, out):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    s[0] = 0
    cuda.syncthreads()
    while cuda.atomic.cas(s, 0, t, t) != t:
        pass
    out[cuda.grid(1)] = 1
    cuda.atomic.add(s, 0, 1)


@cuda.jit
def one_round_only(flag, out):
    if flag[32] != 0:  # a loop to which no thread comes
        while True:
            out[0] = 2
    while flag[32] == 0:
        out[cuda.grid(1)] = 1
        break
    k = 0
    while flag[32] == 0:
        k += 1
        if k == 1000:
            break


@pytest.mark.parametrize(
    "kernel",
    kernels(work_from_a_queue, waits_for_earlier_blocks, counts_by_compare_and_swap)(
        work_from_a_queue,
        waits_for_earlier_blocks,
        waits_for_an_earlier_flag,
        counts_by_compare_and_swap,
        keys_of_a_table,
        signals_in_turn,
        one_round_only,
    ),
)
def test_a_loop_that_ends_is_left_alone(kernel):
    out = np.zeros(96)
    simt.compile(kernel)[3, 32](np.zeros(33, np.int32), out)
    assert (out == 1).all()
