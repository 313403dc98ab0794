"""The functions of `numba.cuda.libdevice`, against NumPy's and `math`'s."""

import math

import numpy as np
import pytest
from numba import cuda
from numba.cuda import libdevice
from numba.cuda.libdevice import fast_expf

from snref import simt
from snref.simt.libdevice import FUNCTIONS, NUMBERS


@cuda.jit
def several(out, x):
    i = cuda.threadIdx.x
    out[0, i], out[1, i] = libdevice.sincosf(x[i])
    digits, power = libdevice.frexp(x[i])
    out[2, i] = digits * 2**power
    out[3, i] = fast_expf(x[i]) * cuda.libdevice.rsqrtf(x[i])
    out[4, i] = libdevice.sad(i, 5, 1)
    out[5, i] = libdevice.fmaf(x[i], x[i], -1)


@pytest.mark.parametrize("mode", ["compile", "debug"])
def test_a_kernel_calls_libdevice(mode):
    x = np.linspace(0.5, 3, 8, dtype=np.float32)
    out = np.zeros((6, 8), np.float32)
    getattr(simt, mode)(several)[1, 8](out, x)
    right = [np.sin(x), np.cos(x), x, np.exp(x) / np.sqrt(x)]
    right += [abs(np.arange(8) - 5) + 1, x * x - 1]
    np.testing.assert_allclose(out, right, rtol=1e-5)


@cuda.jit
def lacks_an_argument(a):
    a[0] = libdevice.powf(a[1])


@cuda.jit
def not_here(a):
    a[0] = libdevice.j0(a[1])


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (lacks_an_argument, r"libdevice.powf takes 2 arguments, not 1"),
        (not_here, r"libdevice.j0 is not supported by the compiled CPU device"),
    ],
)
def test_what_is_refused(kernel, says):
    with pytest.raises(simt.KernelError, match=says):
        simt.compile(kernel)[1, 1](np.zeros(2))


OTHERS = {
    "exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "fma": lambda x, y, z: x * y + z,
    "fdivide": lambda x, y: x / y,
    "sad": lambda x, y, z: abs(x - y) + z,
    "sincos": lambda x: (math.sin(x), math.cos(x)),
    "max": max,
    "min": min,
    "abs": abs,
}


def reference(name):
    """Python's function of the same name, and whether this one is of float32."""
    double = name.removeprefix("fast_")
    for plain in (double, double.removesuffix("f")):
        for known in (OTHERS, vars(math), vars(np)):
            if plain in known:
                return plain, known[plain], plain != double
    raise KeyError(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
def test_each_function_is_what_its_name_says(name):
    plain, right, single = reference(name)
    rng = np.random.default_rng(0)
    for _ in range(20):
        given = rng.uniform(0.1, 0.9, NUMBERS[name]) + (plain == "acosh")
        if plain in ("sad", "max", "min", "abs"):
            given = rng.integers(-9, 9, NUMBERS[name])
        found = FUNCTIONS[name](*given)
        digits = 1e-5 if single else 1e-12
        np.testing.assert_allclose(found, right(*given.tolist()), rtol=digits)
