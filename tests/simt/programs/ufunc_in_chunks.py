"""Manual, "CUDA Ufuncs": a chunk at a time, and the reduction of a ufunc."""

import numpy as np
from numba import cuda, vectorize


@vectorize(["float64(float64, float64)"], target="cuda")
def add(a, b):
    return a + b


n, chunks = 1000, 10
a, b = np.arange(n, dtype=np.float64), np.ones(n)
out = np.empty(n)
stream = cuda.stream()
with stream.auto_synchronize():
    for x, y, z in zip(*(np.split(v, chunks) for v in (a, b, out)), strict=True):
        device_x = cuda.to_device(x, stream)
        device_y = cuda.to_device(y, stream)
        device_z = cuda.to_device(z, stream, copy=False)
        add(device_x, device_y, out=device_z, stream=stream)
        device_z.copy_to_host(z, stream)
assert (out == a + 1).all()
assert add.reduce(a) == a.sum()
