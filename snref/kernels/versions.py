"""The same results in simple kernels: read these before the fast ones.

VERSIONS lists kernels that compute the same from the same arguments, each faster and
longer than the one before. No net launches the simple ones. A test holds every version
to the same bits, `python -m figures kernels` shows what each is worth.

A product first reads both factors from global memory, n + k numbers for each output.
With tiles in shared memory a number is read once for 16 outputs. The fast kernels
also give every thread several outputs (see `tiles`), so that a number that is read
from shared memory serves more than one multiplication.

Occupancy: at least 37 %. The loops of `average_pool` over a window are unrolled.

Source: Kirk and Hwu 2016, chapters 3 and 4.
"""

import math

from numba import cuda, float32

from snref.kernels.conv.taps import unravel

SIDE = 16  # a block of a tiled version is 16 x 16 threads and computes 16 x 16 outputs
PITCH = SIDE + 1  # of a tile that is written down its columns: they lie in other banks

VERSIONS = {
    "matrix product": (
        "versions.product",
        "versions.product_16x16",
        "linear.forward_64x64",
    ),
    "convolution": (
        "conv.direct.forward",
        "versions.convolution_16x16",
        "conv.tiled.forward_32x8",
    ),
    "max pooling": ("versions.max_pool", "pool.max_forward"),
    "average pooling": ("versions.average_pool", "pool.average_forward"),
}


def grid_and_block(
    name: str, y: tuple[int, ...], groups: int = 1
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How to launch a version of this module whose output has shape y.

    >>> grid_and_block("versions.product", (100, 40))
    ((3, 7), (16, 16))
    """
    if name.startswith("versions.product"):
        return (-(-y[1] // SIDE), -(-y[0] // SIDE)), (SIDE, SIDE)
    N, K, P, Q = y
    if name == "versions.convolution_16x16":
        filters = -(-K // groups // SIDE)
        return (-(-N * P * Q // SIDE), filters, groups), (SIDE, SIDE)
    return (min(-(-N * K * P * Q // 256), 4096),), (256,)


@cuda.jit
def product(y, x, w):
    """y[n,k] = sum_c x[n,c] w[k,c], a thread an output."""
    k, n = cuda.grid(2)
    if n < y.shape[0] and k < y.shape[1]:
        total = float32(0)
        for c in range(x.shape[1]):
            total += x[n, c] * w[k, c]
        y[n, k] = total


@cuda.jit
def product_16x16(y, x, w):
    """y[n,k] = sum_c x[n,c] w[k,c], a thread an output, 16 c at a time.

    The block's threads copy 16 x 16 numbers of x and of w into shared memory, wait for
    each other, add 16 products, and wait again before the next copy.
    """
    x_tile = cuda.shared.array((SIDE, SIDE), float32)
    w_tile = cuda.shared.array((SIDE, PITCH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    k, n = cuda.grid(2)
    C = x.shape[1]
    total = float32(0)
    for c0 in range(0, C, SIDE):
        c, row = c0 + tx, cuda.blockIdx.x * SIDE + ty
        x_tile[ty, tx] = x[n, c] if n < y.shape[0] and c < C else float32(0)
        w_tile[tx, ty] = w[row, c] if row < y.shape[1] and c < C else float32(0)
        cuda.syncthreads()
        for d in range(min(SIDE, C - c0)):
            total += x_tile[ty, d] * w_tile[d, tx]
        cuda.syncthreads()
    if n < y.shape[0] and k < y.shape[1]:
        y[n, k] = total


@cuda.jit
def convolution_16x16(y, x, w, stride_h, stride_w, pad_top, pad_left, groups):
    """y[n,k,p,q] = sum_crs x[n,c,p*stride_h+r-pad_top,q*stride_w+s-pad_left] w[k,c,r,s]

    A product of w, as a matrix of filters by (c, r, s), with a matrix X of (c, r, s)
    by outputs (n, p, q): 16 rows of X at a time are gathered into a tile (implicit
    GEMM, Chetlur et al. 2014, section 3).
    Blocks: x along the outputs, y along the filters of a group, z along the groups.
    """
    w_tile = cuda.shared.array((SIDE, SIDE), float32)
    x_tile = cuda.shared.array((SIDE, SIDE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N, K, P, Q = y.shape
    H, W = x.shape[2], x.shape[3]
    C, R, S = w.shape[1], w.shape[2], w.shape[3]
    group = cuda.blockIdx.z
    k = group * (K // groups) + cuda.blockIdx.y * SIDE + ty
    filters = (group + 1) * (K // groups)
    n, p, q = unravel(cuda.blockIdx.x * SIDE + tx, P, Q)
    total = float32(0)
    for d0 in range(0, C * R * S, SIDE):
        c, r, s = unravel(d0 + tx, R, S)
        w_tile[ty, tx] = w[k, c, r, s] if k < filters and c < C else float32(0)
        c, r, s = unravel(d0 + ty, R, S)
        h = p * stride_h + r - pad_top
        v = q * stride_w + s - pad_left
        inside = n < N and c < C and h >= 0 and h < H and v >= 0 and v < W
        x_tile[ty, tx] = x[n, group * C + c, h, v] if inside else float32(0)
        cuda.syncthreads()
        for d in range(min(SIDE, C * R * S - d0)):
            total += w_tile[ty, d] * x_tile[d, tx]
        cuda.syncthreads()
    if k < filters and n < N:
        y[n, k, p, q] = total


@cuda.jit
def max_pool(y, x, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left):
    """y[n,c,p,q] = max_hw x[n,c,h,w] over window (p, q), a thread an output;

    NaN if the window holds one.
    """
    _, C, P, Q = y.shape
    for i in range(cuda.grid(1), y.size, cuda.gridsize(1)):
        nc, p, q = unravel(i, P, Q)
        n, c = nc // C, nc % C
        top, left = p * stride_h - pad_top, q * stride_w - pad_left
        highest = float32(-math.inf)
        for h in range(max(top, 0), min(top + kernel_h, x.shape[2])):
            for w in range(max(left, 0), min(left + kernel_w, x.shape[3])):
                value = x[n, c, h, w]
                if value > highest or value != value:
                    highest = value
        y[n, c, p, q] = highest


@cuda.jit
def average_pool(
    y, x, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, count_padding
):
    """y[n,c,p,q] = 1/m sum_hw x[n,c,h,w] over window (p, q), a thread an output.

    A column of the window after the other. m is kernel_h kernel_w, or the number of
    values of the window that lie in the image if count_padding is 0.
    """
    _, C, P, Q = y.shape
    for i in range(cuda.grid(1), y.size, cuda.gridsize(1)):
        nc, p, q = unravel(i, P, Q)
        n, c = nc // C, nc % C
        top, left = p * stride_h - pad_top, q * stride_w - pad_left
        bottom, right = (
            min(top + kernel_h, x.shape[2]),
            min(left + kernel_w, x.shape[3]),
        )
        top, left = max(top, 0), max(left, 0)
        total = float32(0)
        for w in range(left, right):
            column = float32(0)
            for h in range(top, bottom):
                column += x[n, c, h, w]
            total += column
        inside = (bottom - top) * (right - left)
        m = kernel_h * kernel_w if count_padding else inside
        y[n, c, p, q] = total / float32(m)
