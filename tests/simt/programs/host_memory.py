"""Manual, "Memory management": pinned, mapped and managed memory."""

import numpy as np
from numba import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


pinned = cuda.pinned_array(100, dtype=np.float32)
pinned[:] = 3
device = cuda.to_device(pinned)
fill[4, 32](device, 5)
device.copy_to_host(pinned)
assert (pinned == 5).all()

mapped = cuda.mapped_array(100)
fill[4, 32](mapped, 6)
cuda.synchronize()
assert (mapped == 6).all()

managed = cuda.managed_array(100, dtype=np.int32)
fill[4, 32](managed, 7)
cuda.synchronize()
assert (managed == 7).all()

assert cuda.pinned_array_like(pinned).shape == (100,)
assert cuda.mapped_array_like(mapped).dtype == np.float64

host = np.zeros(50)
with cuda.pinned(host):
    cuda.to_device(host)
with cuda.mapped(host) as view:
    fill[2, 32](view, 8)
assert (host == 8).all()
