"""Manual, "Examples": one function for the CPU and for kernels."""

from math import pi

import numba
import numpy as np
from numba import cuda

x = cuda.to_device([1, 10, 234])
y = cuda.to_device([2, 2, 4014])
z = cuda.to_device([3, 14, 2211])
results = cuda.to_device([0.0, 0.0, 0.0])


@numba.jit
def business_logic(x, y, z):
    return 4 * z * (2 * x - (4 * y) / 2 * pi)


@cuda.jit
def apply(out, xs, ys, zs):
    i = cuda.grid(1)
    if i < len(xs):
        out[i] = business_logic(xs[i], ys[i], zs[i])


apply.forall(len(x))(results, x, y, z)
expected = [business_logic(*arguments) for arguments in zip(x, y, z, strict=True)]
np.testing.assert_allclose(results.copy_to_host(), expected, rtol=1e-15)
