"""Manual, "Examples": the product of matrices through tiles in shared memory."""

import math

import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def product(a, b, c):
    tile_a = cuda.shared.array(shape=(TILE, TILE), dtype=float32)
    tile_b = cuda.shared.array(shape=(TILE, TILE), dtype=float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0.0)
    for i in range(cuda.gridDim.x):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if y < a.shape[0] and (tx + i * TILE) < a.shape[1]:
            tile_a[ty, tx] = a[y, tx + i * TILE]
        if x < b.shape[1] and (ty + i * TILE) < b.shape[0]:
            tile_b[ty, tx] = b[ty + i * TILE, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def run(a, b):
    c = cuda.to_device(np.zeros((a.shape[0], b.shape[1])))
    rows, columns = max(a.shape[0], b.shape[0]), max(a.shape[1], b.shape[1])
    blocks = math.ceil(columns / TILE), math.ceil(rows / TILE)
    product[blocks, (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    assert (c.copy_to_host() == a @ b).all()


run(np.arange(16).reshape(4, 4), np.ones((4, 4)))
