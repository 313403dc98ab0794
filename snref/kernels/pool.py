"""Max and average pooling (Krizhevsky et al. 2012, section 3.4; Lin et al. 2014, 3.2).

Window (p, q) covers the rows h of p stride_h - pad_top + r, r < kernel_h, that lie in
the image, and the columns w of q stride_w - pad_left + s likewise: padding is never a
maximum, and adds nothing to a sum.

A block is one row of threads, 32 or 64, which goes down a plane (a channel of an image)
together, a row of windows after another, in two steps with a row of shared memory
between them. (Where one window is the whole plane, `global_average_forward`, a thread
takes a plane.)

Forward: the maximum or sum of every column first, which overlapping windows share, then
of the columns of each window.

Backward: a pixel gathers from the windows around it, a row of windows after another,
which needs no atomics and fixes the order of its sum. The gradients of such a row are
spread out to the columns where its windows start, with zeros between: then threads of
neighbouring columns read neighbouring words, whatever the stride, and no index is
divided.

Occupancy: at least 12 %. Loops over the rows and columns of a window are unrolled, with
several loads under way together; `max_backward` keeps row, column and gradient of each.
"""

import math

from numba import cuda, float32, int32

from snref.kernels.reduction import thread_sum

# Columns in shared memory: a tile, its margins, and what the threads of a block write
# beyond it, which nobody reads. A multiple of the block.
SPAN = 192
WIDEST = 64  # the largest kernel_w: it leaves room for a tile with blocks of 64


@cuda.jit
def max_forward(y, x, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left):
    """y[n,c,p,q] = max_hw x[n,c,h,w] over window (p, q); NaN if it holds one."""
    column = cuda.shared.array(SPAN, float32)  # the largest value of each column
    N, C, H, W = x.shape
    P, Q = y.shape[2], y.shape[3]
    tx = cuda.threadIdx.x
    tile = (SPAN - cuda.blockDim.x - kernel_w) // stride_w + 1
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for q0 in range(0, Q, tile):
            q1 = min(q0 + tile, Q)
            start = q0 * stride_w - pad_left  # the column of word 0
            words = (q1 - q0 - 1) * stride_w + kernel_w
            for p in range(P):
                h0 = max(p * stride_h - pad_top, 0)
                h1 = min(p * stride_h - pad_top + kernel_h, H)
                for base in range(0, words, cuda.blockDim.x):
                    w = start + base + tx
                    highest = float32(-math.inf)
                    for h in range(h0, h1):
                        value = float32(-math.inf)
                        if w >= 0 and w < W:
                            value = x[n, c, h, w]
                        higher = (value > highest) | (value != value)
                        highest = value if higher else highest
                    column[base + tx] = highest
                cuda.syncthreads()
                for q in range(q0 + tx, q1, cuda.blockDim.x):
                    highest = float32(-math.inf)
                    for s in range(kernel_w):
                        value = column[(q - q0) * stride_w + s]
                        higher = (value > highest) | (value != value)
                        highest = value if higher else highest
                    y[n, c, p, q] = highest
                cuda.syncthreads()


