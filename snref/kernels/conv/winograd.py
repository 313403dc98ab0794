"""Convolution with 3 x 3 taps and stride 1 in fewer multiplications: F(2x2, 3x3).

Four outputs of a 2 x 2 tile need 36 products with nine taps; Winograd's minimal
filtering needs 16. With d the 4 x 4 pixels that the tile sees and g the filter,

    y = A' [ (G g G') * (B' d B) ] A          * element by element, ' transposed

         1  0 -1  0          1    0    0
    B' = 0  1  1  0     G =  1/2  1/2  1/2    A' = 1  1  1  0
         0 -1  1  0          1/2 -1/2  1/2         0  1 -1 -1
         0  1  0 -1          0    0    1

summed over the channels before A is applied. The element-wise product over all filters,
channels and tiles is sixteen matrix products, one for each of the 16 places. The
gradient by the data is the same convolution, of dy with the filters turned round.

Everything lies in one flat workspace: transformed filters U [16, K, C], pixels
V [16, C, tiles], products M [16, K, tiles]; for the data gradient K and C change
places. A tile's number is (n * rows of tiles + its row) * tiles a row + its column.

Occupancy: at least 12 %. `pixels` has a thread's 16 reads under way together, each with
its address; they hide latency instead of many warps.

Source: Lavin and Gray 2016, section 4.1.
"""

from numba import cuda, float32

from snref.kernels.tiles import SIDE, clear, load_flat, multiply

TILE = 64  # a block of the product computes 64 x 64 outputs, a thread 4 x 4
DEPTH = 32
EACH = TILE // SIDE
PITCH = DEPTH + 1
PLACES = 16


@cuda.jit
def forward_filters(workspace, w):
    """U[:,:,k,c] = G w[k,c] G', a thread a filter and channel."""
    row = cuda.local.array((4, 3), float32)
    half = float32(0.5)
    K = w.shape[0]
    C = w.shape[1] // 9
    for k in range(cuda.blockIdx.y, K, cuda.gridDim.y):
        for c in range(cuda.grid(1), C, cuda.gridsize(1)):
            for s in range(3):
                above = w[k, c * 9 + s]
                middle = w[k, c * 9 + 3 + s]
                below = w[k, c * 9 + 6 + s]
                row[0, s] = above
                row[1, s] = (above + below + middle) * half
                row[2, s] = (above + below - middle) * half
                row[3, s] = below
            for a in range(4):
                ends = row[a, 0] + row[a, 2]
                place = (4 * a * K + k) * C + c
                workspace[place] = row[a, 0]
                workspace[place + K * C] = (ends + row[a, 1]) * half
                workspace[place + 2 * K * C] = (ends - row[a, 1]) * half
                workspace[place + 3 * K * C] = row[a, 2]


@cuda.jit
def data_filters(workspace, w, groups):
    """U[:,:,c,k] = G w[k,c] turned by 180 degrees G', a thread a channel and filter.

    k counts the filters of a group, c the channels of all groups.
    """
    row = cuda.local.array((4, 3), float32)
    half = float32(0.5)
    K = w.shape[0] // groups
    C = w.shape[1] // 9
    for c in range(cuda.blockIdx.y, groups * C, cuda.gridDim.y):
        group = c // C
        first = (c - group * C) * 9
        for k in range(cuda.grid(1), K, cuda.gridsize(1)):
            for s in range(3):
                above = w[group * K + k, first + 8 - s]
                middle = w[group * K + k, first + 5 - s]
                below = w[group * K + k, first + 2 - s]
                row[0, s] = above
                row[1, s] = (above + below + middle) * half
                row[2, s] = (above + below - middle) * half
                row[3, s] = below
            for a in range(4):
                ends = row[a, 0] + row[a, 2]
                place = (4 * a * (groups * C) + c) * K + k
                size = groups * C * K
                workspace[place] = row[a, 0]
                workspace[place + size] = (ends + row[a, 1]) * half
                workspace[place + 2 * size] = (ends - row[a, 1]) * half
                workspace[place + 3 * size] = row[a, 2]


