"""Kernels and device functions that a program writes as text, of one name and file."""

import numpy as np
from numba import cuda

TEMPLATE = """
@cuda.jit(device=True)
def operate(a, b):
    return a {operator} b

@cuda.jit
def kernel(out, a, b):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = operate(a[i], b[i])
"""


def kernel_of(operator):
    scope = {"cuda": cuda}
    exec(TEMPLATE.format(operator=operator), scope)
    return scope["kernel"]


a, b = np.arange(40.0), np.arange(40.0) + 1
for operator, expected in {"+": a + b, "*": a * b, "-": a - b}.items():
    out = np.zeros(40)
    kernel_of(operator)[2, 32](out, a, b)
    np.testing.assert_array_equal(out, expected)

by_lambda = cuda.jit(device=True)(eval("lambda x: 2 * x + 1"))


@cuda.jit
def use(x):
    x[cuda.grid(1)] = by_lambda(x[cuda.grid(1)])


use[1, 32](a[:32])
np.testing.assert_array_equal(a[:32], 2 * np.arange(32.0) + 1)
