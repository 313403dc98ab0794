"""Convolution as its definition says: a thread an output, no shared memory.

The algorithm to read first, and the one for filters of a single channel, where there
is nothing to share. A block's second index chooses what its threads have in common,
so that they read the same weight and neighbouring pixels.

Occupancy: at least 25 %. The compiler unrolls the innermost loop, and every read in it
has an address and a test of its own.
"""

from numba import cuda, float32

from snref.kernels.conv.taps import unravel


@cuda.jit
def forward(y, x, w, stride_h, stride_w, pad_top, pad_left, groups):
    """y[n,k,p,q] = sum_crs x[n,c,p*stride_h+r-pad_top,q*stride_w+s-pad_left] w[k,c,r,s]

    c runs over the channels of the filter's group.
    """
    N, K, P, Q = y.shape
    H, W = x.shape[2], x.shape[3]
    C, R, S = w.shape[1], w.shape[2], w.shape[3]
    for nk in range(cuda.blockIdx.y, N * K, cuda.gridDim.y):
        n = nk // K
        k = nk - n * K
        first = k // (K // groups) * C
        for pq in range(cuda.grid(1), P * Q, cuda.gridsize(1)):
            p = pq // Q
            q = pq - p * Q
            total = float32(0)
            for c in range(C):
                for r in range(R):
                    for s in range(S):
                        h = p * stride_h + r - pad_top
                        v = q * stride_w + s - pad_left
                        value = float32(0)
                        if h >= 0 and h < H and v >= 0 and v < W:
                            value = x[n, first + c, h, v]
                        total += value * w[k, c, r, s]
            y[n, k, p, q] = total


@cuda.jit
def data(dx, dy, w, stride_h, stride_w, pad_top, pad_left, groups):
    """dx[n,c,h,v] = sum_krs dy[n,k,p,q] w[k,c,r,s]

    over the k of the channel's group and the p, q, r, s with
    p*stride_h + r - pad_top = h and q*stride_w + s - pad_left = v.
    """
    N, C, H, W = dx.shape
    P, Q = dy.shape[2], dy.shape[3]
    K = w.shape[0] // groups
    R, S = w.shape[2], w.shape[3]
    width = C // groups
    for nc in range(cuda.blockIdx.y, N * C, cuda.gridDim.y):
        n = nc // C
        c = nc - n * C
        group = c // width
        for hv in range(cuda.grid(1), H * W, cuda.gridsize(1)):
            h = hv // W
            v = hv - h * W
            # the first taps that meet the pixel, and the output that meets it there
            p0 = (h + pad_top) // stride_h
            q0 = (v + pad_left) // stride_w
            r0 = h + pad_top - p0 * stride_h
            s0 = v + pad_left - q0 * stride_w
            total = float32(0)
            for k in range(K):
                for i in range((R + stride_h - 1) // stride_h):
                    for j in range((S + stride_w - 1) // stride_w):
                        r = r0 + i * stride_h
                        s = s0 + j * stride_w
                        if r < R and s < S:
                            p = p0 - i
                            q = q0 - j
                            value = float32(0)
                            if p >= 0 and p < P and q >= 0 and q < Q:
                                value = dy[n, group * K + k, p, q]
                            total += value * w[group * K + k, c - group * width, r, s]
            dx[n, c, h, v] = total


@cuda.jit
def filter(
    dw, x, dy, stride_h, stride_w, pad_top, pad_left, groups, images, block, resume
):
    """dw[k,c,r,s] = sum_npq dy[n,k,p,q] x[n,c,p*sh+r-pad_top,q*sw+s-pad_left]

    with strides sh and sw; slices of `images` images, blocks of `block` pixels.
    resume = 1: add to what dw holds, the sum of the slices before.
    """
    K, C, R, S = dw.shape
    N, H, W = x.shape[0], x.shape[2], x.shape[3]
    P, Q = dy.shape[2], dy.shape[3]
    for k in range(cuda.blockIdx.y, K, cuda.gridDim.y):
        first = k // (K // groups) * C
        for crs in range(cuda.grid(1), C * R * S, cuda.gridsize(1)):
            c, r, s = unravel(crs, R, S)
            total = dw[k, c, r, s] if resume else float32(0)
            for n0 in range(0, N, images):
                own = float32(0)
                for n in range(n0, min(n0 + images, N)):
                    part = float32(0)
                    left = block
                    for p in range(P):
                        for q in range(Q):
                            h = p * stride_h + r - pad_top
                            v = q * stride_w + s - pad_left
                            value = float32(0)
                            if h >= 0 and h < H and v >= 0 and v < W:
                                value = x[n, first + c, h, v]
                            part += value * dy[n, k, p, q]
                            left -= 1
                            if left == 0:
                                own += part
                                part = float32(0)
                                left = block
                    own += part
                total += own
            dw[k, c, r, s] = total
