"""Slices, rows and whole records: every way to run a kernel does the same with them,
and check mode looks at each of their elements."""

import numpy as np
import pytest
from numba import cuda, float32

from snref import simt

RECORD = np.dtype([("x", np.float32), ("k", np.int32)])


def ways(always):
    """Every way to run a kernel; one is tried always."""
    return [
        pytest.param(run, marks=[] if run is always else pytest.mark.slow)
        for run in (simt.compile, simt.check, simt.profile)
    ]


@cuda.jit
def assigned(a, b, out):
    """A row for each thread of four; every statement has parts of arrays."""
    s = cuda.shared.array((4, 8), float32)
    own = cuda.local.array(6, float32)
    t = cuda.threadIdx.x
    place = cuda.grid(2)
    s[t] = t
    s[t, 2:] = a[t, :6]
    s[t, ::3] += 10
    own[:] = s[t, 6]
    own[4:1:-1] = b[-1, 1:4]
    cuda.syncthreads()
    out[t, :8] = s[3 - t] * 2 + a[t]
    out[t, 1:5] = out[t, :4]
    out[t, 8:] = own
    out[t, t] = a[place] + s[int(b[t, 0] > 3), 0]
    if a[t, 0] > 9:
        b[t, ...] = a[t, t]


@cuda.jit
def named(a, out, k):
    """Parts with steps under names, and parts of these."""
    t = cuda.threadIdx.x
    row = a[t, ::k]
    back = a[-1, 6:0:-2]
    some = row[::2]
    cuda.syncthreads()
    total = row.size + 10 * some.size + 100 * back.size
    out[t, 0] = row[t % 3] + row[-1] + back[t % 3] + some[0] * 3
    out[t, 1] = total
    out[t, 2:5] = back
    inner = some[::-1]
    out[t, 7 : 7 + inner.size] = inner
    mine = out[t, ::-1]
    mine[1:5:2] = 50


@cuda.jit
def copied(r, out):
    t = cuda.threadIdx.x
    if t < 2:
        r[t] = r[3 - t]
    out[t] = r[0]


def arrays():
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    return a, a.copy() % 7, np.zeros((4, 14), np.float32)


@pytest.mark.parametrize("run", ways(None))
def test_slices_are_assigned_and_read(run):
    expected, given = arrays(), arrays()
    simt.debug(assigned)[1, 4](*expected)
    run(assigned)[1, 4](*given)
    for left, right in zip(given, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@cuda.jit
def row(a, out):
    p = cuda.grid(2)
    out[p[0], 1:5] = a[p[0], :4]
    out[p] += a[p]
    cuda.atomic.add(out[p[0]], 13, a[p])
    out[p[0], a[p[0]].argmax()] = 6


@pytest.mark.parametrize("run", ways(simt.check))
def test_a_tuple_is_an_index_and_a_row_is_a_part(run):
    a, _, out = arrays()
    run(row)[1, 4](a, out)
    expected = np.zeros_like(out)
    expected[:, 1:5], expected[:, 0] = a[:, :4], a[:, 0]
    expected[:, 13], expected[:, 7] = a[:, 0], 6
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def own_rows(a, out):
    own = cuda.local.array((2, 4), float32)
    t = cuda.threadIdx.x
    own[:] = 1
    own[1] = a[t, :4]
    own[:, 2] += t
    row = own[1, ::-1]
    for i in range(4):
        out[t, i] = row[i] + own[0, i]


@pytest.mark.parametrize("run", ways(simt.compile))
def test_rows_of_a_local_array_are_the_thread_s_own(run):
    """They were those of all threads, or an index of another axis."""
    a, _, expected = arrays()
    given = expected.copy()
    simt.debug(own_rows)[1, 4](a, expected)
    run(own_rows)[1, 4](a, given)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("run", ways(simt.compile))
@pytest.mark.parametrize("k", [1, 2, -3])
def test_slices_with_steps_have_names(run, k):
    a, _, expected = arrays()
    given = expected.copy()
    simt.debug(named)[1, 4](a, expected, k)
    run(named)[1, 4](a, given, k)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.slow
def test_whole_records_are_looked_at():
    r, out = np.zeros(4, RECORD), np.zeros(2, RECORD)
    r["x"], r["k"] = range(4), range(4, 8)
    simt.check(copied)[1, 1](r, out)
    assert out[0].tolist() == r[3].tolist() == (3, 7)
    with pytest.raises(simt.KernelError, match=r"r\[0\] is read") as caught:
        simt.check(copied)[1, 2](r, out)
    assert [f.kind for f in caught.value.findings] == ["race"]


@cuda.jit
def mistakes(a, out):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    out[0, 2:5] = t
    out[1, :2] = 7
    out[t, 9:11] = s[3:5]
    out[t + 2, :8] = a[t]
    out[3, 0] = (a[t + 1] * a[t]).sum()


def test_each_element_of_a_part_is_looked_at():
    a, _, out = arrays()
    with pytest.raises(simt.KernelError) as caught:
        simt.check(mistakes)[1, 4](a, out)
    first = mistakes.py_func.__code__.co_firstlineno
    found = sorted(
        (f.line - first, f.kind, f.name, f.element) for f in caught.value.findings
    )
    assert found[:2] == [
        (4, "race", "out", (0, 2)),  # each thread another value; all write 7
        (6, "uninitialised", "s", (3,)),
    ]
    assert (7, "out-of-bounds", "out", (4, 0)) in found
    assert (8, "out-of-bounds", "a", (4, 0)) in found
    assert not any(line == 5 for line, *_ in found)


def sizes_differ(a, out):
    out[0, :] = a[0, :]


@pytest.mark.parametrize("run", ways(simt.compile))
def test_a_part_of_another_size_is_an_error_of_the_kernel(run):
    a, _, out = arrays()
    says = (
        r"^test_parts.py:\d+: sizes_differ: cannot assign slice of shape \(14,\) from"
    )
    with pytest.raises(simt.KernelError, match=says):
        run(sizes_differ)[1, 1](a, out)


@cuda.jit
def chosen(a, out):
    row = a[0]
    if cuda.threadIdx.x > 1:
        row = a[1]
    out[0, cuda.threadIdx.x] = row[1]


@cuda.jit
def asked(a, out):
    if (a[cuda.threadIdx.x] > 3).all():
        out[0, 0] = 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "says"),
    [(chosen, "row stands for a part"), (asked, "a condition reads a part of a")],
)
def test_what_cannot_be_followed_is_named(kernel, says):
    a, _, out = arrays()
    for run in (simt.check, simt.profile):
        with pytest.raises(simt.KernelError, match=says):
            run(kernel)[1, 4](a, out)
