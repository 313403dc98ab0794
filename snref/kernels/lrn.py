"""Local response normalization across channels (Krizhevsky et al. 2012, section 3.3).

With d[n,c,i] = k + alpha/size sum_j x[n,j,i]^2 over the `size` channels j around c,
as cuDNN and PyTorch have it; the article writes alpha for alpha/size.

As in PyTorch, an infinite x gives NaN, its neighbours 0, and their gradients NaN. Where
only x^2 is too large for a float32, y is 0 and the gradients are finite.

Occupancy: at least 37 %. `backward` computes d twice and holds the positions of two
channels, in up to 74 registers.
"""

import math

from numba import cuda, float32

THREADS = 64  # of a block
LARGEST = 16  # `size` that fits the ring


@cuda.jit(device=True)
def inverse_power(d, beta):
    """d^-beta for d > 0; the usual 3/4 by two square roots, which is much faster."""
    if beta == float32(0.75):
        root = math.sqrt(d)
        return float32(1) / (root * math.sqrt(root))
    return math.pow(d, -beta)


@cuda.jit(device=True)
def squares_around(x, n, c, i, half):
    """sum_j x[n,j,i]^2 over the channels j within `half` of c."""
    total = float32(0)
    for j in range(max(0, c - half), min(x.shape[1], c + half + 1)):
        total += x[n, j, i] * x[n, j, i]
    return total


@cuda.jit
def forward(y, x, size, alpha, beta, k):
    """y[n,c,i] = x[n,c,i] d[n,c,i]^-beta."""
    N, C, pixels = x.shape
    half = size // 2
    scale = alpha / float32(size)
    for n in range(cuda.blockIdx.y, N, cuda.gridDim.y):
        for i in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            for c in range(C):
                d = k + scale * squares_around(x, n, c, i, half)
                y[n, c, i] = x[n, c, i] * inverse_power(d, beta)


@cuda.jit
def backward(dx, x, dy, size, alpha, beta, k):
    """dx[n,c,i] = dy[n,c,i] d[n,c,i]^-beta - 2 alpha beta/size x[n,c,i] sum_j g[n,j,i]

    with g = dy x d^(-beta-1), over the `size` channels j around c. dx may lie on dy:
    a thread goes through the channels of its pixel and keeps what it has read of dy,
    as t = dy d^(-beta-1), in a ring of its own.
    """
    ring = cuda.shared.array((LARGEST, THREADS), float32)
    N, C, pixels = x.shape
    tx = cuda.threadIdx.x
    half = size // 2
    scale = alpha / float32(size)
    factor = float32(2) * scale * beta
    for n in range(cuda.blockIdx.y, N, cuda.gridDim.y):
        for i in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            for ahead in range(C + half):
                slot = ahead % size
                if ahead < C:
                    d = k + scale * squares_around(x, n, ahead, i, half)
                    ring[slot, tx] = dy[n, ahead, i] * inverse_power(d, beta) / d
                c = ahead - half
                if c >= 0:
                    squares = float32(0)
                    total = float32(0)
                    for j in range(max(0, c - half), min(C, c + half + 1)):
                        slot = j % size
                        squares += x[n, j, i] * x[n, j, i]
                        total += ring[slot, tx] * x[n, j, i]
                    d = k + scale * squares
                    slot = c % size
                    # An infinite d has the power 0, and infinity times 0 is NaN.
                    infinite = d == float32(math.inf)
                    own = dy[n, c, i] * float32(0) if infinite else ring[slot, tx] * d
                    dx[n, c, i] = own - factor * x[n, c, i] * total
