"""Manual, "Random Number Generation": a fixed grid strides over a large array."""

import numpy as np
from numba import cuda
from numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_uniform_float32,
)


@cuda.jit
def fill(array, states):
    x, y, z = cuda.grid(3)
    step_x, step_y, step_z = cuda.gridsize(3)
    thread = z * step_y * step_x + y * step_x + x
    for i in range(z, array.shape[0], step_z):
        for j in range(y, array.shape[1], step_y):
            for k in range(x, array.shape[2], step_x):
                array[i, j, k] = xoroshiro128p_uniform_float32(states, thread)


grid, block = (2, 2, 2), (8, 8, 8)
states = create_xoroshiro128p_states(8 * 512, seed=1)
array = cuda.device_array((31, 40, 29), dtype=np.float32)
fill[grid, block](array, states)
host = array.copy_to_host()
assert 0.49 < host.mean() < 0.51
assert (host >= 0).all() and (host <= 1).all()
assert np.unique(host).size > 0.99 * host.size
