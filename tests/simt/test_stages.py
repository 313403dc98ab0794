"""What each stage makes of a small kernel, as text in `golden/`.

After a change that is meant: `SNREF_GOLDEN=write python -m pytest tests/simt`, and read
the difference.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32

from snref import simt
from snref.simt.run import STAGES, stages

GOLDEN = Path(__file__).parent / "golden"
FACTOR = 3


@cuda.jit(device=True)
def square(x):
    return x * x


@cuda.jit
def scale(a, c):
    i = cuda.grid(1)
    if i >= c.size:
        return
    c[i] = square(a[i]) * FACTOR


@cuda.jit
def strided_sums(a, c, n):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(t, n, 32):
        total += a[i]
    s[t] = total
    cuda.syncthreads()
    i = 16
    while i > 0:
        if t < i:
            s[t] += s[t + i]
        cuda.syncthreads()
        i //= 2
    if t == 0:
        c[0] = s[0]


@cuda.jit
def column_sums(a, c, n):
    s = cuda.shared.array(32, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i < n:
        total = float32(0)
        for k in range(8):
            total += a[k * n + i]
        s[t] = total
        cuda.syncthreads()
    c[i] = s[31 - t]


A, C = np.zeros(256, np.float32), np.zeros(32, np.float32)
KERNELS = {
    "scale": (scale, (A, C)),
    "strided_sums": (strided_sums, (A, C, 256)),
    "column_sums": (column_sums, (A, C, 32)),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_stage_prints_as_before(name, stage):
    kernel, arguments = KERNELS[name]
    text = simt.show(kernel, 32, *arguments, stage=stage)
    text, _, _ = text.partition("\nFACTS = ")  # they hold the path of this file
    file = GOLDEN / f"{name}.{stage}.txt"
    if os.environ.get("SNREF_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8", newline="\n")
    assert text == file.read_text(encoding="utf-8")


def test_a_stage_leaves_what_it_was_given_alone():
    """Each stage is a function of values: all of them print the same afterwards."""
    types = [simt.run.numba.typeof(a) for a in KERNELS["strided_sums"][1]]
    made = stages(strided_sums, (32, 1, 1), types)
    again = stages(strided_sums, (32, 1, 1), types)
    for stage in ("front", "webs", "uniform", "lockstep", "storage", "emit"):
        assert str(made[stage]) == str(again[stage])
    from snref.simt.front import front

    assert str(made["front"]) == str(front(strided_sums, (32, 1, 1), types))


def test_show_without_a_stage_is_what_runs():
    kernel, arguments = KERNELS["scale"]
    text = simt.show(kernel, 32, *arguments)
    assert text == simt.show(kernel, 32, *arguments, stage="emit")
    compile(text, "generated", "exec")


@cuda.jit(device=True)
def clear(values):
    for i in range(values.shape[0]):
        values[i] = float32(0)


@cuda.jit
def clears_its_own(c):
    values = cuda.local.array(4, float32)
    clear(values)
    c[cuda.grid(1)] = values[3]


def test_the_shape_of_a_kernel_s_own_array_is_constant():
    """So that a device function's loops over it are the same for all threads."""
    text = simt.show(clears_its_own, 32, C)
    assert "for _clear1_i in range(4):" in text
    c = np.ones(32, np.float32)
    simt.compile(clears_its_own)[1, 32](c)
    assert not c.any()


def test_there_is_no_other_stage():
    with pytest.raises(ValueError, match="no stage 'ptx'"):
        simt.show(scale, 32, A, C, stage="ptx")
