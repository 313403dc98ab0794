"""Long sums: the order in which they are added, and sums over the threads of a block.

A float32 accumulator that adds n terms one after another may be off by n/2 units in
the last place: for the mean of an image of 512 x 512 equal values, 0.2 %. Every sum
over the pixels or the images of a batch is therefore cut into three levels, at places
that follow from its shapes alone:

block   terms that one accumulator adds, in ascending order
slice   consecutive images, as many as `snref.layers.slices` says: the sum of its
        blocks, in ascending order
total   the slices' sums, in ascending order

Grids, tiles, threads and machines do not matter, so that all algorithms for a sum give
the same bits. The total may be stored after any slice: a batch that is split between
two slices goes on from there to the same bits.

Filter gradients (`conv`, `linear`)
    A block is rows of one image, at most 512 pixels unless one row has more; in a fully
    connected layer it is a slice. The error is at most (terms of a block + blocks of a
    slice + slices) / 2 units in the last place of sum |term|.
Bias gradients, batch norm, global average
    The threads of a thread block share a slice (`thread_sum`). A block is at most BLOCK
    pixels, of one thread, of each of GROUP images. Blocks are added with compensation,
    so that their number does not matter; then a tree adds the threads' sums
    (`block_sum`). The error is at most (BLOCK GROUP + log2 threads + slices) / 2 units.
    For batch norm the slice is the batch, which cannot be split: the variance needs the
    mean of all.
Softmax, mean of the losses
    Each of 128 threads adds every 128th term, then a tree adds them: terms / 128
    + 7 roundings.
Average pooling
    The rows of a column, then the columns: kernel_h + kernel_w roundings.

Sums over the channels of a layer have one accumulator: see `conv` and `linear`.
"""

from numba import cuda, float32

BLOCK, GROUP = 16, 8  # terms of an image, and images, that one accumulator adds


@cuda.jit(device=True)
def compensated(total, error, value):
    """Add a value to a sum that knows its own error; return both (Kahan 1965).

    error is by how much total is too large. An infinite sum has none: it stays so.
    """
    value -= error
    result = total + value
    error = (result - total) - value
    return result, (error if error == error else float32(0))


@cuda.jit(device=True)
def thread_sum(x, c, n0, n1, image, images, pixel, pixels, block):
    """Return sum_ni x[n,c,i], a thread's share of the images n0 <= n < n1 of a channel.

    The thread has every images-th image from n0 + image on, and of these every
    pixels-th pixel from `pixel` on. A block is `block` pixels of each of GROUP images.
    """
    total = float32(0)
    error = float32(0)
    for base in range(n0, n1, GROUP * images):
        after = min(base + GROUP * images, n1)
        for start in range(0, x.shape[2], block * pixels):
            end = min(start + block * pixels, x.shape[2])
            part = float32(0)
            for n in range(base + image, after, images):
                for i in range(start + pixel, end, pixels):
                    part += x[n, c, i]
            total, error = compensated(total, error, part)
    return total


@cuda.jit(device=True)
def block_sum(part, value, thread, threads):
    """Return the sum of all threads' values, the same to each thread of the block.

    part is a shared array of `threads` elements, a power of two. The sum is a tree
    whose shape follows from `threads`, so that the same values always give the same
    bits.
    """
    part[thread] = value
    half = threads // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            part[thread] += part[thread + half]
        half //= 2
    cuda.syncthreads()
    result = part[0]
    cuda.syncthreads()
    return result


@cuda.jit(device=True)
def block_max(part, value, thread, threads):
    """Return the largest of all threads' values; arguments as for `block_sum`."""
    part[thread] = value
    half = threads // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            part[thread] = max(part[thread], part[thread + half])
        half //= 2
    cuda.syncthreads()
    result = part[0]
    cuda.syncthreads()
    return result
