"""Manual, "Memory management": disjoint views of dynamic shared memory."""

import numpy as np
from numba import cuda


@cuda.jit
def both(reals_out, integers_out):
    reals = cuda.shared.array(0, dtype=np.float32)
    integers = cuda.shared.array(0, dtype=np.int32)[1:]
    reals[0] = 3.14
    integers[0] = 1
    reals_out[0] = reals[0]
    integers_out[0] = integers[0]


reals, integers = np.zeros(1, np.float32), np.zeros(1, np.int32)
both[1, 1, 0, 8](reals, integers)
assert reals[0] == np.float32(3.14) and integers[0] == 1
