"""Fully connected layer: three products of matrices, tiled in shared memory.

Blocks are 16 x 16 threads, tiles 16 or 32 products deep; a thread computes several
rows and columns of its block's outputs in registers, as far apart as there are threads
along them. Every output is one sum in ascending order. The 64x64 kernels are for large
batches, the 16x256 ones for batches so small that most rows of a larger tile would be
empty.

Source: Kirk and Hwu 2016, chapter 4 (tiles), and any BLAS (registers).
"""

from numba import cuda, float32

SIDE = 16


def _forward(rows, columns, deep):
    """The kernel whose blocks compute rows x columns outputs from tiles `deep` deep."""
    i_count = 4
    n_step = rows // i_count  # threads along the rows; the others, along the columns
    j_count = columns * n_step // (SIDE * SIDE)
    pitch = deep + 1  # rows of a tile read down its columns start in different banks
    w_pitch = columns + 1
    x_passes = rows // SIDE
    w_passes = columns // SIDE
    across = j_count * SIDE

    @cuda.jit
    def forward(y, x, w):
        """y[n,k] = sum_c x[n,c] w[k,c]

        Blocks: x along k, y along n.
        """
        # occupancy: 12 to 75 %, by shape and GPU. Sums and addresses fill 56 to 204
        # registers; many independent sums a thread hide latency instead of many warps.
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
        for i in range(i_count):
            for j in range(j_count):
                total[i, j] = float32(0)
        for c0 in range(0, C, deep):
            for i in range(x_passes):
                for e in range(deep // SIDE):
                    n = ty + SIDE * i
                    c = tx + SIDE * e
                    inside = n0 + n < N and c0 + c < C
                    x_tile[n, c] = x[n0 + n, c0 + c] if inside else float32(0)
            for j in range(w_passes):
                for e in range(deep // SIDE):
                    k = ty + SIDE * j
                    c = tx + SIDE * e
                    inside = k0 + k < K and c0 + c < C
                    w_tile[c, k] = w[k0 + k, c0 + c] if inside else float32(0)
            cuda.syncthreads()
            for c in range(min(deep, C - c0)):
                for i in range(i_count):
                    for j in range(j_count):
                        total[i, j] += (
                            x_tile[nt + n_step * i, c] * w_tile[c, kt + SIDE * j]
                        )
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
    y_passes = rows // SIDE
    w_passes = columns // SIDE
    across = j_count * SIDE

    @cuda.jit
    def data(dx, dy, w):
        """dx[n,c] = sum_k dy[n,k] w[k,c]

        Blocks: x along c, y along n.
        """
        # occupancy: 12 to 75 %, by shape and GPU. Sums and addresses fill 56 to 204
        # registers; many independent sums a thread hide latency instead of many warps.
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
        for i in range(i_count):
            for j in range(j_count):
                total[i, j] = float32(0)
        for k0 in range(0, K, deep):
            for i in range(y_passes):
                for e in range(deep // SIDE):
                    n = ty + SIDE * i
                    k = tx + SIDE * e
                    inside = n0 + n < N and k0 + k < K
                    y_tile[n, k] = dy[n0 + n, k0 + k] if inside else float32(0)
            for e in range(deep // SIDE):
                for j in range(w_passes):
                    k = ty + SIDE * e
                    c = tx + SIDE * j
                    inside = k0 + k < K and c0 + c < C
                    w_tile[k, c] = w[k0 + k, c0 + c] if inside else float32(0)
            cuda.syncthreads()
            for k in range(min(deep, K - k0)):
                for i in range(i_count):
                    for j in range(j_count):
                        total[i, j] += (
                            y_tile[nt + n_step * i, k] * w_tile[k, ct + SIDE * j]
                        )
            cuda.syncthreads()
        for i in range(i_count):
            n = n0 + nt + n_step * i
            for j in range(j_count):
                c = c0 + ct + SIDE * j
                if n < N and c < C:
                    dx[n, c] = total[i, j]

    return data


TILE = 64
DEPTH = 32
EACH = TILE // SIDE
STEPS = DEPTH // SIDE


@cuda.jit
def filter_64x64(dw, x, dy):
    """dw[k,c] = sum_n dy[n,k] x[n,c]

    Blocks: x along c, y along k.
    """
    # occupancy: 12 to 75 %, by shape and GPU. Sums and addresses fill 56 to 204
    # registers; many independent sums a thread hide latency instead of many warps.
    x_tile = cuda.shared.array((DEPTH, TILE), float32)
    y_tile = cuda.shared.array((DEPTH, TILE), float32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N, K = dy.shape
    C = x.shape[1]
    k0 = cuda.blockIdx.y * TILE
    c0 = cuda.blockIdx.x * TILE
    for i in range(EACH):
        for j in range(EACH):
            total[i, j] = float32(0)
    for n0 in range(0, N, DEPTH):
        for e in range(STEPS):
            for j in range(EACH):
                n = ty + SIDE * e
                c = tx + SIDE * j
                inside = n0 + n < N and c0 + c < C
                x_tile[n, c] = x[n0 + n, c0 + c] if inside else float32(0)
        for e in range(STEPS):
            for i in range(EACH):
                n = ty + SIDE * e
                k = tx + SIDE * i
                inside = n0 + n < N and k0 + k < K
                y_tile[n, k] = dy[n0 + n, k0 + k] if inside else float32(0)
        cuda.syncthreads()
        for n in range(min(DEPTH, N - n0)):
            for i in range(EACH):
                for j in range(EACH):
                    total[i, j] += y_tile[n, ty + SIDE * i] * x_tile[n, tx + SIDE * j]
        cuda.syncthreads()
    for i in range(EACH):
        k = k0 + ty + SIDE * i
        for j in range(EACH):
            c = c0 + tx + SIDE * j
            if k < K and c < C:
                dw[k, c] = total[i, j]


forward_64x64 = _forward(64, 64, deep=32)
forward_16x256 = _forward(16, 256, deep=16)

data_64x64 = _data(64, 64, deep=32)
data_16x256 = _data(16, 256, deep=16)
