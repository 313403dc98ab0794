"""Convolution as a matrix product whose tiles are gathered on the way (implicit GEMM).

y = w X, where row (c, r, s) of X holds the pixels that a filter's tap (c, r, s) meets,
one for every output pixel. X is never stored: a block copies the tile it needs next
into shared memory, multiplies it with its tile of w, and goes on, so that an element
brought in once serves a whole row or column of the block's outputs. The gradients are
the same product with other parts in other places.

Arrays are matrices here, a row an image, or a filter with its C/groups*R*S weights; the
filter gradient's are flat. The sizes that this hides come as numbers: images H x W,
outputs P x Q, filters R x S. (For filters of one tap with stride 1, which see no
neighbours, H x W may be any two numbers with that product.)

Blocks are 16 x 16 threads; neighbouring threads in x have neighbouring pixels, so that
global reads are coalesced. Tiles are DEPTH products deep, or half of it. A thread
computes several rows and columns of its block's outputs in registers: per value read
from shared memory it does more work, and that is what the speed hangs on. Kernels exist
in a few shapes, for many filters and for few. Their names say what a block computes:
forward_32x8 is 32 filters at 8 rows of 16 pixels, data_32x8 is 32 channels at as many,
filter_64x64 is 64 weights of 64 filters. `snref.layers.conv_algorithms` chooses.

Occupancy: at least 12 %. A thread holds up to 24 sums, in filter_strided_64x96 of a
block and of a slice, and the addresses of the elements that it gathers, in up to 236
registers. It hides latency by many independent sums instead of by many warps.

Source: Chetlur et al. 2014 (cuDNN), section 3.
"""

from numba import cuda, float32, int32

from snref.kernels.conv.taps import phase_along, unravel
from snref.kernels.tiles import SIDE, add, clear, multiply

DEPTH = 32
PITCH = DEPTH + 1  # tiles are padded: elements of a column lie in different banks


