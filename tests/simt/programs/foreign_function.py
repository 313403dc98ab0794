"""Manual, "Calling foreign functions": a function in CUDA C, refused."""

from numba import cuda

multiply = cuda.declare_device("mul_f32_f32", "float32(float32, float32)")


@cuda.jit(link=["functions.cu"])
def multiply_vectors(out, x, y):
    i = cuda.grid(1)
    if i < len(out):
        out[i] = multiply(x[i], y[i])
