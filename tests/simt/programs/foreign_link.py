"""Manual, "Calling foreign functions": a kernel linked with CUDA C, refused."""

from numba import cuda


@cuda.jit(link=["functions.cu"])
def reduce(result, array):
    result[()] = array[0]
