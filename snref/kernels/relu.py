"""ReLU (Nair and Hinton 2010, section 2)."""

from numba import cuda, float32


@cuda.jit
def forward(y, x):
    """y[i] = x[i] if x[i] >= 0 else 0; a NaN stays a NaN. y may lie on x."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value = x[i]
        y[i] = float32(0) if value < float32(0) else value


@cuda.jit
def backward(dx, s, dy):
    """dx[i] = 0 if s[i] <= 0 else dy[i]: dy where s is NaN. dx may lie on dy.

    s is y or x: they are positive, or NaN, at the same places.
    """
    for i in range(cuda.grid(1), dx.size, cuda.gridsize(1)):
        gradient = dy[i]
        dx[i] = float32(0) if s[i] <= float32(0) else gradient
