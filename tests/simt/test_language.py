"""What a kernel may be written with besides control flow (see test_torture.py): types
that signatures declare, records, exceptions, locks, globals, functions as values."""

import cmath
import math
from collections import namedtuple
from enum import Enum, IntEnum

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

    @cuda.jit([float32(float32), int32(int32)], device=True)
    def of_two_types(x):
        return x * 1.1

    @cuda.jit(["(int64[:], int64)", "(float64, int64)"], device=True)
    def of_arrays_too(x, y):
        return y


@cuda.jit
def sums(out, a):
    out[0] = whole_sum(1.7, a[0]) * 2.0
    out[1] = byte_sum(200, 100)


@cuda.jit
def of_several(out, a):
    out[0] = of_two_types(int32(17))
    out[1] = of_two_types(float32(1.5))
    out[2] = of_two_types(a[0])


@cuda.jit
def of_no_number(out):
    out[0] = of_arrays_too(out, 1)


def test_arguments_and_result_of_a_device_function_get_the_types_declared():
    out = np.zeros(2)
    simt.compile(sums)[1, 1](out, np.array([2.9]))
    assert out.tolist() == [6, 44]


@pytest.mark.parametrize("mode", [simt.compile, simt.check])
def test_the_signature_that_fits_arguments_best_converts_them_and_the_result(mode):
    out = np.zeros(3)
    mode(of_several)[1, 1](out, np.array([3], np.int16))
    assert out.tolist() == [18, np.float32(1.5 * 1.1), 3]


def test_arguments_that_no_signature_fits_are_refused():
    with pytest.raises(simt.KernelError, match="of_two_types has no signature for"):
        simt.compile(of_several)[1, 1](np.zeros(3), np.array([1j]))


def test_signatures_that_differ_in_what_is_a_number_are_refused():
    with pytest.raises(simt.KernelError, match="of_arrays_too has several signatures"):
        simt.compile(of_no_number)[1, 1](np.zeros(1))


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
        out[0] = FACTOR * TABLE[0]

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


# ------------------------------------------------------------------ as Python has it


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 10


class Settings:
    WIDTH = 5

    class Inner:
        DEPTH = 7


Point = namedtuple("Point", "x y")
MATRIX = ((1, 2), (3, 4.5))
EDGES = (math.inf, -math.inf, math.nan, 2.5)
ORIGIN = Point(3, np.float32(4.5))
MODE = "fast"
TABLE = np.arange(5.0)
twice = cuda.jit(device=True)(lambda x: x * 2)


@cuda.jit(device=True)
def digits(x, y=FACTOR, *, z=3):
    return x * 100 + y * 10 + z


@cuda.jit(device=True)
def how_many(x, *rest):
    total = x * 10 + len(rest)
    for r in rest:
        total += r
    return total


@cuda.jit(device=True)
def apply(f, x, then=twice):
    return then(f(x))


@cuda.jit(device=True)
def count(counter, i):
    return cuda.atomic.add(counter, i, 1)


@cuda.jit(device=True)
def mirrored(p):
    return Point(p.y, p.x)


@cuda.jit
def default_and_keyword_arguments(a):
    a[0] = digits(1)
    a[1] = digits(1, 4)
    a[2] = digits(z=5, x=1, y=4)


@cuda.jit
def any_number_of_arguments(a):
    t = 4, 5
    a[0] = how_many(1)
    a[1] = how_many(1, 2, 3)
    a[2] = how_many(*t, *MATRIX[0])
    a[3] = max(*t, 3) + how_many(*divmod(17, 5))
    a[4] = complex(*cmath.polar(3 + 4j)).real
    k = 1
    a[5] = k + (k := 5) * 2 if (z := a[4]) > 3 else z


@cuda.jit
def functions_as_arguments(a):
    def half(x):
        return x / 2

    f = math.sqrt
    add = cuda.atomic.add
    a[0] = apply(f, 16.0)
    a[1] = apply(lambda x: x + a[0], 1.0)
    a[2] = apply(half, 3, then=half)
    a[3] = apply(float32, 0.1, then=abs)
    add(a, 4, 3)
    a[5] = count(a, 4) + twice(2)


