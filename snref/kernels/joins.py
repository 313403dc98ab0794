"""Joins and forks: copies, sums and concatenation along the channels.

`copy`, `add` and `accumulate` serve forks as well: what several readers send back is
summed one after another, always in the same order. `take` and `put` cut a batch into
parts, and join them.
"""

from numba import cuda


@cuda.jit
def copy(y, x):
    """y[i] = x[i]."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


@cuda.jit
def add(y, a, b):
    """y[i] = a[i] + b[i]: a residual join (He et al. 2016, eq. 1). y may lie on a."""
    for i in range(cuda.grid(1), y.size, cuda.gridsize(1)):
        y[i] = a[i] + b[i]


@cuda.jit
def accumulate(y, x):
    """y[i] = y[i] + x[i]."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] += x[i]


@cuda.jit
def concat(y, x, offset):
    """y[n,offset+i] = x[n,i] (Szegedy et al. 2015, section 4: filter concatenation)."""
    for n in range(cuda.blockIdx.y, x.shape[0], cuda.gridDim.y):
        for i in range(cuda.grid(1), x.shape[1], cuda.gridsize(1)):
            y[n, offset + i] = x[n, i]


@cuda.jit
def split(dx, dy, offset):
    """dx[n,i] = dy[n,offset+i]."""
    for n in range(cuda.blockIdx.y, dx.shape[0], cuda.gridDim.y):
        for i in range(cuda.grid(1), dx.shape[1], cuda.gridsize(1)):
            dx[n, i] = dy[n, offset + i]


@cuda.jit
def take(part, y, offset):
    """part[i] = y[offset+i]: some images of a batch."""
    for i in range(cuda.grid(1), part.size, cuda.gridsize(1)):
        part[i] = y[offset + i]


@cuda.jit
def put(y, part, offset):
    """y[offset+i] = part[i]: some images of a batch."""
    for i in range(cuda.grid(1), part.size, cuda.gridsize(1)):
        y[offset + i] = part[i]
