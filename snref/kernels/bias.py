"""The bias of a convolution or a fully connected layer.

Images [N, K, pixels] and matrices [N, K] have kernels of their own, so that either has
neighbouring threads at neighbouring elements.

Occupancy: at least 31 %. `backward` is unrolled, with several loads under way.
"""

from numba import cuda, float32

from snref.kernels.reduction import block_sum, thread_sum

BLOCK = 128


@cuda.jit
def forward(y, b):
    """y[n,k,i] = y[n,k,i] + b[k]"""
    N, K, pixels = y.shape
    for nk in range(cuda.blockIdx.y, N * K, cuda.gridDim.y):
        n = nk // K
        k = nk - n * K
        for i in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            y[n, k, i] += b[k]


@cuda.jit
def forward_rows(y, b):
    """y[n,k] = y[n,k] + b[k]"""
    N, K = y.shape
    for n in range(cuda.blockIdx.y, N, cuda.gridDim.y):
        for k in range(cuda.grid(1), K, cuda.gridsize(1)):
            y[n, k] += b[k]


@cuda.jit
def backward(db, dy, images, resume):
    """db[k] = sum_ni dy[n,k,i], a thread block a channel; slices of `images` images.

    Thread t adds i = t, t + BLOCK, ... of every image of the slice. resume = 1: add to
    what db holds, the sum of the slices before.
    """
    part = cuda.shared.array(BLOCK, float32)
    N, K, _ = dy.shape
    t = cuda.threadIdx.x
    for k in range(cuda.blockIdx.x, K, cuda.gridDim.x):
        total = db[k] if resume else float32(0)
        for n0 in range(0, N, images):
            own = thread_sum(dy, k, n0, min(n0 + images, N), 0, 1, t, BLOCK, 16)
            total += block_sum(part, own, t, BLOCK)
        if t == 0:
            db[k] = total


@cuda.jit
def backward_rows(db, dy, images, resume):
    """db[k] = sum_n dy[n,k], a thread a channel; slices of `images` images.

    resume = 1: add to what db holds, the sum of the slices before.
    """
    N, K = dy.shape
    for k in range(cuda.grid(1), K, cuda.gridsize(1)):
        total = db[k] if resume else float32(0)
        for n0 in range(0, N, images):
            part = float32(0)
            for n in range(n0, min(n0 + images, N)):
                part += dy[n, k]
            total += part
        db[k] = total