@cuda.jit
def members_of_enumerations(a):
    c = Colour.RED
    if c == Colour.RED and c != Colour.BLUE:
        a[0] = 1
    if c is Colour.BLUE:
        a[0] = 2
    a[1] = Size.LARGE + Size.SMALL
    a[2] = Size.SMALL < Size.LARGE
    a[3] = Size.LARGE.value + Size["SMALL"]
    if c == Colour["RED"]:
        a[5] = Colour["BLUE"] == Colour.BLUE
    match a[1]:
        case Size.SMALL:
            a[4] = 1
        case 11:
            a[4] = 2


@cuda.jit
def frozen_attributes(a):
    a[0] = Settings.WIDTH + Settings.Inner.DEPTH
    a[1] = MATRIX[1][1] + MATRIX[-1][0]
    a[2] = ORIGIN.x + ORIGIN[1]
    t = TABLE
    a[3] = t[2] + t[-1]
    for i in range(4):
        a[4 + i] = EDGES[i]
    if MODE == "fast":
        a[8] = 1
    a[9] = math.inf - math.inf


@cuda.jit
def named_tuples(a):
    p = Point(1, y=3)
    q = mirrored(p)
    x, y = q
    a[0] = p.x + 10 * p.y + 100 * q.x + 1000 * q[1]
    a[1] = x - y + len(p)
    for i, part in enumerate(q):
        a[2 + i] = part


@cuda.jit
def several_targets(a):
    x = y = a[0] + 2
    x += 1
    a[1] = a[2] = x + y
    i = j = 3
    a[i], a[j + 1] = i, j
    z: int
    z = 7
    a[5] = z
    del z


@cuda.jit
def functions_of_math(a):
    x = a[0] + 5.75
    a[1], a[2] = math.modf(-x)
    a[3] = math.fmod(-x, 2.5)
    for i in range(8):
        a[4 + i] = math.remainder(i - 4, 1.5 + i % 2)
    a[12] = math.remainder(3.0, 2.0) + math.remainder(5.0, 2.0)
    a[13] = math.copysign(1.0, math.remainder(-4.0, 2.0))


@cuda.jit(device=True)
def filled(shape, kind, value):
    s = cuda.shared.array(shape, kind)
    s[0, 0] = value
    first, last = s[0], s[-1]
    last[-1] = first[0] + shape[1]
    return s[shape[0] - 1, shape[1] - 1]


@cuda.jit
def shape_as_an_argument(a):
    a[0] = filled((2, 3), float32, 1)


@cuda.jit
def types_by_other_names(a):
    kind = float32
    s = cuda.shared.array(2, kind)
    r = cuda.local.array(2, a.dtype)
    w = cuda.local.array(2, "uint8")
    s[0] = 0.1
    r[0] = 0.1
    w[0] = 200
    w[0] += 100
    a[0], a[1], a[2] = s[0], r[0], w[0]


@cuda.jit
def dots_for_the_other_indices(a):
    s = cuda.local.array((2, 3), float32)
    s[...] = 1
    s[..., 2] = 5
    s[1, ...] = 7
    s[0, 1, ...] = 8
    a[0], a[1], a[2] = s[..., 2][0], s[0, ...][0], s[1, 1]
    for x in s[..., 1]:
        a[3] += x


SPOKEN = [
    dots_for_the_other_indices,
    default_and_keyword_arguments,
    any_number_of_arguments,
    functions_as_arguments,
    members_of_enumerations,
    frozen_attributes,
    named_tuples,
    several_targets,
    functions_of_math,
    types_by_other_names,
    shape_as_an_argument,
]


@pytest.mark.parametrize("kernel", SPOKEN, ids=lambda k: k.__name__)
def test_a_kernel_says_what_python_says(kernel):
    compiled, python = np.zeros(16), np.zeros(16)
    simt.compile(kernel)[1, 1](compiled)
    simt.debug(kernel)[1, 1](python)
    np.testing.assert_array_equal(compiled, python)


@cuda.jit
def at(a, i):
    a[i] = a[i + 1] + 1


