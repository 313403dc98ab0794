"""Manual, "Supported Python features": print in a kernel."""

import numpy as np
from numba import cuda


@cuda.jit
def hello(x):
    i = cuda.grid(1)
    if i < x.size:
        print("element", i, x[i])


hello[1, 4](np.arange(3.0))
cuda.synchronize()