def _forward(filters, rows, strided=False):
    """The kernel whose blocks compute `filters` filters at `rows` rows of 16 pixels.

    strided: for any stride_w; else stride_w must be 1, which the compiler then knows,
    so that neighbouring threads read neighbouring pixels.
    """
    i_count = 4 if filters <= 64 else filters // SIDE
    k_step = filters // i_count  # threads along the filters; the others, along the rows
    j_count = rows * k_step // SIDE
    pixels = rows * SIDE
    deep = DEPTH if pixels <= 128 else DEPTH // 2  # shared memory for many blocks
    pitch = deep + 1
    w_passes = (filters + SIDE - 1) // SIDE

    @cuda.jit
    def forward(
        y, x, w, H, W, P, Q, R, S, stride_h, stride_w, pad_top, pad_left, groups
    ):
        """y[n,k,p,q] = sum_crs w[k,c,r,s] x[n,c,p*sh+r-pad_top,q*sw+s-pad_left]

        Blocks: x along q within the rows (n, p), y along group and filters.
        """
        w_tile = cuda.shared.array((filters, pitch), float32)
        x_tile = cuda.shared.array((deep, pixels), float32)
        tap_c = cuda.shared.array(deep, int32)
        tap_r = cuda.shared.array(deep, int32)
        tap_s = cuda.shared.array(deep, int32)
        total = cuda.local.array((i_count, j_count), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        thread = ty * SIDE + tx
        N, CRS = x.shape[0], w.shape[1]
        K, C = w.shape[0] // groups, CRS // (R * S)
        k_tiles = (K + filters - 1) // filters
        group = cuda.blockIdx.y // k_tiles
        k0 = (cuda.blockIdx.y - group * k_tiles) * filters
        across = (Q + SIDE - 1) // SIDE  # blocks
        down = cuda.blockIdx.x // across
        row0 = down * rows
        column = (cuda.blockIdx.x - down * across) * SIDE + tx
        step = stride_w if strided else 1
        v0 = column * step - pad_left
        kt = ty % k_step
        jt = ty // k_step * j_count
        clear(total)
        for d0 in range(0, CRS, deep):
            # which tap each row of the tile belongs to
            if thread < deep:
                c, r, s = unravel(d0 + thread, R, S)
                tap_c[thread] = c
                tap_r[thread] = r
                tap_s[thread] = s
            cuda.syncthreads()
            for i in range(w_passes):
                for e in range(deep // SIDE):
                    k = ty + SIDE * i
                    d = tx + SIDE * e
                    if k < filters:
                        inside = k0 + k < K and d0 + d < CRS
                        w_tile[k, d] = (
                            w[group * K + k0 + k, d0 + d] if inside else float32(0)
                        )
            for j in range(rows):
                row = row0 + j
                n = row // P
                h0 = (row - n * P) * stride_h - pad_top
                for e in range(deep // SIDE):
                    d = ty + SIDE * e
                    c = tap_c[d]
                    h = h0 + tap_r[d]
                    v = v0 + tap_s[d]
                    inside = n < N and c < C and h >= 0 and h < H and v >= 0 and v < W
                    x_tile[d, tx + SIDE * j] = (
                        x[n, ((group * C + c) * H + h) * W + v]
                        if inside
                        else float32(0)
                    )
            cuda.syncthreads()
            depth = min(deep, CRS - d0)
            multiply(total, w_tile, x_tile, kt, k_step, jt * SIDE + tx, depth)
            cuda.syncthreads()
        for j in range(j_count):
            row = row0 + jt + j
            n = row // P
            p = row - n * P
            for i in range(i_count):
                k = k0 + kt + k_step * i
                if k < K and n < N and column < Q:
                    y[n, ((group * K + k) * P + p) * Q + column] = total[i, j]

    return forward


def _data(channels, rows):
    """The kernel whose blocks compute `channels` channels at `rows` rows of 16 pixels.

    Pixels one stride apart meet the same taps, so a block computes such pixels only:
    rows h = h0, h0 + stride_h, ... meet the taps r = r0, r0 + stride_h, ...; columns
    likewise. There are stride_h * stride_w such phases.
    """
    i_count = 4
    c_step = channels // i_count
    j_count = rows * c_step // SIDE
    pixels = rows * SIDE
    deep = DEPTH if pixels <= 128 else DEPTH // 2  # shared memory for many blocks
    pitch = deep + 1
    w_passes = (channels + SIDE - 1) // SIDE

    @cuda.jit
    def data(
        dx, dy, w, H, W, P, Q, R, S, stride_h, stride_w, pad_top, pad_left, groups
    ):
        """dx[n,c,h,v] = sum_krs dy[n,k,p,q] w[k,c,r,s]

        over the p, q, r, s with p*stride_h+r-pad_top = h, q*stride_w+s-pad_left = v.
        Blocks: x along v within the rows (n, h), y along phase, group and channels.
        """
        w_tile = cuda.shared.array((channels, pitch), float32)
        y_tile = cuda.shared.array((deep, pixels), float32)
        tap_k = cuda.shared.array(deep, int32)
        tap_r = cuda.shared.array(deep, int32)
        tap_s = cuda.shared.array(deep, int32)
        tap_w = cuda.shared.array(deep, int32)
        total = cuda.local.array((i_count, j_count), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        thread = ty * SIDE + tx
        N = dy.shape[0]
        K, C = w.shape[0] // groups, w.shape[1] // (R * S)
        c_tiles = (C + channels - 1) // channels
        phase = cuda.blockIdx.y // (groups * c_tiles)
        r0 = phase // stride_w
        s0 = phase - r0 * stride_w
        y = cuda.blockIdx.y - phase * (groups * c_tiles)
        group = y // c_tiles
        c0 = (y - group * c_tiles) * channels
        phase_r, h0, phase_h, p0 = phase_along(r0, stride_h, pad_top, R, H)
        phase_s, v0, _, q0 = phase_along(s0, stride_w, pad_left, S, W)
        phase_h = max(phase_h, 1)
        depth = K * phase_r * phase_s
        across = ((W + stride_w - 1) // stride_w + SIDE - 1) // SIDE  # blocks
        down = cuda.blockIdx.x // across
        row0 = down * rows
        column = (cuda.blockIdx.x - down * across) * SIDE + tx
        ct = ty % c_step
        jt = ty // c_step * j_count
        clear(total)
        for d0 in range(0, depth, deep):
            if thread < deep:
                k, r, s = unravel(d0 + thread, phase_r, phase_s)
                tap_k[thread] = k
                tap_r[thread] = r
                tap_s[thread] = s
                tap_w[thread] = (r0 + r * stride_h) * S + s0 + s * stride_w
            cuda.syncthreads()
            for i in range(w_passes):
                for e in range(deep // SIDE):
                    c = ty + SIDE * i
                    d = tx + SIDE * e
                    if c < channels:
                        k = tap_k[d]
                        inside = c0 + c < C and k < K
                        w_tile[c, d] = (
                            w[group * K + k, (c0 + c) * (R * S) + tap_w[d]]
                            if inside
                            else float32(0)
                        )
            for j in range(rows):
                row = row0 + j
                n = row // phase_h
                p1 = row - n * phase_h + p0
                for e in range(deep // SIDE):
                    d = ty + SIDE * e
                    k = tap_k[d]
                    p = p1 - tap_r[d]
                    q = column + q0 - tap_s[d]
                    inside = n < N and k < K and p >= 0 and p < P and q >= 0 and q < Q
                    y_tile[d, tx + SIDE * j] = (
                        dy[n, ((group * K + k) * P + p) * Q + q]
                        if inside
                        else float32(0)
                    )
            cuda.syncthreads()
            last = min(deep, depth - d0)
            multiply(total, w_tile, y_tile, ct, c_step, jt * SIDE + tx, last)
            cuda.syncthreads()
        v = v0 + column * stride_w
        for j in range(j_count):
            row = row0 + jt + j
            n = row // phase_h
            h = h0 + (row - n * phase_h) * stride_h
            for i in range(i_count):
                c = c0 + ct + c_step * i
                if c < C and n < N and h < H and v < W:
                    dx[n, ((group * C + c) * H + h) * W + v] = total[i, j]

    return data


def _filter(weights, filters, strided=False):
    """The kernel whose blocks compute `weights` weights of each of `filters` filters.

    strided as for `_forward`.
    """
    i_count = filters // SIDE
    j_count = weights // SIDE
    x_pitch = weights + 1

    @cuda.jit
    def filter(
        dw,
        x,
        dy,
        N,
        H,
        W,
        P,
        Q,
        R,
        S,
        stride_h,
        stride_w,
        pad_top,
        pad_left,
        groups,
        images,
        block,
        apart,
        resume,
    ):
        """dw[k,c,r,s] = sum_npq dy[n,k,p,q] x[n,c,p*sh+r-pad_top,q*sw+s-pad_left]

        Slices of `images` images, blocks of `block` pixels, whole rows. apart = 1:
        write the slices' sums one after the other, for `sum_slices`, and do not add
        them; then another slice is another thread block, which small dw need to fill
        a GPU. resume = 1: add to what dw holds, the sum of the slices before.
        All arrays are flat.
        Blocks: x along (c, r, s), y along a group's filters, z along slice and group.
        """
        x_tile = cuda.shared.array((DEPTH, x_pitch), float32)
        y_tile = cuda.shared.array((filters, PITCH), float32)
        tap_c = cuda.shared.array(weights, int32)
        tap_r = cuda.shared.array(weights, int32)
        tap_s = cuda.shared.array(weights, int32)
        part = cuda.local.array((i_count, j_count), float32)
        total = cuda.local.array((i_count, j_count), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        thread = ty * SIDE + tx
        K = dy.size // (N * P * Q * groups)
        C = x.size // (N * H * W * groups)
        CRS = C * R * S
        group = cuda.blockIdx.z % groups
        k0 = cuda.blockIdx.y * filters
        d0 = cuda.blockIdx.x * weights
        step = stride_w if strided else 1
        # a tile is `tall` rows of `wide` outputs, row after row
        parts = (Q + DEPTH - 1) // DEPTH
        wide = (Q + parts - 1) // parts
        tall = DEPTH // wide
        if thread < weights:
            c, r, s = unravel(d0 + thread, R, S)
            tap_c[thread] = c
            tap_r[thread] = r
            tap_s[thread] = s
        cuda.syncthreads()
        slices = (N + images - 1) // images
        for slice_ in range(
            cuda.blockIdx.z // groups, slices, cuda.gridDim.z // groups
        ):
            clear(total)
            for n in range(slice_ * images, min((slice_ + 1) * images, N)):
                x0 = (n * groups + group) * C * H * W
                y0 = ((n * groups + group) * K + k0) * P * Q
                for start in range(0, P, block // Q):
                    clear(part)
                    end = min(start + block // Q, P)
                    for p0 in range(start, end, tall):
                        for q0 in range(0, Q, wide):
                            for t in range(tall):
                                p = p0 + t
                                h0 = p * stride_h - pad_top
                                for e in range((wide + SIDE - 1) // SIDE):
                                    column = tx + SIDE * e
                                    q = q0 + column
                                    v0 = q * step - pad_left
                                    there = p < end and q < Q
                                    for j in range(j_count):
                                        d = ty + SIDE * j
                                        c = tap_c[d]
                                        h = h0 + tap_r[d]
                                        v = v0 + tap_s[d]
                                        inside = h >= 0 and h < H and v >= 0 and v < W
                                        if column < wide:
                                            x_tile[t * wide + column, d] = (
                                                x[x0 + (c * H + h) * W + v]
                                                if there and c < C and inside
                                                else float32(0)
                                            )
                                    for i in range(i_count):
                                        k = ty + SIDE * i
                                        if column < wide:
                                            y_tile[k, t * wide + column] = (
                                                dy[y0 + (k * P + p) * Q + q]
                                                if there and k0 + k < K
                                                else float32(0)
                                            )
                            cuda.syncthreads()
                            multiply(part, y_tile, x_tile, ty, SIDE, tx, tall * wide)
                            cuda.syncthreads()
                    add(total, part)
            first = (slice_ * apart * groups + group) * K * CRS
            more = apart == 0 and slice_ + resume > 0
            for i in range(i_count):
                k = k0 + ty + SIDE * i
                for j in range(j_count):
                    d = d0 + tx + SIDE * j
                    place = first + k * CRS + d
                    inside = k < K and d < CRS
                    before = dw[place] if inside and more else float32(0)
                    if inside:
                        dw[place] = before + total[i, j]

    return filter


@cuda.jit
def sum_slices(dw, parts, slices, resume):
    """dw[i] = sum_s parts[s,i], s ascending; a thread an element. Arrays are flat.

    resume = 1: add to what dw holds, the sum of the slices before.
    """
    for i in range(cuda.grid(1), dw.size, cuda.gridsize(1)):
        total = dw[i] if resume else float32(0)
        for s in range(slices):
            total += parts[s * dw.size + i]
        dw[i] = total


forward_32x8 = _forward(32, 8)
forward_16x16 = _forward(16, 16)
forward_strided_96x4 = _forward(96, 4, strided=True)
forward_strided_32x8 = _forward(32, 8, strided=True)

data_32x8 = _data(32, 8)
data_4x16 = _data(4, 16)

filter_64x64 = _filter(64, 64)
filter_32x32 = _filter(32, 32)
filter_strided_64x96 = _filter(64, 96, strided=True)
filter_strided_80x64 = _filter(80, 64, strided=True)
