"""Arguments of a launch: In, Out, InOut, numbers by signature, several signatures."""

import numpy as np
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
        x[i] = 0


x, y = np.arange(10.0), np.zeros(10)
double[1, 32](cuda.In(x), cuda.Out(y))
assert (x == np.arange(10)).all() and (y == 2 * x).all()
double[1, 32](cuda.InOut(x), y)
assert (x == 0).all()


@cuda.jit("void(float32[:], int32)")
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


x = np.zeros(10, np.float32)
fill[1, 32](x, 2**32 + 3)
assert (x == 3).all()


@cuda.jit(["void(int32[:])", "void(float64[:])"])
def halve(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] / 2


for dtype in (np.int32, np.float64):
    x = np.full(3, 3, dtype)
    halve[1, 32](x)
    assert (x == dtype(1.5)).all()
