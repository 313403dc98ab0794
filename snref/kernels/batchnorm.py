"""Batch normalization (Ioffe and Szegedy 2015, algorithms 1 and 2).

Arrays are (N, C, pixels); m = N * pixels values share a channel's mean and variance.
A block is 32 pixels wide and 8 images high.

Occupancy: at least 25 %. `reduce` has several loads of two arrays under way in each
thread, with 64-bit addresses.
"""

import math

from numba import cuda, float32

from snref.kernels.reduction import BLOCK, GROUP, block_sum, compensated, thread_sum

PIXELS, IMAGES = 32, 8  # of a block
THREADS = PIXELS * IMAGES


@cuda.jit
def statistics(mean, variance, x):
    """mean[c] = 1/m sum_ni x[n,c,i];  variance[c] = 1/m sum_ni (x[n,c,i] - mean[c])^2.

    A block a channel; the second sum starts when the first is known, because the
    difference of two large sums would lose the digits that count.
    """
    part = cuda.shared.array(THREADS, float32)
    N, C, pixels = x.shape
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    thread = ty * PIXELS + tx
    m = float32(N * pixels)
    for c in range(cuda.blockIdx.x, C, cuda.gridDim.x):
        total = thread_sum(x, c, 0, N, ty, IMAGES, tx, PIXELS, BLOCK)
        center = block_sum(part, total, thread, THREADS) / m
        total = float32(0)
        error = float32(0)
        for base in range(0, N, GROUP * IMAGES):
            after = min(base + GROUP * IMAGES, N)
            for start in range(0, pixels, BLOCK * PIXELS):
                end = min(start + BLOCK * PIXELS, pixels)
                squares = float32(0)
                for n in range(base + ty, after, IMAGES):
                    for i in range(start + tx, end, PIXELS):
                        squares += (x[n, c, i] - center) * (x[n, c, i] - center)
                total, error = compensated(total, error, squares)
        total = block_sum(part, total, thread, THREADS)
        if thread == 0:
            mean[c] = center
            variance[c] = total / m


@cuda.jit
def forward(y, x, mean, variance, gamma, beta, epsilon):
    """y[n,c,i] = gamma[c] (x[n,c,i] - mean[c]) / sqrt(variance[c] + epsilon) + beta[c].

    y may lie on x.
    """
    N, _, pixels = x.shape
    c = cuda.blockIdx.y
    scale = gamma[c] / math.sqrt(variance[c] + epsilon)
    center = mean[c]
    shift = beta[c]
    for n in range(cuda.blockIdx.z, N, cuda.gridDim.z):
        for i in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            y[n, c, i] = (x[n, c, i] - center) * scale + shift


@cuda.jit
def reduce(dgamma, dbeta, x, dy, mean, variance, epsilon):
    """dbeta[c] = sum_ni dy[n,c,i];  dgamma[c] = sum_ni dy[n,c,i] z[n,c,i]

    with z = (x - mean) / sqrt(variance + epsilon). A block a channel.
    """
    part = cuda.shared.array(THREADS, float32)
    N, C, pixels = x.shape
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    thread = ty * PIXELS + tx
    for c in range(cuda.blockIdx.x, C, cuda.gridDim.x):
        center = mean[c]
        total = float32(0)
        error = float32(0)
        product = float32(0)
        product_error = float32(0)
        for base in range(0, N, GROUP * IMAGES):
            after = min(base + GROUP * IMAGES, N)
            for start in range(0, pixels, BLOCK * PIXELS):
                end = min(start + BLOCK * PIXELS, pixels)
                sum_ = float32(0)
                products = float32(0)
                for n in range(base + ty, after, IMAGES):
                    for i in range(start + tx, end, PIXELS):
                        sum_ += dy[n, c, i]
                        products += dy[n, c, i] * (x[n, c, i] - center)
                total, error = compensated(total, error, sum_)
                product, product_error = compensated(product, product_error, products)
        total = block_sum(part, total, thread, THREADS)
        product = block_sum(part, product, thread, THREADS)
        if thread == 0:
            dbeta[c] = total
            dgamma[c] = product / math.sqrt(variance[c] + epsilon)


@cuda.jit
def backward(dx, x, dy, mean, variance, gamma, dgamma, dbeta, epsilon):
    """dx = gamma / sqrt(variance + epsilon) (dy - dbeta / m - z dgamma / m)

    for every n, c, i, with z = (x - mean) / sqrt(variance + epsilon). dx may lie on dy.
    """
    N, _, pixels = x.shape
    c = cuda.blockIdx.y
    m = float32(N * pixels)
    inverse = float32(1) / math.sqrt(variance[c] + epsilon)
    scale = gamma[c] * inverse
    center = mean[c]
    average = dbeta[c] / m
    slope = dgamma[c] * inverse / m
    for n in range(cuda.blockIdx.z, N, cuda.gridDim.z):
        for i in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            z = x[n, c, i] - center
            dx[n, c, i] = scale * (dy[n, c, i] - average - z * slope)


@cuda.jit
def running(running_mean, running_variance, mean, variance, momentum, count):
    """running = (1 - momentum) running + momentum new, for the mean and the variance.

    The variance is the unbiased one, count / (count - 1) times that of the batch.
    """
    old = float32(1) - momentum
    unbiased = float32(count) / float32(max(1, count - 1))
    for c in range(cuda.grid(1), mean.size, cuda.gridsize(1)):
        running_mean[c] = old * running_mean[c] + momentum * mean[c]
        running_variance[c] = (
            old * running_variance[c] + momentum * unbiased * variance[c]
        )