@cuda.jit
def pixels(workspace, x, H, W, rows, columns, pad_top, pad_left, first):
    """V[:,:,c,tile] = B' d B, d[a,b] = x[n,c,2*row+a-pad_top,2*column+b-pad_left]

    rows, columns: tiles an image; first: where V starts in the workspace.
    Blocks: x along the rows of tiles of all images, y along the channels.
    """
    t = cuda.local.array((4, 4), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N = x.shape[0]
    C = x.shape[1] // (H * W)
    c = cuda.blockIdx.y * SIDE + ty
    size = C * N * rows * columns
    for line in range(cuda.blockIdx.x, N * rows, cuda.gridDim.x):
        n = line // rows
        h0 = (line - n * rows) * 2 - pad_top
        for column0 in range(0, columns, SIDE):
            column = column0 + tx
            v0 = column * 2 - pad_left
            if c < C and column < columns:
                for a in range(4):
                    h = h0 + a
                    for b in range(4):
                        v = v0 + b
                        inside = h >= 0 and h < H and v >= 0 and v < W
                        t[a, b] = x[n, (c * H + h) * W + v] if inside else float32(0)
                for b in range(4):
                    d0 = t[0, b]
                    d1 = t[1, b]
                    d2 = t[2, b]
                    d3 = t[3, b]
                    t[0, b] = d0 - d2
                    t[1, b] = d1 + d2
                    t[2, b] = d2 - d1
                    t[3, b] = d1 - d3
                place = first + (c * (N * rows) + line) * columns + column
                for a in range(4):
                    at = place + 4 * a * size
                    workspace[at] = t[a, 0] - t[a, 2]
                    workspace[at + size] = t[a, 1] + t[a, 2]
                    workspace[at + 2 * size] = t[a, 2] - t[a, 1]
                    workspace[at + 3 * size] = t[a, 1] - t[a, 3]


@cuda.jit
def product(workspace, K, C, tiles, groups):
    """M[place,k,tile] = sum_c U[place,k,c] V[place,c,tile], c over the group's channels

    K: filters of all groups; C: channels of one.
    Blocks: x along the tiles, y along the filters of a group, z along place and group.
    """
    u_tile = cuda.shared.array((TILE, PITCH), float32)
    v_tile = cuda.shared.array((DEPTH, TILE), float32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    place = cuda.blockIdx.z // groups
    group = cuda.blockIdx.z - place * groups
    own = K // groups
    u = (place * K + group * own) * C
    v = PLACES * K * C + (place * groups + group) * C * tiles
    m = PLACES * C * (K + groups * tiles) + (place * K + group * own) * tiles
    k0 = cuda.blockIdx.y * TILE
    tile0 = cuda.blockIdx.x * TILE
    clear(total)
    for c0 in range(0, C, DEPTH):
        start = u + k0 * C + c0
        load_flat(u_tile, TILE, DEPTH, workspace, start, C, own - k0, C - c0)
        start = v + c0 * tiles + tile0
        load_flat(v_tile, DEPTH, TILE, workspace, start, tiles, C - c0, tiles - tile0)
        cuda.syncthreads()
        multiply(total, u_tile, v_tile, ty, SIDE, tx, min(DEPTH, C - c0))
        cuda.syncthreads()
    for i in range(EACH):
        k = k0 + ty + SIDE * i
        for j in range(EACH):
            tile = tile0 + tx + SIDE * j
            if k < own and tile < tiles:
                workspace[m + k * tiles + tile] = total[i, j]


@cuda.jit
def outputs(y, workspace, P, Q, first):
    """y[n,k,2*row+a,2*column+b] = (A' M[:,:,k,tile] A)[a,b]

    first: where M starts in the workspace.
    Blocks: x along the rows of tiles of all images, y along the filters.
    """
    t = cuda.local.array((2, 4), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N = y.shape[0]
    K = y.shape[1] // (P * Q)
    rows = (P + 1) // 2
    columns = (Q + 1) // 2
    k = cuda.blockIdx.y * SIDE + ty
    size = K * N * rows * columns
    for line in range(cuda.blockIdx.x, N * rows, cuda.gridDim.x):
        n = line // rows
        p = (line - n * rows) * 2
        for column0 in range(0, columns, SIDE):
            column = column0 + tx
            q = column * 2
            if k < K and column < columns:
                place = first + (k * (N * rows) + line) * columns + column
                for b in range(4):
                    m0 = workspace[place + b * size]
                    m1 = workspace[place + (4 + b) * size]
                    m2 = workspace[place + (8 + b) * size]
                    m3 = workspace[place + (12 + b) * size]
                    t[0, b] = m0 + m1 + m2
                    t[1, b] = m1 - m2 - m3
                for a in range(2):
                    if p + a < P:
                        at = (k * P + p + a) * Q + q
                        y[n, at] = t[a, 0] + t[a, 1] + t[a, 2]
                        if q + 1 < Q:
                            y[n, at + 1] = t[a, 1] - t[a, 2] - t[a, 3]
