"""What a kernel may be written with besides control flow (see test_torture.py): types
that signatures declare, records, exceptions, locks, globals."""

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, uint8

from snref import simt
from snref.simt import cache
from snref.simt.drop_in import installed

POINT = np.dtype([("x", np.float32), ("v", np.float32, 3)])
FACTOR = 2

with installed():

    @cuda.jit("int32(int32, int32)", device=True)
    def whole_sum(x, y):
        return x + y

    @cuda.jit(uint8(uint8, uint8), device=True)
    def byte_sum(x, y):
        return x + y

    @cuda.jit([int32(int32), float32(float32)], device=True)
    def of_two_types(x):
        return x


@cuda.jit
def sums(out, a):
    out[0] = whole_sum(1.7, a[0]) * 2.0
    out[1] = byte_sum(200, 100)


@cuda.jit
def of_several(out):
    out[0] = of_two_types(1)


def test_arguments_and_result_of_a_device_function_get_the_types_declared():
    out = np.zeros(2)
    simt.compile(sums)[1, 1](out, np.array([2.9]))
    assert out.tolist() == [6, 44]


def test_several_signatures_of_a_device_function_are_refused():
    with pytest.raises(simt.KernelError, match="has several signatures"):
        simt.compile(of_several)[1, 1](np.zeros(1))


def test_signatures_are_part_of_the_key():
    with installed():

        def make(signature):
            @cuda.jit(signature, device=True)
            def same(x):
                return x

            @cuda.jit
            def kernel(out):
                out[0] = same(1.5)

            return kernel

        keys = {cache.key(make(s).py_func) for s in (int32(int32), float32(float32))}
    assert len(keys) == 2


def test_the_best_of_several_signatures_is_taken():
    with installed():

        @cuda.jit(["void(float32[:], float32)", "void(float32[:], float64)"])
        def precise(out, x):
            out[0] = x - 2.0**24

        @cuda.jit(["void(float64[:], int32)", "void(float64[:], float64)"])
        def half(out, x):
            out[0] = x / 2

        out = np.zeros(1, np.float32)
        precise[1, 1](out, 2.0**24 + 1)
        assert out[0] == 1
        precise[1, 1](out, np.float32(2.0**24))
        assert out[0] == 0
        out = np.zeros(1)
        half[1, 1](out, 2.5)
        assert out[0] == 1.25
        half[1, 1](out, np.int8(3))
        assert out[0] == 1.5


def test_arguments_that_fit_two_signatures_alike_are_ambiguous():
    with installed():

        @cuda.jit([(float64[:], float32, float64), (float64[:], float64, float32)])
        def add(out, x, y):
            out[0] = x + y

        with pytest.raises(TypeError, match="Ambiguous overloading for"):
            add[1, 1](np.zeros(1), 1.0, 2.0)


def test_a_signature_freezes_the_globals():
    scope = {"FACTOR": 2, "TABLE": np.ones(1), "cuda": cuda}

    def kernel(out):
        out[0] = FACTOR * TABLE[0]  # noqa: F821

    function = type(kernel)(kernel.__code__, scope, "kernel")
    with installed():
        now, later = cuda.jit("void(float64[:])")(function), cuda.jit(function)
        scope["FACTOR"], scope["TABLE"][0] = 3, 5
        out = np.zeros(1)
        now[1, 1](out)
        assert out[0] == 2
        later[1, 1](out)
        assert out[0] == 15


def test_the_key_holds_what_a_function_within_reads(monkeypatch):
    def kernel(out):
        def scaled(x):
            return x * FACTOR

        out[0] = scaled(out[0])

    before = cache.key(kernel)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert cache.key(kernel) != before


@cuda.jit
def rounded(out, a):
    i = cuda.grid(1)
    out[i] = round(a[i], 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_to_digits_is_done_in_float64(dtype):
    """As Numba does on a GPU: multiplied, rounded to an even whole number, divided."""
    a = np.array([0.3425, 2.5, 1.0005, -2.67549], dtype)
    out = np.zeros_like(a)
    simt.compile(rounded)[1, 4](out, a)
    assert out.tolist() == [dtype(round(float(x) * 1000) / 1000) for x in a]
    assert out[0] == dtype(0.343 if dtype is np.float32 else 0.342)


@cuda.jit
def fields(points, out):
    i = cuda.grid(1)
    p = points[i]
    p.x += 1
    v = points[i].v
    cuda.syncthreads()
    for k in range(3):
        v[k] = k + p.x
    points[i]["v"][1] *= 10
    q = points[points.size - 1 - i]
    cuda.syncthreads()
    out[i] = q.v[1]


@pytest.mark.parametrize("run", [simt.compile, simt.check, simt.profile])
def test_a_record_is_a_name_for_its_element(run):
    points = np.zeros(8, POINT)
    points["x"] = np.arange(8)
    out = np.zeros(8)
    run(fields)[1, 8](points, out)
    x = np.arange(1, 9)
    assert points["x"].tolist() == x.tolist()
    assert points["v"].tolist() == [[n, 10 * (n + 1), n + 2] for n in x]
    assert out.tolist() == (10 * (x + 1))[::-1].tolist()


@cuda.jit(device=True)
def checked(x):
    if x < 0:
        raise ValueError("a negative number")
    return x


@cuda.jit
def raising(a):
    i = cuda.grid(1)
    a[i] = checked(a[i]) + 1


def test_an_exception_ends_the_launch_with_its_line_and_block():
    line = checked.py_func.__code__.co_firstlineno + 3
    with pytest.raises(simt.KernelError) as caught:
        simt.compile(raising)[3, 4](np.arange(7.0, -5, -1))
    problem = "raise ValueError('a negative number') (block 2)"
    assert str(caught.value) == f"test_language.py:{line}: raising: {problem}"
    a = np.ones(12)
    simt.compile(raising)[3, 4](a)
    assert (a == 2).all()


@cuda.jit
def locked(lock, counter):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    counter[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def locked_with_a_pause(lock, counter):
    while cuda.atomic.cas(lock, 0, 0, 1) == 1:
        cuda.nanosleep(32)
    counter[0] += 1
    lock[0] = 0


@pytest.mark.parametrize("kernel", [locked, locked_with_a_pause])
def test_a_lock_lets_one_thread_after_another_through(kernel):
    lock, counter = np.zeros(1, np.int32), np.zeros(1)
    simt.compile(kernel)[4, 32](lock, counter)
    assert counter[0] == 128 and lock[0] == 0
