"""Sums and maxima over the threads of a block, for the kernels of several layers."""

from numba import cuda


@cuda.jit(device=True)
def fold_sum(part, thread, threads):
    """part[0] = sum of part[0:threads], for every thread of the block to read.

    A tree whose shape follows from `threads` (a power of two), so that the same
    values always give the same bits.
    """
    half = threads // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            part[thread] += part[thread + half]
        half //= 2
    cuda.syncthreads()


@cuda.jit(device=True)
def fold_max(part, thread, threads):
    """part[0] = max of part[0:threads], for every thread of the block to read."""
    half = threads // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            part[thread] = max(part[thread], part[thread + half])
        half //= 2
    cuda.syncthreads()
