"""Manual, "CUDA Ufuncs": a ufunc that calls a device function."""

import numpy as np
from numba import cuda, vectorize


@cuda.jit("float32(float32, float32, float32)", device=True, inline=True)
def power_over(x, y, z):
    return x**y / z


@vectorize(["float32(float32, float32, float32)"], target="cuda")
def elementwise(x, y, z):
    return power_over(x, y, z)


x = np.linspace(1, 2, 100, dtype=np.float32)
expected = x**x / 2
np.testing.assert_allclose(elementwise(x, x, np.float32(2)), expected, rtol=1e-6)
on_device = elementwise(cuda.to_device(x), x, np.float32(2))
np.testing.assert_allclose(on_device.copy_to_host(), expected, rtol=1e-6)
out = cuda.device_array_like(x)
elementwise(cuda.to_device(x), x, np.float32(2), out=out, stream=cuda.stream())
np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-6)
