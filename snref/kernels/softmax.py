"""Softmax and its cross-entropy (Bridle 1990); a block goes over rows, one an image."""

import math

from numba import cuda, float32

from snref.kernels.elementary import negative_exp
from snref.kernels.reduction import fold_max, fold_sum

THREADS = 128  # of a block


@cuda.jit
def forward(y, x):
    """y[n,k] = exp(x[n,k] - h[n]) / sum_j exp(x[n,j] - h[n]), h[n] = max_j x[n,j]."""
    # occupancy: 64-bit indices and strides fill the registers; the unrolled loops keep
    # several loads under way in each thread instead.
    part = cuda.shared.array(THREADS, float32)
    N, K = x.shape
    tx = cuda.threadIdx.x
    for n in range(cuda.blockIdx.x, N, cuda.gridDim.x):
        highest = float32(-math.inf)
        for k in range(tx, K, THREADS):
            highest = max(highest, x[n, k])
        part[tx] = highest
        fold_max(part, tx, THREADS)
        top = part[0]
        cuda.syncthreads()
        total = float32(0)
        for k in range(tx, K, THREADS):
            power = negative_exp(x[n, k] - top)
            y[n, k] = power
            total += power
        part[tx] = total
        fold_sum(part, tx, THREADS)
        whole = part[0]
        for k in range(tx, K, THREADS):
            y[n, k] = y[n, k] / whole
        cuda.syncthreads()


@cuda.jit
def losses(loss, x, labels):
    """loss[n] = log sum_j exp(x[n,j] - h[n]) + h[n] - x[n,labels[n]]

    = -log y[n,labels[n]], without the rounding to zero that y may suffer.
    """
    # occupancy: 64-bit indices and strides fill the registers; the unrolled loops keep
    # several loads under way in each thread instead.
    part = cuda.shared.array(THREADS, float32)
    N, K = x.shape
    tx = cuda.threadIdx.x
    for n in range(cuda.blockIdx.x, N, cuda.gridDim.x):
        highest = float32(-math.inf)
        for k in range(tx, K, THREADS):
            highest = max(highest, x[n, k])
        part[tx] = highest
        fold_max(part, tx, THREADS)
        top = part[0]
        cuda.syncthreads()
        total = float32(0)
        for k in range(tx, K, THREADS):
            total += negative_exp(x[n, k] - top)
        part[tx] = total
        fold_sum(part, tx, THREADS)
        if tx == 0:
            loss[n] = math.log(part[0]) + (top - x[n, labels[n]])
        cuda.syncthreads()


@cuda.jit
def mean(loss, losses):
    """loss[0] = 1/N sum_n losses[n]; one block."""
    part = cuda.shared.array(THREADS, float32)
    N = losses.size
    tx = cuda.threadIdx.x
    total = float32(0)
    for n in range(tx, N, THREADS):
        total += losses[n]
    part[tx] = total
    fold_sum(part, tx, THREADS)
    if tx == 0:
        loss[0] = part[0] / float32(N)


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
