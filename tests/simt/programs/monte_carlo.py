"""Manual, "Examples": an integral by random samples and a reduction."""

import numba
import numpy as np
from numba import cuda
from numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_uniform_float32,
)


@numba.jit
def integrand(x):
    return 1.0 / x


@cuda.jit
def sample(out, states, low, high):
    i = cuda.grid(1)
    if i < len(out):
        x = xoroshiro128p_uniform_float32(states, i)
        out[i] = integrand(x * (high - low) + low)


@cuda.reduce
def total(a, b):
    return a + b


def integrate(low, high, samples):
    out = cuda.to_device(np.zeros(samples, dtype="float32"))
    states = create_xoroshiro128p_states(samples, seed=42)
    sample.forall(samples)(out, states, low, high)
    return total(out) * (high - low) / (samples - 1)


np.testing.assert_allclose(integrate(1, 2, 100_000), np.log(2), atol=0.003)
np.testing.assert_allclose(integrate(2, 3, 100_000), np.log(1.5), atol=0.003)
