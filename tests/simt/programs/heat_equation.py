"""Manual, "Examples": the heat equation in one dimension, a grid that synchronises."""

import numpy as np
from numba import cuda


@cuda.jit
def solve(first, second, steps, k):
    i = cuda.grid(1)
    if i >= len(first):
        return
    grid = cuda.cg.this_grid()
    for step in range(steps):
        if step % 2 == 0:
            now, later = first, second
        else:
            now, later = second, first
        here = now[i]
        if i == 0:
            value = here + k * (now[i + 1] - 2 * here)
        elif i == len(now) - 1:
            value = here + k * (now[i - 1] - 2 * here)
        else:
            value = here + k * (now[i - 1] - 2 * here + now[i + 1])
        later[i] = value
        grid.sync()


size = 1001
data = np.zeros(size)
data[size // 2] = 10_000
first = cuda.to_device(data)
second = cuda.device_array_like(first)
solve.forall(size)(first, second, 1000, 0.25)

expected = data.copy()
for _ in range(1000):
    left = np.concatenate([[0], expected[:-1]])
    right = np.concatenate([expected[1:], [0]])
    expected = expected + 0.25 * (left - 2 * expected + right)
np.testing.assert_allclose(first.copy_to_host(), expected, atol=1e-9)
