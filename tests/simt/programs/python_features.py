"""The Python that the manual lists: math, cmath, operator, complex numbers, enums."""

import cmath
import math
import operator
from enum import IntEnum

import numpy as np
from numba import cuda


class Colour(IntEnum):
    RED = 1
    GREEN = 2


@cuda.jit
def features(x, out, phases):
    i = cuda.grid(1)
    if i < x.size:
        out[i, 0] = math.hypot(x[i], 1.0) + math.erf(x[i]) + math.copysign(1.0, -x[i])
        out[i, 1] = operator.add(x[i], operator.mul(2.0, x[i]))
        out[i, 2] = Colour.GREEN if x[i] > 0.5 else Colour.RED
        out[i, 3] = round(abs(-x[i])) + pow(x[i], 2) + int(x[i]) + bool(i)
        phases[i] = cmath.exp(complex(0.0, x[i]))


x = np.linspace(0.1, 0.9, 9)
out, phases = np.zeros((9, 4)), np.zeros(9, np.complex128)
features[1, 32](x, out, phases)
expected = [math.hypot(v, 1) + math.erf(v) - 1 for v in x]
np.testing.assert_allclose(out[:, 0], expected)
np.testing.assert_allclose(out[:, 1], 3 * x)
assert (out[:, 2] == np.where(x > 0.5, 2, 1)).all()
np.testing.assert_allclose(out[:, 3], np.round(x) + x**2 + (np.arange(9) > 0))
np.testing.assert_allclose(phases, np.exp(1j * x))
