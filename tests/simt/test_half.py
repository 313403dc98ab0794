"""float16 in kernels, against NumPy's and against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numba import cuda, types

from snref import simt
from snref.simt import half
from snref.simt.front.warps import HALF

HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)
FINITE = np.sort(HALVES[np.isfinite(HALVES)]).astype(np.float64)
TIES = (FINITE[1:] + FINITE[:-1]) / 2


@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


def launched(kernel, *arguments):
    """The last array, after a thread for each of its elements."""
    simt.compile(kernel)[-(-arguments[-1].size // 256), 256](*arguments)
    return arguments[-1]


def assert_same(found, expected):
    """The same bits, but for those of a NaN."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(
        np.signbit(found)[numbers], np.signbit(expected[numbers])
    )


def test_a_copy_keeps_the_bits_of_every_half():
    found = launched(copy, HALVES, np.zeros_like(HALVES))
    np.testing.assert_array_equal(found.view(np.uint16), HALVES.view(np.uint16))


@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_every_half_is_widened_as_it_is(wide):
    assert_same(launched(copy, HALVES, np.zeros(2**16, wide)), HALVES.astype(wide))


@pytest.mark.parametrize(("wide", "bits"), [("f4", "u4"), ("f8", "u8")])
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_wider_number_is_rounded_once_to_the_even_half(wide, bits):
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 2 ** (8 * int(wide[1])), 10**5, dtype=bits).view(wide)
    ties = np.append(TIES, [65520, -65520, 2.0**-25]).astype(wide)
    infinity = ties.dtype.type(np.inf)
    near = [ties, np.nextafter(ties, infinity), np.nextafter(ties, -infinity)]
    x = np.concatenate([*near, anything, HALVES.astype(wide)])
    assert_same(launched(copy, x, np.zeros(x.size, np.float16)), x.astype(np.float16))


OTHERS = [
    pytest.param(k, marks=pytest.mark.slow) for k in ("u1", "i2", "u2", "i4", "u4")
]


@pytest.mark.parametrize("kind", ["i1", "i8", "u8", *OTHERS])
@pytest.mark.filterwarnings("ignore:overflow")
def test_integers_become_halves_and_halves_the_nearest_integer(kind):
    limits = np.iinfo(kind)
    x = np.arange(max(limits.min, -70000), min(limits.max, 70000)).astype(kind)
    x = np.append(x, np.array([limits.min, limits.max], kind))
    assert_same(launched(copy, x, np.zeros(x.size, np.float16)), x.astype(np.float16))
    whole = [int(n) for n in np.rint(FINITE)]
    nearest = [min(max(n, limits.min), limits.max) for n in whole]
    found = launched(copy, FINITE.astype(np.float16), np.zeros(FINITE.size, kind))
    assert found.tolist() == nearest
    special = np.array([np.inf, -np.inf, np.nan], np.float16)
    found = launched(copy, special, np.ones(3, kind))
    assert found.tolist() == [limits.max, limits.min, 0]


