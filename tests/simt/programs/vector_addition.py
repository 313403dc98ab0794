"""Manual, "Examples": vector addition, by `forall` and by hand."""

import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < len(c):
        c[i] = a[i] + b[i]


random = np.random.default_rng(1)
a = cuda.to_device(random.random(100_000))
b = cuda.to_device(random.random(100_000))
expected = a.copy_to_host() + b.copy_to_host()

c = cuda.device_array_like(a)
add.forall(len(a))(a, b, c)
np.testing.assert_equal(c.copy_to_host(), expected)

c = cuda.device_array_like(a)
threads = 256
add[len(a) // threads + 1, threads](a, b, c)
np.testing.assert_equal(c.copy_to_host(), expected)
