"""Manual, "Random Number Generation": pi from points in a square."""

import numpy as np
from numba import cuda
from numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_uniform_float32,
)


@cuda.jit
def quarter_circle(states, iterations, out):
    thread = cuda.grid(1)
    inside = 0
    for _ in range(iterations):
        x = xoroshiro128p_uniform_float32(states, thread)
        y = xoroshiro128p_uniform_float32(states, thread)
        if x**2 + y**2 <= 1.0:
            inside += 1
    out[thread] = 4.0 * inside / iterations


threads, blocks = 64, 24
states = create_xoroshiro128p_states(threads * blocks, seed=1)
out = np.zeros(threads * blocks, np.float32)
quarter_circle[blocks, threads](states, 1000, out)
assert abs(out.mean() - np.pi) < 0.01
