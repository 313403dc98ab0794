"""What programs of others taught: each construct in a kernel of our own.

They came from courses, students' solutions and tools that use Numba CUDA.
"""

import numpy as np
import pytest
from numba import cuda, float64

from snref import simt


def one_worker(kernel):
    """The blocks of the grid run one after another in one thread."""
    return simt.compile(kernel, threads=1)


EVERY_WAY = [one_worker, simt.compile, simt.check, simt.debug]


@cuda.jit
def parameters_assigned(out, n, m):
    i = cuda.grid(1)
    n -= 1
    if m > 0:
        m = 2 * m
    for _ in range(2):
        n -= 1
    out[i] = 100 * n + m


@pytest.mark.parametrize("way", EVERY_WAY)
def test_what_a_block_assigns_to_a_parameter_the_next_does_not_find_there(way):
    out = np.zeros(12, np.int64)
    way(parameters_assigned)[4, 3](out, 10, 3)
    assert out.tolist() == [706] * 12


@cuda.jit
def ping_pong(a, b, out):
    i = cuda.grid(1)
    for _ in range(3):
        b[i] = a[i] + 1
        a, b = b, a
    out[i] = a[i]


@pytest.mark.parametrize("way", [one_worker, simt.compile, simt.debug])
def test_arrays_that_change_places_do_so_in_each_block(way):
    a, b, out = np.arange(12.0), np.zeros(12), np.zeros(12)
    way(ping_pong)[4, 3](a, b, out)
    assert out.tolist() == [i + 3 for i in range(12)]


@cuda.jit(device=True)
def read(values, i):
    mine = values
    return mine[i]


@cuda.jit
def second_names(a, out):
    i = cuda.grid(1)
    x, y = a, out
    z = x
    y[i] = z[i] + read(x, i + 1)


@pytest.mark.parametrize("way", [one_worker, simt.check, simt.debug])
def test_an_array_has_a_second_name(way):
    a, out = np.arange(13.0), np.zeros(12)
    way(second_names)[4, 3](a, out)
    assert out.tolist() == [2 * i + 1 for i in range(12)]


def test_check_mode_follows_a_second_name():
    with pytest.raises(simt.KernelError, match=r"a\[12\] is out of bounds"):
        simt.check(second_names)[4, 3](np.arange(12.0), np.zeros(12))


@cuda.jit(device=True)
def first(values):
    values = values[0]  # a row's name, now that of a number
    return values


@cuda.jit(device=True)
def filled(values, i):
    values = cuda.local.array(2, float64)
    values[0] = values[1] = i
    return values[0] + values[1]


@cuda.jit
def rows(a, b, out):
    i = cuda.grid(1)
    row = a[i]
    out[i] = row[0]
    row = b[i]
    for k in range(2):
        row[1] += k
    out[i] += row[1] + first(row) + filled(row, i)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_name_is_given_to_one_row_after_another(way):
    a, b, out = np.ones((12, 2)), np.full((12, 2), 2.0), np.zeros(12)
    way(rows)[4, 3](a, b, out)
    assert out.tolist() == [6 + 2 * i for i in range(12)]


@cuda.jit
def scratch(out):
    i = cuda.grid(1)
    if i % 2:
        v = cuda.local.array(2, float64)
        v[0] = 1
    else:
        v = cuda.local.array(2, float64)
        v[0] = 2
    out[i] = v[0]
    for k in range(2):
        v = cuda.local.array((2, 3), float64)
        v[k, 2] = k
        out[i] += v[k, 2]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_local_array_has_the_name_of_another(way):
    out = np.zeros(12)
    way(scratch)[4, 3](out)
    assert out.tolist() == [3, 2] * 6


@cuda.jit
def either_row(a, b, out):
    i = cuda.grid(1)
    if i % 2:
        row = a[i]
    else:
        row = b[i]
    tries = 0
    while row[0] < 3 and tries < 2:
        row = b[tries]
        tries += 1
    out[i] = row[1] + tries


@pytest.mark.parametrize("way", [one_worker, simt.compile, simt.debug])
def test_a_name_is_one_of_two_rows(way):
    a, b = np.arange(24.0).reshape(12, 2), np.full((12, 2), 3.0)
    out = np.zeros(12)
    way(either_row)[4, 3](a, b, out)
    expected = [2 * i + 1 if i % 2 and i > 1 else 3 + (i == 1) for i in range(12)]
    assert out.tolist() == expected
