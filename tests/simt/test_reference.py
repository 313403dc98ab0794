"""The reference interpreter, and `simt.debug`, which runs it."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import cuda, float32, int32
from numba.cuda import grid as place_in_grid

from snref import simt
from snref.simt.limits import THREADS

FACTOR = 3


def line_of(kernel, text):
    """The number of the line of the kernel's source that holds this text."""
    function = kernel.py_func
    source = Path(function.__code__.co_filename).read_text(encoding="utf-8")
    lines = source.splitlines()
    first = function.__code__.co_firstlineno
    return next(i for i in range(first, len(lines)) if text in lines[i - 1])


@cuda.jit(device=True)
def at_most(values, i):
    return values[i]


@cuda.jit
def reads_past_the_end(a, out):
    i = cuda.grid(1)
    out[i] = at_most(a, i)


def test_an_exception_shows_the_line_and_the_thread():
    with pytest.raises(IndexError) as caught:
        simt.debug(reads_past_the_end)[2, 4](np.zeros(6), np.zeros(8))
    lines = [(f.name, f.lineno) for f in traceback.extract_tb(caught.tb)]
    assert lines[-2:] == [
        ("reads_past_the_end", line_of(reads_past_the_end, "at_most(a, i)")),
        ("at_most", line_of(at_most, "return values[i]")),
    ]
    assert caught.value.__notes__ == ["in thread (2, 0, 0) of block (1, 0, 0)"]


@cuda.jit
def half_of_the_block_waits(a):
    t = cuda.threadIdx.x
    if t < 2:
        cuda.syncthreads()
    a[t] = 1
    cuda.syncthreads()


def test_threads_that_wait_for_each_other_are_named():
    waits = line_of(half_of_the_block_waits, "cuda.syncthreads()")
    problem = rf"^test_reference\.py:{waits}: half_of_the_block_waits: .*2 in line "
    with pytest.raises(simt.KernelError, match=problem) as caught:
        simt.debug(half_of_the_block_waits)[1, 4](np.zeros(4))
    assert f"2 in line {waits}, 2 in line {waits + 2}" in str(caught.value)


@cuda.jit
def returns_before_the_barriers(a, out):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    if t >= 6:
        return
    for _ in range(3):
        cuda.syncthreads()
        value = s[(t + 1) % 8]
        cuda.syncthreads()
        s[t] = value
    out[t] = s[t]


def test_nobody_waits_for_a_thread_that_has_returned():
    out = np.zeros(8)
    simt.debug(returns_before_the_barriers)[1, 8](np.arange(8.0), out)
    assert out.tolist() == [3, 4, 5, 6, 6, 6, 0, 0]


@cuda.jit
def two_blocks_that_meet(a, out):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    a[i] = i
    grid.sync()
    out[i] = a[a.size - 1 - i]


def test_a_grid_that_synchronises_runs():
    a, out = np.zeros(8), np.zeros(8)
    simt.debug(two_blocks_that_meet)[2, 4](a, out)
    assert out.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


