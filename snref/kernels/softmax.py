"""Softmax and its cross-entropy (Bridle 1990); a block goes over rows, one an image.

Occupancy: at least 31 %. The loops over a row are unrolled, with the polynomials of
several exponentials under way together.
"""

import math

from numba import cuda, float32

from snref.kernels.elementary import negative_exp
from snref.kernels.reduction import block_max, block_sum

THREADS = 128  # of a block


@cuda.jit(device=True)
def row_max(part, x, n):
    """Return max_k x[n,k] to each thread of the block, by way of the shared `part`."""
    highest = float32(-math.inf)
    for k in range(cuda.threadIdx.x, x.shape[1], THREADS):
        highest = max(highest, x[n, k])
    return block_max(part, highest, cuda.threadIdx.x, THREADS)


@cuda.jit
def forward(y, x):
    """y[n,k] = exp(x[n,k] - h[n]) / sum_j exp(x[n,j] - h[n]), h[n] = max_j x[n,j]."""
    part = cuda.shared.array(THREADS, float32)
    N, K = x.shape
    tx = cuda.threadIdx.x
    for n in range(cuda.blockIdx.x, N, cuda.gridDim.x):
        top = row_max(part, x, n)
        total = float32(0)
        for k in range(tx, K, THREADS):
            power = negative_exp(x[n, k] - top)
            y[n, k] = power
            total += power
        total = block_sum(part, total, tx, THREADS)
        for k in range(tx, K, THREADS):
            y[n, k] = y[n, k] / total


@cuda.jit
def losses(loss, x, labels):
    """loss[n] = log sum_j exp(x[n,j] - h[n]) + h[n] - x[n,labels[n]]

    = -log y[n,labels[n]], without the rounding to zero that y may suffer.
    """
    part = cuda.shared.array(THREADS, float32)
    N, K = x.shape
    tx = cuda.threadIdx.x
    for n in range(cuda.blockIdx.x, N, cuda.gridDim.x):
        top = row_max(part, x, n)
        total = float32(0)
        for k in range(tx, K, THREADS):
            total += negative_exp(x[n, k] - top)
        total = block_sum(part, total, tx, THREADS)
        if tx == 0:
            loss[n] = math.log(total) + (top - x[n, labels[n]])


@cuda.jit
def mean(loss, losses):
    """loss[0] = 1/N sum_n losses[n]; one block."""
    part = cuda.shared.array(THREADS, float32)
    N = losses.size
    tx = cuda.threadIdx.x
    total = float32(0)
    for n in range(tx, N, THREADS):
        total += losses[n]
    total = block_sum(part, total, tx, THREADS)
    if tx == 0:
        loss[0] = total / float32(N)


@cuda.jit
def backward(dx, y, labels, scale):
    """dx[n,k] = scale (y[n,k] - [k = labels[n]]): the gradient by x of scale times the
    sum of the losses. dx may lie on y."""
    N, K = y.shape
    for n in range(cuda.blockIdx.x, N, cuda.gridDim.x):
        label = labels[n]
        for k in range(cuda.threadIdx.x, K, cuda.blockDim.x):
            value = y[n, k]
            dx[n, k] = scale * (value - float32(1) if k == label else value)
