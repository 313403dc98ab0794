"""Manual, "CUDA Ufuncs": a generalised ufunc, the product of matrices."""

import numpy as np
from numba import guvectorize


@guvectorize(
    ["void(float32[:,:], float32[:,:], float32[:,:])"],
    "(m,n),(n,p)->(m,p)",
    target="cuda",
)
def product(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            total = np.float32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


product.max_blocksize = 32
random = np.random.default_rng(0)
a = random.random((5, 3, 4)).astype(np.float32)
b = random.random((5, 4, 2)).astype(np.float32)
np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-6)