def test_an_array_without_dimensions_is_an_index():
    a = np.arange(3.0)
    simt.compile(at)[1, 1](a, np.array(1))
    assert a.tolist() == [0, 3, 2]
    simt.compile(at)[1, 1](a, np.array(-2))
    assert a.tolist() == [0, 3, 2]


@cuda.jit
def talking(a):
    i = cuda.threadIdx.x
    print(f"{{thread {i}}} of {cuda.blockDim.x}: {a[i]:6.2f}", a[i], "done", f"{i!r}")


def test_print_takes_formatted_strings(capfd):
    simt.compile(talking)[1, 2](np.array([1.5, 20]))
    assert capfd.readouterr().out.splitlines() == [
        "{thread 0} of 2:   1.50 1.5 done 0",
        "{thread 1} of 2:  20.00 20.0 done 1",
    ]


@cuda.jit
def with_defaults(a, x=FACTOR, y=3):
    a[0] = x * 10 + y


@cuda.jit
def of_any_number(a, *rest):
    for x in rest:
        a[0] += x


@pytest.mark.parametrize("run", [simt.compile, simt.check, simt.debug])
def test_a_launch_may_leave_out_arguments_and_name_them(run):
    a = np.zeros(1)
    run(with_defaults)[1, 1](a)
    assert a[0] == 23
    run(with_defaults)[1, 1](a, y=5)
    assert a[0] == 25
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        run(with_defaults)[1, 1](y=5)
    run(of_any_number)[1, 1](a, 1.0, 2.5)
    assert a[0] == 28.5


def test_the_key_holds_attributes_defaults_and_members(monkeypatch):
    def keys():
        return [cache.key(k.py_func) for k in SPOKEN]

    before = keys()
    monkeypatch.setattr(Settings, "WIDTH", 6)
    monkeypatch.setattr(digits.py_func, "__defaults__", (9,))
    now = keys()
    changed = {
        k.__name__ for k, x, y in zip(SPOKEN, before, now, strict=True) if x != y
    }
    assert changed == {"frozen_attributes", "default_and_keyword_arguments"}


@cuda.jit(device=True)
def through_tile(a, shape, kind):
    tile = cuda.shared.array(shape, kind)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[x, y] = a[x, y]
    cuda.syncthreads()
    a[x, y] = tile[shape[0] - 1 - x, y]


@cuda.jit
def turned_over(a):
    through_tile(a, (4, 2), float64)


@pytest.mark.parametrize("run", [simt.compile, simt.check, simt.debug])
def test_a_shape_may_be_handed_to_a_device_function(run):
    a = np.arange(8.0).reshape(4, 2)
    b = a.copy()
    run(turned_over)[1, (4, 2)](b)
    assert (b == a[::-1]).all()


class Answer(IntEnum):
    YES, NO = 5, 6


@cuda.jit(device=True)
def first_positive(a, b, i):
    """Returns an element, or what a function returns, on each of its paths."""
    for k in range(2):
        if a[i, k] > 0:
            return a[i, k]
    if b[i] > 8:
        return Answer["YES"]
    elif b[i] > 6:
        return Answer.NO
    return abs(b[i])


@cuda.jit(device=True)
def pair_of(a, b, i):
    if a[i, 0] > 0:
        return a[i, 0], a[i, 1]
    return b[i], 1


@cuda.jit
def results_of_paths(out, a, b):
    i = cuda.grid(1)
    x, y = pair_of(a, b, i)
    out[i] = first_positive(a, b, i) + 10 * x + 100 * y


@pytest.mark.parametrize("mode", [simt.compile, simt.check, simt.debug])
def test_each_path_of_a_device_function_gives_its_own_result(mode):
    a = np.array([[1, 2], [-1, 3], [-1, -1], [-1, -1], [-1, -1]])
    b, out = np.array([0, 0, -4, 7, 9]), np.zeros(5, np.int64)
    mode(results_of_paths)[1, 5](out, a, b)
    assert out.tolist() == [211, 103, 64, 176, 195]


ALIGNED = np.dtype([("x", np.float32), ("v", np.int16, 3)], align=True)
PACKED = np.dtype([("a", np.int8), ("x", np.float64)])


@cuda.jit(device=True)
def element(a, i):
    return a[i]


