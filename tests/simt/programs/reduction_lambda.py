"""Manual, "GPU Reduction": a lambda as the operation."""

import numpy as np
from numba import cuda

largest = cuda.reduce(lambda a, b: max(a, b))
array = np.random.default_rng(0).integers(0, 10**6, 999)
assert largest(array) == array.max()
assert largest(np.zeros(0, np.int64)) == 0
