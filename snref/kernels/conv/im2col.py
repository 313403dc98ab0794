"""Convolution as a plain matrix product, after writing the matrix X out (im2col).

y = w X, where row (c, r, s) of X holds the pixels that a filter's tap (c, r, s) meets,
one for every output pixel of every image. X takes R*S times the memory of the images
(less, with strides), and in return the product reads neither taps nor padding. It sums
in the order of `tiled`, so that both give the same bits.

Arrays are matrices and sizes are numbers as in `tiled`; the workspace is flat.

Occupancy: at least 12 %. A thread holds 16 sums and, in the gradients, the phase or the
image of what it copies. It hides latency by many independent sums, not by many warps.

Source: Chellapilla et al. 2006, section 3.
"""

from numba import cuda, float32, int32

from snref.kernels.conv.taps import phase_along, unravel
from snref.kernels.tiles import SIDE, add, clear, load, load_flat, multiply

TILE = 64  # a block computes 64 x 64 outputs, a thread 4 x 4
DEPTH = 32
EACH = TILE // SIDE
PITCH = DEPTH + 1
WIDE = TILE + 1


def _columns(strided):
    """The kernel that writes X; not strided: stride_w is 1, as the compiler knows."""

    @cuda.jit
    def columns(matrix, x, H, W, P, Q, R, S, stride_h, stride_w, pad_top, pad_left):
        """X[(c,r,s), (n,p,q)] = x[n,c,p*stride_h+r-pad_top,q*stride_w+s-pad_left]

        Blocks: y along (c, r, s), x along the rows (n, p).
        """
        tap_c = cuda.shared.array(SIDE, int32)
        tap_r = cuda.shared.array(SIDE, int32)
        tap_s = cuda.shared.array(SIDE, int32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        N = x.shape[0]
        C = x.shape[1] // (H * W)
        step = stride_w if strided else 1
        d0 = cuda.blockIdx.y * SIDE
        if ty == 0:
            c, r, s = unravel(d0 + tx, R, S)
            tap_c[tx] = c
            tap_r[tx] = r
            tap_s[tx] = s
        cuda.syncthreads()
        for row in range(cuda.blockIdx.x, N * P, cuda.gridDim.x):
            n = row // P
            h0 = (row - n * P) * stride_h - pad_top
            for q0 in range(0, Q, SIDE):
                c = tap_c[ty]
                q = q0 + tx
                h = h0 + tap_r[ty]
                v = q * step - pad_left + tap_s[ty]
                inside = h >= 0 and h < H and v >= 0 and v < W
                if c < C and q < Q:
                    matrix[((d0 + ty) * (N * P) + row) * Q + q] = (
                        x[n, (c * H + h) * W + v] if inside else float32(0)
                    )

    return columns


columns = _columns(strided=False)
columns_strided = _columns(strided=True)


@cuda.jit
def forward(y, w, matrix, groups):
    """y[n,k,p,q] = sum_d w[k,d] X[d,(n,p,q)], d over the taps of the filter's group.

    Blocks: x along (n, p, q), y along the filters of a group, z along the groups.
    """
    w_tile = cuda.shared.array((TILE, PITCH), float32)
    x_tile = cuda.shared.array((DEPTH, TILE), float32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N, CRS = y.shape[0], w.shape[1]
    K = w.shape[0] // groups
    PQ = y.shape[1] // w.shape[0]
    NPQ = N * PQ
    group = cuda.blockIdx.z
    k0 = cuda.blockIdx.y * TILE
    w0 = group * K + k0
    pixel0 = cuda.blockIdx.x * TILE
    clear(total)
    for d0 in range(0, CRS, DEPTH):
        load(w_tile, TILE, DEPTH, w, w0, d0, group * K + K, CRS)
        load_flat(
            x_tile,
            DEPTH,
            TILE,
            matrix,
            (group * CRS + d0) * NPQ + pixel0,
            NPQ,
            CRS - d0,
            NPQ - pixel0,
        )
        cuda.syncthreads()
        multiply(total, w_tile, x_tile, ty, SIDE, tx, min(DEPTH, CRS - d0))
        cuda.syncthreads()
    for j in range(EACH):
        pixel = pixel0 + tx + SIDE * j
        n = pixel // PQ
        pq = pixel - n * PQ
        for i in range(EACH):
            k = k0 + ty + SIDE * i
            if k < K and pixel < NPQ:
                y[n, (group * K + k) * PQ + pq] = total[i, j]


@cuda.jit
def gradient_columns(
    matrix, dy, H, W, P, Q, R, S, stride_h, stride_w, pad_top, pad_left
):
    """X[(k,r,s), (n,h,v)] = dy[n,k,p,q] of the output that meets pixel h, v at tap r, s

    for each phase of pixels that meet the same taps (see `tiled`), one after the
    other, in equal shares of the workspace.
    Blocks: y along (k, r, s), x along the rows (n, h), z along the phases.
    """
    tap_k = cuda.shared.array(SIDE, int32)
    tap_r = cuda.shared.array(SIDE, int32)
    tap_s = cuda.shared.array(SIDE, int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N = dy.shape[0]
    K = dy.shape[1] // (P * Q)
    phase = cuda.blockIdx.z
    r0 = phase // stride_w
    s0 = phase - r0 * stride_w
    phase_r, _, phase_h, p0 = phase_along(r0, stride_h, pad_top, R, H)
    phase_s, _, phase_w, q0 = phase_along(s0, stride_w, pad_left, S, W)
    share = matrix.size // (stride_h * stride_w)
    d0 = cuda.blockIdx.y * SIDE
    if ty == 0:
        tap = d0 + tx
        tap_k[tx] = K
        tap_r[tx] = 0
        tap_s[tx] = 0
        if tap < K * phase_r * phase_s:
            k, r, s = unravel(tap, phase_r, phase_s)
            tap_k[tx] = k
            tap_r[tx] = r
            tap_s[tx] = s
    cuda.syncthreads()
    for row in range(cuda.blockIdx.x, N * phase_h, cuda.gridDim.x):
        n = row // phase_h
        p1 = row - n * phase_h + p0
        for column0 in range(0, phase_w, SIDE):
            k = tap_k[ty]
            column = column0 + tx
            p = p1 - tap_r[ty]
            q = column + q0 - tap_s[ty]
            inside = p >= 0 and p < P and q >= 0 and q < Q
            if k < K and column < phase_w:
                place = ((d0 + ty) * (N * phase_h) + row) * phase_w + column
                matrix[phase * share + place] = (
                    dy[n, (k * P + p) * Q + q] if inside else float32(0)
                )


@cuda.jit
def data(dx, w, matrix, H, W, R, S, stride_h, stride_w, pad_top, pad_left, groups):
    """dx[n,c,h,v] = sum_krs w[k,c,r,s] X[(k,r,s),(n,h,v)], k over the channel's group.

    Blocks: x along the pixels (n, h, v) of a phase, y along the channels of a group,
    z along phase and group.
    """
    w_tile = cuda.shared.array((TILE, PITCH), float32)
    y_tile = cuda.shared.array((DEPTH, TILE), float32)
    tap_k = cuda.shared.array(DEPTH, int32)
    tap_w = cuda.shared.array(DEPTH, int32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    thread = ty * SIDE + tx
    N = dx.shape[0]
    K, C = w.shape[0] // groups, w.shape[1] // (R * S)
    phase = cuda.blockIdx.z // groups
    group = cuda.blockIdx.z - phase * groups
    r0 = phase // stride_w
    s0 = phase - r0 * stride_w
    phase_r, h0, phase_h, _ = phase_along(r0, stride_h, pad_top, R, H)
    phase_s, v0, phase_w, _ = phase_along(s0, stride_w, pad_left, S, W)
    depth = K * phase_r * phase_s
    pixels = N * phase_h * phase_w
    first = phase * (matrix.size // (stride_h * stride_w)) + group * depth * pixels
    c0 = cuda.blockIdx.y * TILE
    pixel0 = cuda.blockIdx.x * TILE
    clear(total)
    for d0 in range(0, depth, DEPTH):
        if thread < DEPTH:
            k, r, s = unravel(d0 + thread, phase_r, phase_s)
            tap_k[thread] = k
            tap_w[thread] = (r0 + r * stride_h) * S + s0 + s * stride_w
        cuda.syncthreads()
        for i in range(EACH):
            for e in range(DEPTH // SIDE):
                c = ty + SIDE * i
                d = tx + SIDE * e
                k = tap_k[d]
                inside = c0 + c < C and k < K
                w_tile[c, d] = (
                    w[group * K + k, (c0 + c) * (R * S) + tap_w[d]]
                    if inside
                    else float32(0)
                )
        load_flat(
            y_tile,
            DEPTH,
            TILE,
            matrix,
            first + d0 * pixels + pixel0,
            pixels,
            depth - d0,
            pixels - pixel0,
        )
        cuda.syncthreads()
        multiply(total, w_tile, y_tile, ty, SIDE, tx, min(DEPTH, depth - d0))
        cuda.syncthreads()
    for j in range(EACH):
        pixel = pixel0 + tx + SIDE * j
        row = pixel // max(phase_w, 1)
        n = row // max(phase_h, 1)
        h = h0 + (row - n * phase_h) * stride_h
        v = v0 + (pixel - row * phase_w) * stride_w
        for i in range(EACH):
            c = c0 + ty + SIDE * i
            if c < C and pixel < pixels:
                dx[n, ((group * C + c) * H + h) * W + v] = total[i, j]


@cuda.jit
def filter(dw, matrix, dy, groups, images, block, resume):
    """dw[k,d] = sum_npq dy[n,k,p,q] X[d,(n,p,q)]

    Slices of `images` images, blocks of `block` pixels. resume = 1: add to what dw
    holds, the sum of the slices before.
    Blocks: x along d = (c, r, s), y along the filters of a group, z along the groups.
    """
    x_tile = cuda.shared.array((DEPTH, WIDE), float32)
    y_tile = cuda.shared.array((TILE, PITCH), float32)
    part = cuda.local.array((EACH, EACH), float32)
    total = cuda.local.array((EACH, EACH), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    N, CRS = dy.shape[0], dw.shape[1]
    K = dw.shape[0] // groups
    PQ = dy.shape[1] // dw.shape[0]
    group = cuda.blockIdx.z
    k0 = cuda.blockIdx.y * TILE
    d0 = cuda.blockIdx.x * TILE
    for n0 in range(0, N, images):
        clear(total)
        for n in range(n0, min(n0 + images, N)):
            for start in range(0, PQ, block):
                clear(part)
                end = min(start + block, PQ)
                for pixel0 in range(start, end, DEPTH):
                    for j in range(EACH):
                        for e in range(DEPTH // SIDE):
                            d = ty + SIDE * j
                            pixel = pixel0 + tx + SIDE * e
                            inside = d0 + d < CRS and pixel < end
                            x_tile[tx + SIDE * e, d] = (
                                matrix[((group * CRS + d0 + d) * N + n) * PQ + pixel]
                                if inside
                                else float32(0)
                            )
                    y0 = (group * K + k0) * PQ + pixel0
                    load_flat(y_tile, TILE, DEPTH, dy[n], y0, PQ, K - k0, end - pixel0)
                    cuda.syncthreads()
                    depth = min(DEPTH, end - pixel0)
                    multiply(part, y_tile, x_tile, ty, SIDE, tx, depth)
                    cuda.syncthreads()
                add(total, part)
        for i in range(EACH):
            k = k0 + ty + SIDE * i
            for j in range(EACH):
                d = d0 + tx + SIDE * j
                inside = k < K and d < CRS
                more = inside and n0 + resume > 0
                before = dw[group * K + k, d] if more else float32(0)
                if inside:
                    dw[group * K + k, d] = before + total[i, j]
