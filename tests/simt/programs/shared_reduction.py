"""Manual, "Examples": a sum in shared memory, with ever fewer threads."""

import numpy as np
from numba import cuda
from numba.types import int32

values = cuda.to_device(np.arange(1024))
count = len(values)


@cuda.jit
def array_sum(data):
    thread = cuda.threadIdx.x
    size = len(data)
    if thread < size:
        i = cuda.grid(1)
        shared = cuda.shared.array(count, int32)
        shared[thread] = data[i]
        cuda.syncthreads()
        step = 1
        while step < cuda.blockDim.x:
            if thread % (2 * step) == 0:
                shared[thread] += shared[thread + step]
            step *= 2
            cuda.syncthreads()
        if thread == 0:
            data[thread] = shared[thread]


array_sum[1, count](values)
assert values[0] == sum(range(1024))