@cuda.jit
def second_waits_for_first(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        out[0] = 1
    else:
        cuda.atomic.add(flag, 0, 1)


def test_a_thread_may_wait_for_a_flag():
    out = np.zeros(1)
    simt.debug(second_waits_for_first)[1, 2](np.zeros(1, np.int32), out)
    assert out[0] == 1


@cuda.jit
def notes_its_turn(order, block_of):
    i = place_in_grid(1)
    turn = cuda.atomic.add(order, order.size - 1, 1)
    order[turn] = i
    block_of[turn] = cuda.blockIdx.x


def test_the_chosen_thread_runs_first():
    order, block_of = np.zeros(9, np.int32), np.zeros(8, np.int32)
    simt.debug(notes_its_turn, thread=2, block=(1, 0))[2, 4](order, block_of)
    assert order[:8].tolist() == [6, 4, 5, 7, 0, 1, 2, 3]
    assert block_of.tolist() == [1] * 4 + [0] * 4
    for place in ({"thread": 4}, {"block": (0, 1)}):
        with pytest.raises(ValueError, match=f"there is no {next(iter(place))}"):
            simt.debug(notes_its_turn, **place)[2, 4](order, block_of)


@cuda.jit
def unset_memory(out, whole):
    s = cuda.shared.array((2, 2), float32)
    mine = cuda.local.array(3, int32)
    dynamic = cuda.shared.array(0, dtype=numba.int16)
    out[0], out[1] = s[1, 1], mine[2]
    dynamic[1] = 7
    whole[0] = dynamic.size


def test_memory_holds_nothing_at_first_and_dynamic_memory_is_shared():
    out, whole = np.zeros(2), np.zeros(1)
    simt.debug(unset_memory)[1, 1, 0, 10](out, whole)
    assert np.isnan(out[0]) and out[1] == -1 and whole[0] == 5


def test_a_kernel_made_in_a_function_is_run_with_its_closure():
    shift = 10

    def add(x):
        return x + shift * FACTOR

    @cuda.jit
    def kernel(a):
        a[cuda.grid(1)] = add(a[cuda.grid(1)])

    a = np.arange(3.0)
    simt.debug(kernel)[1, 3](a)
    assert a.tolist() == [30, 31, 32]


@cuda.jit
def operations_of_a_warp(out):
    t = cuda.grid(1)
    lane = cuda.laneid
    out[0, t] = cuda.shfl_sync(-1, t, 5)
    out[1, t] = cuda.shfl_up_sync(-1, t, 2)
    out[2, t] = cuda.shfl_down_sync(-1, t, 30)
    out[3, t] = cuda.shfl_xor_sync(-1, t, 3)
    out[4, t] = cuda.ballot_sync(-1, lane < 3)
    out[5, t] = cuda.all_sync(-1, t < 32) + 2 * cuda.any_sync(-1, lane == t)
    out[6, t] = cuda.match_any_sync(-1, lane // 16)
    out[7, t] = cuda.eq_sync(-1, t < 32)
    out[8, t] = cuda.syncthreads_count(t < 40)
    out[9, t] = cuda.syncthreads_or(t == 63) + 2 * cuda.syncthreads_and(t < 63)
    bits, same = cuda.match_all_sync(-1, t // 16)
    out[10, t] = bits + same
    out[11, t] = cuda.popc(t) + 100 * cuda.ffs(t) + cuda.selp(t > 3, 10000, 0)


@pytest.mark.slow
def test_operations_of_warps_are_those_of_the_compiled_kernel():
    out, compiled = np.zeros((12, 64), np.int64), np.zeros((12, 64), np.int64)
    simt.debug(operations_of_a_warp)[1, 64](out)
    simt.compile(operations_of_a_warp)[1, 64](compiled)
    np.testing.assert_array_equal(out, compiled)


@cuda.jit
def stops(a):
    t = cuda.threadIdx.x
    twice = 2 * t
    cuda.syncthreads()
    if t == 5:
        breakpoint()
    a[t] = twice


def test_a_debugger_stops_in_a_kernel(monkeypatch):
    seen = []

    def stop():
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_lineno, frame.f_locals["twice"]))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    a = np.zeros(8)
    simt.debug(stops)[1, 8](a)
    assert seen == [("stops", line_of(stops, "breakpoint()"), 10)]
    assert a.tolist() == list(range(0, 16, 2))


PROGRAM = """\
import numpy as np
import pdb
from numba import cuda

@cuda.jit
def kernel(a):
    t = cuda.threadIdx.x
    if t == 2:
        pdb.set_trace()
    a[t] = 2 * t

a = cuda.to_device(np.zeros(4))
kernel[1, 4](a)
print(a.copy_to_host())
"""


@pytest.mark.slow
def test_a_program_runs_under_the_debugger(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "snref.simt", "--debug", "program.py"]
    done = subprocess.run(
        command,
        input="p 100 + t\nc\n",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "-> a[t] = 2 * t" in done.stdout and "102" in done.stdout
    assert "[0. 2. 4. 6.]" in done.stdout


def test_a_whole_block_runs():
    a = np.zeros(THREADS + 1, np.int32)
    simt.debug(notes_its_turn)[1, THREADS](a, np.zeros(THREADS, np.int32))
    assert a[:THREADS].tolist() == list(range(THREADS))
