"""The profile of kernels whose counts can be worked out by hand."""

import numpy as np
from numba import complex128, cuda, float32, float64

from snref import simt

from . import examples

PADDED = 33


def profiled(kernel, block, *arguments, grid=1):
    report = simt.profile(kernel)[grid, block](*arguments)
    return report, {line.source.strip(): line for line in report.lines}


@cuda.jit
def strides(a, c):
    i = cuda.grid(1)
    x = a[i]
    y = a[2 * i]
    z = a[32 * i]
    c[i] = x + y * z


def test_sectors_follow_the_stride_of_a_load():
    a, c = np.zeros(2048, np.float32), np.zeros(64, np.float32)
    report, lines = profiled(strides, 64, a, c)
    assert lines["x = a[i]"].loads == 2  # two warps
    assert lines["x = a[i]"].load_sectors == 2 * 4
    assert lines["y = a[2 * i]"].load_sectors == 2 * 8
    assert lines["z = a[32 * i]"].load_sectors == 2 * 32
    assert lines["c[i] = x + y * z"].store_sectors == 2 * 4
    assert lines["c[i] = x + y * z"].flops == 2 * 64
    assert report.bytes == 32 * (8 + 16 + 64 + 8)
    assert report.intensity == report.flops / report.bytes


@cuda.jit
def banks(c):
    column = cuda.shared.array((32, 32), float32)
    padded = cuda.shared.array((32, PADDED), float32)
    t = cuda.threadIdx.x
    column[t, 0] = 1
    padded[t, 0] = 2
    cuda.syncthreads()
    c[t] = column[0, 0]


def test_a_column_of_a_tile_is_in_one_bank_unless_it_is_padded():
    _, lines = profiled(banks, 32, np.zeros(32, np.float32))
    assert lines["column[t, 0] = 1"].bank_conflicts == 31
    assert lines["padded[t, 0] = 2"].bank_conflicts == 0
    assert lines["c[t] = column[0, 0]"].bank_conflicts == 0  # a broadcast


@cuda.jit
def branches(a, c):
    t = cuda.threadIdx.x
    if t < 32:
        c[t] = 1
    if t % 2 == 0:
        c[t] = 2
    i = 0
    while i < t % 2:
        i += 1


def test_warps_diverge_where_their_threads_part_ways():
    a, c = np.zeros(64, np.float32), np.zeros(64, np.float32)
    _, lines = profiled(branches, 64, a, c)
    assert (lines["if t < 32:"].branches, lines["if t < 32:"].divergent) == (2, 0)
    assert lines["if t % 2 == 0:"].divergent == 2
    loop = lines["while i < t % 2:"]
    assert (loop.branches, loop.divergent) == (4, 2)


def test_a_tiled_product_has_two_operations_a_term():
    a = np.ones((32, 48), np.float32)
    b = np.ones((48, 32), np.float32)
    c = np.zeros((32, 32), np.float32)
    report, _ = profiled(examples.tiled_product, (16, 16), a, b, c, grid=(2, 2))
    assert (c == 48).all()
    assert report.flops == 2 * 32 * 32 * 48
    # each tile of 16 rows of 64 bytes, for two rows or columns of blocks; and c
    tiles = 2 * 3 * 2 * 2 * 16 * 2
    assert report.total("load_sectors") == tiles
    assert report.total("store_sectors") == 32 * 32 * 4 // 32
    assert report.total("shared_passes") == report.total("shared")


def test_a_profile_prints_a_row_a_line():
    a, c = np.zeros(64, np.float32), np.zeros(64, np.float32)
    report = simt.profile(branches)[1, 64](a, c)
    rows = str(report).splitlines()
    assert rows[0] == "branches"
    assert len(rows) == len(report.lines) + 7 and repr(report) == str(report)
    assert any("100 %" in row and "if t % 2 == 0:" in row for row in rows)


@cuda.jit
def block_sums(a, c):
    """A row a block, summed by halves."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.blockIdx.x, t]
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    c[cuda.blockIdx.x, t] = s[0]


@cuda.jit
def wide_elements(c):
    s = cuda.shared.array((32, 32), float64)
    z = cuda.shared.array(64, complex128)
    t = cuda.threadIdx.x
    s[0, t] = 1
    s[t, 0] = 2
    s[1, 2 * t % 32] = 3
    z[t] = 4
    z[2 * t] = 5
    c[t] = s[3, 0].real


def test_wide_elements_take_their_turns_without_a_conflict():
    """Of 8 bytes half a warp at a time, of 16 a quarter: only more is a conflict."""
    _, lines = profiled(wide_elements, 32, np.zeros(32))
    assert lines["s[0, t] = 1"].bank_conflicts == 0
    assert lines["s[t, 0] = 2"].bank_conflicts == 2 * 15
    assert lines["s[1, 2 * t % 32] = 3"].bank_conflicts == 2
    assert lines["z[t] = 4"].bank_conflicts == 0
    assert lines["z[2 * t] = 5"].bank_conflicts == 4
    assert lines["s[1, 2 * t % 32] = 3"].shared == 1


def test_a_sum_by_halves_has_no_bank_conflicts():
    a = np.asarray(np.random.default_rng(0).random((3, 64)), np.float32, order="F")
    c = np.zeros((3, 64), np.float32, order="F")
    report, lines = profiled(block_sums, 64, a, c, grid=3)
    np.testing.assert_allclose(c, a.sum(1, keepdims=True).repeat(64, 1), rtol=1e-6)
    assert report.total("shared_passes") == report.total("shared")
    branch = lines["if t < half:"]  # two warps; from 16 on the first one parts
    assert (branch.branches, branch.divergent) == (3 * 6 * 2, 3 * 5)


@cuda.jit
def one_more(c, a):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + 1


def test_arrays_with_gaps_hold_what_the_kernel_wrote():
    """Read-only ones, too, and one under two names."""
    a, c = np.arange(16.0)[::-2], np.zeros(8)
    expected = a + 1
    simt.profile(one_more)[1, 8](a, a)
    assert np.array_equal(a, expected)
    simt.profile(one_more)[1, 8](c, np.broadcast_to(np.float64(2), 8))
    assert (c == 3).all()


def test_the_table_explains_its_columns_and_divides_by_no_zero():
    a = np.zeros(0, np.float32)
    text = str(simt.profile(one_more)[1, 8](a, a))
    title = text.splitlines()[1].split()
    explained = {
        n.strip() for n in text[text.index("ld/warp,") :].split(":")[0].split(",")
    }
    explained |= {line.split(":")[0] for line in text.splitlines() if ":" in line}
    assert set(title) - {"line", "source"} <= explained
    assert "inf" not in text and "0 bytes of sectors" in text
