"""Manual, "CUDA Array Interface": objects of another library as arguments."""

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    start, stride = cuda.grid(1), cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        out[i] = x[i] + y[i]


class Wrapped:
    """An array of "another library", over the memory of a device array."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


a = Wrapped(cuda.to_device(np.arange(100)))
b = Wrapped(cuda.to_device(2 * np.arange(100)))
out = Wrapped(cuda.device_array(100, np.int64))
add[1, 32](a, b, out)
assert cuda.is_cuda_array(out) and not cuda.is_cuda_array(np.zeros(3))
view = cuda.as_cuda_array(out)
assert (view.copy_to_host() == 3 * np.arange(100)).all()
view[0] = 41
assert out.array[0] == 41
