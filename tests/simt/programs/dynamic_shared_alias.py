"""Manual, "Memory management": all dynamic shared arrays are the same memory."""

import numpy as np
from numba import cuda


@cuda.jit
def reinterpret(out):
    reals = cuda.shared.array(0, dtype=np.float32)
    integers = cuda.shared.array(0, dtype=np.int32)
    reals[0] = 3.14
    out[0] = integers[0]


out = np.zeros(1, np.int32)
reinterpret[1, 1, 0, 4](out)
assert out[0] == np.float32(3.14).view(np.int32)