@cuda.jit
def max_backward(dx, x, dy, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left):
    """dx[n,c,h,w] = sum_pq dy[n,c,p,q] over the windows whose first maximum is (h, w),

    first in the order of rows, then columns; of a window that holds NaNs, the last NaN
    has the gradient, as in PyTorch. Two steps find it: the maximum of every column of
    the window, then the maximum of those.
    """
    # For every column, of a row of windows:
    highest = cuda.shared.array(SPAN, float32)  # the largest value in the column,
    row = cuda.shared.array(SPAN, int32)  # the first row where it stands,
    winner = cuda.shared.array(SPAN, int32)  # the column of the maximum in a window
    spread = cuda.shared.array(SPAN, float32)  # that starts here; and its dy
    N, C, H, W = dx.shape
    P, Q = dy.shape[2], dy.shape[3]
    tx = cuda.threadIdx.x
    margin = max(kernel_w, 1) - 1
    tile = SPAN - 2 * margin - cuda.blockDim.x
    for base in range(0, SPAN, cuda.blockDim.x):
        highest[base + tx] = float32(-math.inf)
        row[base + tx] = int32(0)
        winner[base + tx] = int32(0)
    cuda.syncthreads()
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for left in range(0, W, tile):
            right = min(left + tile, W)
            start = left - margin  # the column of word 0
            q0 = max(0, (start + pad_left + stride_w - 1) // stride_w)
            q1 = min(Q, (right - 1 + pad_left) // stride_w + 1)
            done = 0  # rows of dx that have been written
            for base in range(0, SPAN, cuda.blockDim.x):
                spread[base + tx] = float32(0)
            cuda.syncthreads()
            for p in range(P):
                h0 = max(p * stride_h - pad_top, 0)
                h1 = min(p * stride_h - pad_top + kernel_h, H)
                for base in range(0, right + margin - start, cuda.blockDim.x):
                    i = base + tx
                    w = start + i
                    best = float32(-math.inf)
                    place = int32(h0)
                    if w >= 0 and w < W:
                        best = x[n, c, h0, w]
                    for h in range(h0 + 1, h1):
                        value = float32(-math.inf)
                        if w >= 0 and w < W:
                            value = x[n, c, h, w]
                        better = (value > best) | (value != value)
                        best = value if better else best
                        place = int32(h) if better else place
                    highest[i] = best
                    row[i] = place
                if pad_left > 0:
                    for i in range(tx, -start, cuda.blockDim.x):
                        row[i] = int32(H)  # padding before the image wins no tie
                cuda.syncthreads()
                for q in range(q0 + tx, q1, cuda.blockDim.x):
                    spread[q * stride_w - pad_left - start] = dy[n, c, p, q]
                for base in range(0, right - start, cuda.blockDim.x):
                    i = base + tx
                    best = highest[i]
                    above = row[i]
                    place = int32(0)
                    for s in range(1, kernel_w):
                        value = highest[i + s]
                        tied = (value == best) & (row[i + s] < above)
                        last = (best == best) | (row[i + s] >= above)
                        better = (value > best) | tied | (value != value) & last
                        best = value if better else best
                        above = row[i + s] if better else above
                        place = int32(s) if better else place
                    winner[i] = place
                cuda.syncthreads()
                for base in range(0, right - left, cuda.blockDim.x):
                    i = base + tx + margin
                    w = left + base + tx
                    gradient = spread[i] if winner[i] == int32(0) else float32(0)
                    for s in range(1, kernel_w):
                        won = winner[i - s] == int32(s)
                        gradient += spread[i - s] if won else float32(0)
                    place = row[i]
                    if w < right:
                        for h in range(h0, done):
                            won = place == int32(h)
                            dx[n, c, h, w] += gradient if won else float32(0)
                        for h in range(done, h1):
                            won = place == int32(h)
                            dx[n, c, h, w] = gradient if won else float32(0)
                cuda.syncthreads()
                done = h1
            for h in range(done, H):
                for w in range(left + tx, right, cuda.blockDim.x):
                    dx[n, c, h, w] = float32(0)


@cuda.jit
def max_backward_apart(
    dx, x, dy, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left
):
    """The dx of ``max_backward``, to its bits, if no window overlaps another.

    dx may lie on x: a thread reads a window, and then writes it and what lies between
    it and the next one.
    """
    N, C, H, W = x.shape
    P, Q = dy.shape[2], dy.shape[3]
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for p in range(P):
            h0 = max(p * stride_h - pad_top, 0)
            h1 = min(p * stride_h - pad_top + kernel_h, H)
            below = H if p == P - 1 else (p + 1) * stride_h - pad_top
            for q in range(cuda.threadIdx.x, Q, cuda.blockDim.x):
                w0 = max(q * stride_w - pad_left, 0)
                w1 = min(q * stride_w - pad_left + kernel_w, W)
                right = W if q == Q - 1 else (q + 1) * stride_w - pad_left
                best = x[n, c, h0, w0]
                place = int32(h0 * W + w0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        value = x[n, c, h, w]
                        better = (value > best) | (value != value)
                        best = value if better else best
                        place = int32(h * W + w) if better else place
                gradient = dy[n, c, p, q]
                if kernel_w > 1:
                    gradient += float32(0)  # a sum, as there: of -0 it is 0
                for h in range(h0, below):
                    for w in range(w0, right):
                        first = h * W + w == place
                        dx[n, c, h, w] = gradient if first else float32(0)


@cuda.jit
def max_indices(index, x, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left):
    """index[n,c,p,q] = h W + w of the first maximum in window (p, q), row by row;

    of a window that holds NaNs, of the last NaN, as in ``max_backward``.
    """
    N, C, H, W = x.shape
    P, Q = index.shape[2], index.shape[3]
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for p in range(P):
            h0 = max(p * stride_h - pad_top, 0)
            h1 = min(p * stride_h - pad_top + kernel_h, H)
            for q in range(cuda.threadIdx.x, Q, cuda.blockDim.x):
                w0 = max(q * stride_w - pad_left, 0)
                w1 = min(q * stride_w - pad_left + kernel_w, W)
                best = x[n, c, h0, w0]
                place = int32(h0 * W + w0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        value = x[n, c, h, w]
                        better = (value > best) | (value != value)
                        best = value if better else best
                        place = int32(h * W + w) if better else place
                index[n, c, p, q] = place


@cuda.jit
def max_scatter(
    dx, index, dy, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left
):
    """dx[n,c,h,w] = sum_pq dy[n,c,p,q] over the windows with index[n,c,p,q] = h W + w.

    Sums in the order of ``max_backward``, and so to its bits: the windows of a row from
    right to left first, then the rows.
    """
    winner = cuda.shared.array(SPAN, int32)  # the index of the window that starts here
    spread = cuda.shared.array(SPAN, float32)  # and its dy
    N, C, H, W = dx.shape
    P, Q = dy.shape[2], dy.shape[3]
    tx = cuda.threadIdx.x
    margin = max(kernel_w, 1) - 1
    tile = SPAN - 2 * margin - cuda.blockDim.x
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for left in range(0, W, tile):
            right = min(left + tile, W)
            start = left - margin  # the column of word 0
            q0 = max(0, (start + pad_left + stride_w - 1) // stride_w)
            q1 = min(Q, (right - 1 + pad_left) // stride_w + 1)
            done = 0  # rows of dx that have been written
            for base in range(0, SPAN, cuda.blockDim.x):
                winner[base + tx] = int32(-1)
                spread[base + tx] = float32(0)
            cuda.syncthreads()
            for p in range(P):
                h0 = max(p * stride_h - pad_top, 0)
                h1 = min(p * stride_h - pad_top + kernel_h, H)
                for q in range(q0 + tx, q1, cuda.blockDim.x):
                    winner[q * stride_w - pad_left - start] = index[n, c, p, q]
                    spread[q * stride_w - pad_left - start] = dy[n, c, p, q]
                cuda.syncthreads()
                for base in range(0, right - left, cuda.blockDim.x):
                    i = base + tx + margin
                    w = left + base + tx
                    if w < right:
                        for h in range(min(h0, done), h1):
                            here = int32(h * W + w)
                            gradient = spread[i] if winner[i] == here else float32(0)
                            for s in range(1, kernel_w):
                                won = winner[i - s] == here
                                gradient += spread[i - s] if won else float32(0)
                            if h < done:
                                gradient += dx[n, c, h, w]
                            dx[n, c, h, w] = gradient
                cuda.syncthreads()
                done = h1
            for h in range(done, H):
                for w in range(left + tx, right, cuda.blockDim.x):
                    dx[n, c, h, w] = float32(0)


@cuda.jit
def average_forward(
    y,
    x,
    kernel_h,
    kernel_w,
    stride_h,
    stride_w,
    pad_top,
    pad_left,
    count_padding,
):
    """y[n,c,p,q] = 1/m sum_hw x[n,c,h,w] over window (p, q)

    with m = kernel_h kernel_w, or the values of the window that lie in the image if
    count_padding is 0.
    """
    column = cuda.shared.array(SPAN, float32)  # the sum of each column
    N, C, H, W = x.shape
    P, Q = y.shape[2], y.shape[3]
    tx = cuda.threadIdx.x
    tile = (SPAN - cuda.blockDim.x - kernel_w) // stride_w + 1
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for q0 in range(0, Q, tile):
            q1 = min(q0 + tile, Q)
            start = q0 * stride_w - pad_left  # the column of word 0
            words = (q1 - q0 - 1) * stride_w + kernel_w
            for p in range(P):
                h0 = max(p * stride_h - pad_top, 0)
                h1 = min(p * stride_h - pad_top + kernel_h, H)
                for base in range(0, words, cuda.blockDim.x):
                    w = start + base + tx
                    total = float32(0)
                    for h in range(h0, h1):
                        value = float32(0)
                        if w >= 0 and w < W:
                            value = x[n, c, h, w]
                        total += value
                    column[base + tx] = total
                cuda.syncthreads()
                for q in range(q0 + tx, q1, cuda.blockDim.x):
                    w = q * stride_w - pad_left
                    columns = min(w + kernel_w, W) - max(w, 0)
                    m = kernel_h * kernel_w if count_padding else (h1 - h0) * columns
                    total = float32(0)
                    for s in range(kernel_w):
                        total += column[w - start + s]
                    y[n, c, p, q] = total / float32(m)
                cuda.syncthreads()


@cuda.jit
def average_backward(
    dx,
    dy,
    kernel_h,
    kernel_w,
    stride_h,
    stride_w,
    pad_top,
    pad_left,
    count_padding,
):
    """dx[n,c,h,w] = sum_pq dy[n,c,p,q] / m over the windows that hold (h, w)."""
    spread = cuda.shared.array(SPAN, float32)
    N, C, H, W = dx.shape
    P, Q = dy.shape[2], dy.shape[3]
    tx = cuda.threadIdx.x
    margin = kernel_w - 1
    tile = SPAN - 2 * margin - cuda.blockDim.x
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        for left in range(0, W, tile):
            right = min(left + tile, W)
            start = left - margin  # the column of word 0
            q0 = max(0, (start + pad_left + stride_w - 1) // stride_w)
            q1 = min(Q, (right - 1 + pad_left) // stride_w + 1)
            for base in range(0, SPAN, cuda.blockDim.x):
                spread[base + tx] = float32(0)
            cuda.syncthreads()
            for h in range(H):
                p0 = max(0, (h + pad_top - kernel_h) // stride_h + 1)
                p1 = min(P, (h + pad_top) // stride_h + 1)
                for q in range(q0 + tx, q1, cuda.blockDim.x):
                    w = q * stride_w - pad_left
                    columns = min(w + kernel_w, W) - max(w, 0)
                    total = float32(0)
                    for p in range(p0, p1):
                        top = p * stride_h - pad_top
                        rows = min(top + kernel_h, H) - max(top, 0)
                        m = kernel_h * kernel_w if count_padding else rows * columns
                        total += dy[n, c, p, q] / float32(m)
                    spread[w - start] = total
                cuda.syncthreads()
                for base in range(0, right - left, cuda.blockDim.x):
                    i = base + tx + margin
                    w = left + base + tx
                    total = float32(0)
                    for s in range(kernel_w):
                        total += spread[i - s]
                    if w < right:
                        dx[n, c, h, w] = total
                cuda.syncthreads()


@cuda.jit
def global_average_forward(y, x):
    """y[n,c,0] = 1/pixels sum_i x[n,c,i]: the one window is the whole image."""
    N, C, pixels = x.shape
    for plane in range(cuda.grid(1), N * C, cuda.gridsize(1)):
        n = plane // C
        c = plane - n * C
        total = thread_sum(x, c, n, n + 1, 0, 1, 0, 1, 64)
        y[n, c, 0] = total / float32(pixels)


@cuda.jit
def global_average_backward(dx, dy):
    """dx[n,c,i] = dy[n,c,0] / pixels."""
    N, C, pixels = dx.shape
    for plane in range(cuda.blockIdx.x, N * C, cuda.gridDim.x):
        n = plane // C
        c = plane - n * C
        share = dy[n, c, 0] / float32(pixels)
        for i in range(cuda.threadIdx.x, pixels, cuda.blockDim.x):
            dx[n, c, i] = share
