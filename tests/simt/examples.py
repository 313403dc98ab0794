"""Kernels of the kinds that programs are made of, for the tests."""

import math

import numpy as np
from numba import cuda, float32

T = 16
NT = 128
TABLE = np.array([5.0, 7.0, 11.0], np.float32)
FACTOR = 3


@cuda.jit
def scale(a, c):
    i = cuda.grid(1)
    if i >= c.size:
        return
    c[i] = a[i] * FACTOR


@cuda.jit
def add_two(a, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + 2


@cuda.jit
def count_blocks(counts):
    """Each thread of block b adds b + 1 in row b, blocks counted along x, y, then z."""
    b = cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y
    b = b * cuda.gridDim.x + cuda.blockIdx.x
    counts[b, cuda.threadIdx.x] += b + 1


@cuda.jit
def add(a, b, c):
    for i in range(cuda.grid(1), c.size, cuda.gridsize(1)):
        c[i] = a[i] + b[i]


@cuda.jit
def tiled_product(a, b, c):
    """c[i,j] = sum_k a[i,k] b[k,j], 16 x 16 of them a block."""
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    j, i = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    rows, depth = a.shape
    columns = b.shape[1]
    total = float32(0)
    for k0 in range(0, depth, T):
        inside = i < rows and k0 + x < depth
        tile_a[y, x] = a[i, k0 + x] if inside else float32(0)
        inside = k0 + y < depth and j < columns
        tile_b[y, x] = b[k0 + y, j] if inside else float32(0)
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if i < rows and j < columns:
        c[i, j] = total


@cuda.jit
def register_product(a, b, c):
    """c[i,j] = sum_k a[i,k] b[k,j], 4 x 4 of them a thread, 64 x 64 a block."""
    tile_a = cuda.shared.array((T, 64), float32)
    tile_b = cuda.shared.array((T, 64), float32)
    total = cuda.local.array((4, 4), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i0, j0 = cuda.blockIdx.y * 64, cuda.blockIdx.x * 64
    rows, depth = a.shape
    columns = b.shape[1]
    for i in range(4):
        for j in range(4):
            total[i, j] = float32(0)
    for k0 in range(0, depth, T):
        for e in range(y * T + x, 64 * T, T * T):
            i, k = i0 + e // T, k0 + e % T
            inside = i < rows and k < depth
            tile_a[e % T, e // T] = a[i, k] if inside else float32(0)
        for e in range(y * T + x, 64 * T, T * T):
            k, j = k0 + e // 64, j0 + e % 64
            inside = k < depth and j < columns
            tile_b[e // 64, e % 64] = b[k, j] if inside else float32(0)
        cuda.syncthreads()
        for k in range(T):
            for i in range(4):
                for j in range(4):
                    total[i, j] += tile_a[k, y + T * i] * tile_b[k, x + T * j]
        cuda.syncthreads()
    for i in range(4):
        for j in range(4):
            if i0 + y + T * i < rows and j0 + x + T * j < columns:
                c[i0 + y + T * i, j0 + x + T * j] = total[i, j]


@cuda.jit
def softmax(x, y):
    """A row a block, by a tree in shared memory."""
    part = cuda.shared.array(NT, float32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    top = float32(-math.inf)
    for i in range(t, x.shape[1], NT):
        top = max(top, x[row, i])
    part[t] = top
    cuda.syncthreads()
    half = NT // 2
    while half > 0:
        if t < half:
            part[t] = max(part[t], part[t + half])
        cuda.syncthreads()
        half //= 2
    top = part[0]
    cuda.syncthreads()
    total = float32(0)
    for i in range(t, x.shape[1], NT):
        total += math.exp(x[row, i] - top)
    part[t] = total
    cuda.syncthreads()
    half = NT // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    for i in range(t, x.shape[1], NT):
        y[row, i] = math.exp(x[row, i] - top) / part[0]


@cuda.jit
def convolution(x, w, y, pad):
    """y[n,k,p,q] = sum_crs x[n,c,p+r-pad,q+s-pad] w[k,c,r,s], an output a thread."""
    _, C, H, W = x.shape
    K, _, R, S = w.shape
    q, p, nk = cuda.grid(3)
    n = nk // K
    k = nk - n * K
    if q < y.shape[3] and p < y.shape[2]:
        total = float32(0)
        for c in range(C):
            for r in range(R):
                for s in range(S):
                    h, v = p + r - pad, q + s - pad
                    if h >= 0 and h < H and v >= 0 and v < W:
                        total += x[n, c, h, v] * w[k, c, r, s]
        y[n, k, p, q] = total


@cuda.jit
def cube(a, out):
    x, y, z = cuda.grid(3)
    if x < a.shape[2] and y < a.shape[1] and z < a.shape[0]:
        place = x + 10 * y + 100 * z
        out[z, y, x] = a[z, y, x] + place + 1000 * cuda.blockIdx.z


@cuda.jit
def reversed_blocks(a, c):
    """Dynamic shared memory, as many elements as the launch says."""
    s = cuda.shared.array(0, float32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    i = cuda.grid(1)
    s[t] = a[i]
    cuda.syncthreads()
    c[i] = s[n - 1 - t] + s.size


@cuda.jit
def table_of_constants(a, c):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    c[i] = a[i] * table[i % 3] + TABLE[0]


def with_constant(factor, square):
    """A kernel that closes over two values; one decides what code there is."""

    @cuda.jit
    def closed(a, c):
        i = cuda.grid(1)
        if square:
            c[i] = a[i] * a[i] * factor
        else:
            c[i] = a[i] * factor

    return closed


@cuda.jit
def warp_sums(a, c):
    """The sum of each warp, by shuffles, in its first lane's place."""
    i = cuda.grid(1)
    total = a[i]
    for d in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, d)
    if cuda.laneid == 0:
        c[i // 32] = total


@cuda.jit
def shuffles(a, c):
    t = cuda.threadIdx.x
    full = 0xFFFFFFFF
    c[0, t] = cuda.shfl_sync(full, a[t], 5)
    c[1, t] = cuda.shfl_up_sync(full, a[t], 3)
    c[2, t] = cuda.shfl_down_sync(full, a[t], 3)
    c[3, t] = cuda.shfl_xor_sync(full, a[t], 7)


@cuda.jit
def votes(a, c):
    t = cuda.threadIdx.x
    full = 0xFFFFFFFF
    c[0, t] = cuda.all_sync(full, a[t] >= 0)
    c[1, t] = cuda.any_sync(full, a[t] > 6)
    c[2, t] = cuda.eq_sync(full, a[t] > 100)
    c[3, t] = cuda.popc(cuda.ballot_sync(full, a[t] > 3))
    if t < 40:
        c[4, t] = cuda.popc(cuda.activemask())


@cuda.jit
def atomics(a, c):
    i = cuda.grid(1)
    cuda.atomic.add(c, 0, a[i])
    cuda.atomic.max(c, 1, a[i])
    cuda.atomic.min(c, 2, a[i])
    cuda.atomic.exch(c, 3, a[i])
    cuda.atomic.cas(c, 4, 0, a[i])
    c[8 + i] = cuda.atomic.sub(c, 5, 1)


@cuda.jit
def large_frame(a, c):
    """16 KiB a thread: 16 MiB a block of 1,024."""
    held = cuda.local.array(4096, float32)
    t = cuda.threadIdx.x
    for i in range(4096):
        held[i] = a[t] + i
    cuda.syncthreads()
    total = float32(0)
    for i in range(0, 4096, 512):
        total += held[i + t % 512]
    c[t] = total


@cuda.jit
def bits(a, c):
    i = cuda.grid(1)
    v = a[i]
    c[0, i] = cuda.popc(v)
    c[1, i] = cuda.clz(v)
    c[2, i] = cuda.ffs(v)
    c[3, i] = cuda.brev(v)