@cuda.jit
def arithmetic(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] - b[i]
        out[2, i] = a[i] * b[i]
        out[3, i] = a[i] / b[i]
        out[4, i] = -a[i]
        out[5, i] = abs(a[i])
        out[6, i] = math.sqrt(a[i])
        out[7, i] = a[i]
        out[7, i] += b[i] * b[i]  # rounded twice


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operation_rounds_to_a_half():
    a, b = np.random.default_rng(1).choice(HALVES, (2, 10**5))
    found = np.zeros((8, a.size), np.float16)
    simt.compile(arithmetic)[-(-a.size // 256), 256](a, b, found)
    right = [a + b, a - b, a * b, a / b, -a, abs(a), np.sqrt(a), a + b * b]
    assert_same(found, np.stack(right))


@cuda.jit
def fused(a, b, c, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = cuda.fp16.hfma(a[i], b[i], c[i])


def test_hfma_rounds_the_exact_sum_once():
    rng = np.random.default_rng(2)
    near_one = (1 + rng.integers(0, 1024, (2, 2000)) / 1024).astype(np.float16)
    any_size = rng.choice(HALVES[np.abs(HALVES) < 200], (2, 2000))
    a, b = np.concatenate([near_one, any_size], axis=1)
    c = rng.choice(HALVES[np.isfinite(HALVES)], a.size)
    c[:2000:2] = np.float16(2.0**-24) * rng.choice([-1, 1], 1000)
    found = launched(fused, a, b, c, np.zeros_like(a))
    for i, y in enumerate(found):
        exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        assert y == nearest_half(exact)


def nearest_half(exact):
    """The half next to a fraction, the even one of two; infinite from 65520 on."""
    if abs(exact) >= 65520:
        return math.copysign(math.inf, exact)
    size = abs(exact)
    power = -14
    while size >= Fraction(2) ** (power + 1):
        power += 1
    unit = Fraction(2) ** (power - 10)
    return math.copysign(float(round(size / unit) * unit), exact)


@cuda.jit
def mixed(a, small, whole, single, double, out):
    out[0] = a / np.float16(3)
    out[1] = a / small
    out[2] = a / whole
    out[3] = a / single
    out[4] = a / double
    out[5] = float(a) / a * a / np.float16(3)
    out[6] = math.exp(a)
    out[7] = math.tan(a)
    out[8] = max(a, np.float16(2.5))
    out[9] = math.trunc(a)
    if a:
        out[10] = a > small and a < double


def test_what_a_mixed_operation_results_in():
    a = np.float16(1.1)
    given = np.int8(3), np.int32(3), np.float32(3), 3.0
    out = np.zeros(11)
    simt.compile(mixed)[1, 1](a, *given, out)
    third, wide = a / np.float16(3), float(a)
    singles = np.float32(a) / np.float32(3), np.tan(np.float32(a))
    right = [third, third, wide / 3, singles[0], wide / 3, third]
    right += [np.float16(math.exp(wide)), singles[1], 2.5, 1, 0]
    np.testing.assert_allclose(out, right, rtol=1e-7)


@cuda.jit
def everywhere(y, x, factor):
    s = cuda.shared.array(32, np.float16)
    own = cuda.local.array(1, types.float16)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    own[0] = s[31 - t] / factor
    y[i] = own[0] * cuda.fp16.hmax(-abs(x[i]), x[i] + np.float32(0.1))


PROFILE = pytest.param("profile", marks=pytest.mark.slow)


@pytest.mark.parametrize("mode", ["compile", "check", "debug", PROFILE])
def test_in_every_mode(mode):
    x = np.random.default_rng(3).normal(size=64).astype(np.float16)
    y, factor = np.zeros_like(x), np.float16(1.7)
    getattr(simt, mode)(everywhere)[2, 32](y, x, factor)
    own = x.reshape(2, 32)[:, ::-1].ravel() / factor
    most = np.maximum(-abs(x), (x + np.float32(0.1)).astype(np.float16))
    assert_same(y, own * most)


FEW = "hsin", "hmax", "hge"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in HALF],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_function_of_fp16_compiled_and_as_python(name):
    function = getattr(half, name)
    given = np.random.default_rng(4).normal(size=(50, HALF[name])).astype(np.float16)
    for numbers in given:
        assert_same(
            np.float16(function(*numbers)), np.float16(function.py_func(*numbers))
        )


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("hexp10", lambda x: 10.0**x),
        ("hrsqrt", lambda x: 1 / np.sqrt(x)),
        ("hrcp", np.reciprocal),
        *((f"h{n}", getattr(np, n)) for n in ("sin", "cos", "log", "log2", "log10")),
        *((f"h{n}", getattr(np, n)) for n in ("exp", "exp2", "floor", "ceil", "rint")),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_function_of_fp16_is_the_nearest_half(name, library):
    x = np.array([0.1, 0.5, 1, 2.5, 3.3, 700], np.float16)
    with np.errstate(all="ignore"):
        right = library(x.astype(float)).astype(np.float16)
    found = [getattr(half, name).py_func(n) for n in x]
    np.testing.assert_array_equal(found, right)