@cuda.jit(device=True)
def neighbours(a, i):
    return a[i], a[i + 1]


@cuda.jit
def records_in_arrays_of_the_kernel(out, a, b):
    s = cuda.shared.array(32, ALIGNED)
    own = cuda.local.array(2, PACKED)
    t = cuda.threadIdx.x
    s[t] = a[t]
    own[1] = b[0]
    cuda.syncthreads()
    out[t] = element(s, 31 - t).v[1] + own[1].x
    here = element(a, t)
    first, second = neighbours(a, 0)
    out[t] += here.x + first.x + second.x


def test_records_in_shared_and_local_arrays_and_from_device_functions():
    a, b, out = np.zeros(32, ALIGNED), np.zeros(1, PACKED), np.zeros(32)
    a["x"], a["v"][:, 1], b["x"] = np.arange(32) * 1000, np.arange(32), 0.5
    simt.compile(records_in_arrays_of_the_kernel)[1, 32](out, a, b)
    t = np.arange(32)
    assert out.tolist() == (31 - t + 0.5 + 1000 * t + 1000).tolist()


@cuda.jit
def loop_over_vectors(out, a):
    t = cuda.threadIdx.x
    one, two = cuda.float32x2(1, 2), cuda.float32x2(a[t], t)
    for k, v in enumerate((one, two, one)):
        out[t] += (k + 1) * (v.x + 10 * v.y)
    for v in (cuda.float32x3(0, 0, 100),):
        out[t] += v.z
    cuda.cg.this_grid()


@pytest.mark.parametrize("mode", [simt.compile, simt.check])
def test_a_loop_runs_over_vectors(mode):
    out = np.zeros(2)
    mode(loop_over_vectors)[1, 2](out, np.array([4.0, 5.0]))
    assert out.tolist() == [192, 214]


@cuda.jit
def whole_logarithms(a, out, more):
    np.log(a, out)
    np.exp(a, more)


def test_exp_and_log_of_whole_arrays():
    a = np.array([1.0, 2.0])
    out, more = np.zeros(2), np.zeros(2)
    simt.compile(whole_logarithms)[1, 1](a, out, more)
    assert np.allclose([out, more], [np.log(a), np.exp(a)], rtol=1e-15)


@cuda.jit
def take_a_place(a, taken):
    a[cuda.atomic.add(taken, 0, 1)] += 1


@cuda.jit
def take_a_place_in_a_row(a, taken):
    a[0, cuda.atomic.add(taken, 0, 1)] -= 1


@pytest.mark.parametrize("way", [simt.compile, simt.check, simt.profile, simt.debug])
def test_an_index_that_is_read_and_written_is_computed_once(way):
    a, taken = np.zeros(16, np.int64), np.zeros(1, np.int64)
    way(take_a_place)[1, 8](a, taken)
    way(take_a_place_in_a_row)[1, 4](a.reshape(1, 16), taken)
    assert taken[0] == 12
    assert a.tolist() == [1] * 8 + [-1] * 4 + [0] * 4


class Shape(Enum):
    ROUND = 1.5
    FLAT = 3.5


@cuda.jit
def stores_a_member(a):
    a[0] = Colour.RED


@cuda.jit
def adds_to_a_member(a):
    a[0] = Shape.FLAT + 1


@cuda.jit
def orders_members(a):
    a[0] = 1 if Shape.ROUND < Shape.FLAT else 2


@cuda.jit
def compares_members(a):
    i = cuda.grid(1)
    mine = Shape.ROUND if i < 2 else Shape.FLAT
    a[i] = 10 if mine == Shape.ROUND else 20
    if Shape.ROUND == Colour.RED or Shape.FLAT is not Shape.FLAT:
        a[i] += 1


def test_members_of_an_enum_are_compared_and_are_no_numbers():
    for way in (simt.compile, simt.check):
        a = np.zeros(4, np.int64)
        way(compares_members)[1, 4](a)
        assert a.tolist() == [10, 10, 20, 20]
        for kernel in (stores_a_member, adds_to_a_member, orders_members):
            with pytest.raises(simt.KernelError, match=r"Colour\.RED|FLAT|no order"):
                way(kernel)[1, 1](a)
