"""Manual, "CUDA-Specific Types": vectors of two numbers."""

import numpy as np
from numba import cuda
from numba.cuda import float32x2


@cuda.jit
def dot(out):
    v = float32x2(1.0, 2.0)
    w = float32x2(3.0, -1.0)
    out[0] = v.x * w.x + v.y * w.y


out = np.zeros(1, np.float32)
dot[1, 1](out)
assert out[0] == 1
