"""Fully connected layer: three tiled products of matrices (see `tiles`).

A kernel's name says how many outputs a block computes, rows x columns. The 64x64
kernels are for large batches. The 16x256 kernels are for batches so small that most
rows of a larger tile would be empty. An output of `forward` and `data` is one sum in
ascending order; `filter` adds slices of DEPTH images (see `reduction`).

Occupancy: at least 12 %. A thread holds 16 sums, and the addresses of its copies take
up to 168 registers. It hides latency by many independent sums, not by many warps.
"""

from numba import cuda, float32

from snref.kernels.tiles import (
    SIDE,
    add,
    clear,
    load,
    load_transposed,
    multiply,
    multiply_transposed,
)


def _forward(rows, columns, deep):
    """The kernel whose blocks compute rows x columns outputs from tiles `deep` deep."""
    i_count = 4
    n_step = rows // i_count  # threads along the rows; the others, along the columns
    j_count = columns * n_step // (SIDE * SIDE)
    pitch = deep + 1  # rows of a tile read down its columns start in different banks
    w_pitch = columns + 1
    across = j_count * SIDE

    @cuda.jit
    def forward(y, x, w):
        """y[n,k] = sum_c x[n,c] w[k,c]

        Blocks: x along k, y along n.
        """
        x_tile = cuda.shared.array((rows, pitch), float32)
        w_tile = cuda.shared.array((deep, w_pitch), float32)
        total = cuda.local.array((i_count, j_count), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        N, C = x.shape
        K = w.shape[0]
        n0 = cuda.blockIdx.y * rows
        k0 = cuda.blockIdx.x * columns
        nt = ty % n_step
        kt = ty // n_step * across + tx
        clear(total)
        for c0 in range(0, C, deep):
            load(x_tile, rows, deep, x, n0, c0, N, C)
            load_transposed(w_tile, columns, deep, w, k0, c0, K, C)
            cuda.syncthreads()
            multiply(total, x_tile, w_tile, nt, n_step, kt, min(deep, C - c0))
            cuda.syncthreads()
        for i in range(i_count):
            n = n0 + nt + n_step * i
            for j in range(j_count):
                k = k0 + kt + SIDE * j
                if n < N and k < K:
                    y[n, k] = total[i, j]

    return forward


def _data(rows, columns, deep):
    """The kernel whose blocks compute rows x columns outputs from tiles `deep` deep."""
    i_count = 4
    n_step = rows // i_count
    j_count = columns * n_step // (SIDE * SIDE)
    pitch = deep + 1
    across = j_count * SIDE

    @cuda.jit
    def data(dx, dy, w):
        """dx[n,c] = sum_k dy[n,k] w[k,c]

        Blocks: x along c, y along n.
        """
        y_tile = cuda.shared.array((rows, pitch), float32)
        w_tile = cuda.shared.array((deep, columns), float32)
        total = cuda.local.array((i_count, j_count), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        N, K = dy.shape
        C = w.shape[1]
        n0 = cuda.blockIdx.y * rows
        c0 = cuda.blockIdx.x * columns
        nt = ty % n_step
        ct = ty // n_step * across + tx
        clear(total)
        for k0 in range(0, K, deep):
            load(y_tile, rows, deep, dy, n0, k0, N, K)
            load(w_tile, deep, columns, w, k0, c0, K, C)
            cuda.syncthreads()
            multiply(total, y_tile, w_tile, nt, n_step, ct, min(deep, K - k0))
            cuda.syncthreads()
        for i in range(i_count):
            n = n0 + nt + n_step * i
            for j in range(j_count):
                c = c0 + ct + SIDE * j
                if n < N and c < C:
                    dx[n, c] = total[i, j]

    return data


TILE = 64
DEPTH = 32  # images of a slice, and of a tile
EACH = TILE // SIDE


@cuda.jit(device=True)
def _add_slices(total, part, x_tile, y_tile, x, dy, k0, c0):
    """total[i,j] += sum_n dy[n,k] x[n,c], slices of DEPTH images one after another.

    k = k0 + thread's y + SIDE i;  c = c0 + thread's x + SIDE j
    """
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N, K = dy.shape
    C = x.shape[1]
    for n0 in range(0, N, DEPTH):
        clear(part)
        load(x_tile, DEPTH, TILE, x, n0, c0, N, C)
        load(y_tile, DEPTH, TILE, dy, n0, k0, N, K)
        cuda.syncthreads()
        multiply_transposed(part, y_tile, x_tile, ty, SIDE, tx, min(DEPTH, N - n0))
        add(total, part)
        cuda.syncthreads()


@cuda.jit
def filter_64x64(dw, x, dy, resume):
    """dw[k,c] = sum_n dy[n,k] x[n,c]

    resume = 1: add to what dw holds, the sum of the slices before.
    Blocks: x along c, y along k.
    """
    x_tile = cuda.shared.array((DEPTH, TILE), float32)
    y_tile = cuda.shared.array((DEPTH, TILE), float32)
    part = cuda.local.array((EACH, EACH), float32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    K, C = dw.shape
    k0 = cuda.blockIdx.y * TILE
    c0 = cuda.blockIdx.x * TILE
    clear(total)
    for i in range(EACH):
        k = k0 + ty + SIDE * i
        for j in range(EACH):
            c = c0 + tx + SIDE * j
            if resume and k < K and c < C:
                total[i, j] = dw[k, c]
    _add_slices(total, part, x_tile, y_tile, x, dy, k0, c0)
    for i in range(EACH):
        k = k0 + ty + SIDE * i
        for j in range(EACH):
            c = c0 + tx + SIDE * j
            if k < K and c < C:
                dw[k, c] = total[i, j]


@cuda.jit
def descend_64x64(w, v, x, dy, learning_rate, momentum, weight_decay):
    """The step of `sgd.update` with the dw of `filter_64x64`, to its bits:

    v[k,c] = momentum v[k,c] + sum_n dy[n,k] x[n,c] + weight_decay w[k,c]
    w[k,c] -= learning_rate v[k,c]

    Blocks: x along c, y along k.
    """
    x_tile = cuda.shared.array((DEPTH, TILE), float32)
    y_tile = cuda.shared.array((DEPTH, TILE), float32)
    part = cuda.local.array((EACH, EACH), float32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    K, C = w.shape
    k0 = cuda.blockIdx.y * TILE
    c0 = cuda.blockIdx.x * TILE
    clear(total)
    _add_slices(total, part, x_tile, y_tile, x, dy, k0, c0)
    for i in range(EACH):
        k = k0 + ty + SIDE * i
        for j in range(EACH):
            c = c0 + tx + SIDE * j
            if k < K and c < C:
                value = w[k, c]
                velocity = momentum * v[k, c] + (total[i, j] + weight_decay * value)
                v[k, c] = velocity
                w[k, c] = value - learning_rate * velocity


forward_64x64 = _forward(64, 64, deep=32)
forward_16x256 = _forward(16, 256, deep=16)

data_64x64 = _data(64, 64, deep=32)
data_16x256 = _data(16, 256, deep=16)
