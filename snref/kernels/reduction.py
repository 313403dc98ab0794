"""Sums and maxima over the threads of a block, for the kernels of several layers."""

from numba import cuda


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
