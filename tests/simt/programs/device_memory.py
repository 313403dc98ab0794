"""Manual, "Memory management": explicit copies, views, layout."""

import numpy as np
from numba import cuda


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


host = np.arange(1000)
device = cuda.to_device(host)
double[10, 100](device)
assert (host == np.arange(1000)).all()
assert (device.copy_to_host() == 2 * host).all()

into = np.zeros_like(host)
assert device.copy_to_host(into) is into
assert (into == 2 * host).all()

matrix = device.reshape(20, 50)
assert matrix.is_c_contiguous() and not matrix.is_f_contiguous()
assert matrix[3, 7] == 2 * host.reshape(20, 50)[3, 7]
assert matrix[2:4].copy_to_host().shape == (2, 50)
assert matrix.ravel().shape == (1000,)
assert (matrix.T.copy_to_host() == 2 * host.reshape(20, 50).T).all()

device[:10] = 7
device[-1] = 8
assert (device.copy_to_host()[:10] == 7).all() and device[-1] == 8
device.copy_to_device(host)
assert (np.asarray(device) == host).all()

columns = cuda.to_device(np.asfortranarray(np.ones((3, 4))))
assert columns.is_f_contiguous()
assert cuda.device_array_like(columns).is_f_contiguous()
assert [part.size for part in device.split(400)] == [400, 400, 200]
