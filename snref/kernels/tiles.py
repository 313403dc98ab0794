"""Device functions of tiled products: copy tiles to shared memory, multiply them.

A block of SIDE x SIDE threads computes a rectangle of outputs, several for each thread.
It goes along the sum in steps: copy a tile of either factor into shared memory, wait
for all threads, multiply the tiles, wait again. An element that is copied once serves
a whole row or column of the block's outputs, and a value that is read once from shared
memory serves several outputs of its thread: the speed depends on both.

A thread holds its outputs in `total`, a small local array. The compiler unrolls every
loop over it, so that it stays in registers. A thread's rows are `row_step` apart and
its columns SIDE apart: neighbouring threads in x work on neighbouring columns.

Source: Kirk and Hwu 2016, chapter 4 (tiles), and any BLAS (registers).
"""

from numba import cuda, float32

SIDE = 16


@cuda.jit(device=True)
def clear(total):
    """total[i,j] = 0"""
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[i, j] = float32(0)


@cuda.jit(device=True)
def add(total, part):
    """total[i,j] += part[i,j]"""
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[i, j] += part[i, j]


@cuda.jit(device=True)
def multiply(total, a, b, row, row_step, column, depth):
    """total[i,j] += sum_d a[row + row_step i, d] b[d, column + SIDE j], d ascending.

    a and b are tiles in shared memory, d runs over [0, depth).
    """
    for d in range(depth):
        for i in range(total.shape[0]):
            for j in range(total.shape[1]):
                total[i, j] += a[row + row_step * i, d] * b[d, column + SIDE * j]


@cuda.jit(device=True)
def multiply_transposed(total, a, b, row, row_step, column, depth):
    """total[i,j] += sum_d a[d, row + row_step i] b[d, column + SIDE j], d ascending.

    As `multiply`, for a factor whose tile lies as it does in memory, d down.
    """
    for d in range(depth):
        for i in range(total.shape[0]):
            for j in range(total.shape[1]):
                total[i, j] += a[d, row + row_step * i] * b[d, column + SIDE * j]


@cuda.jit(device=True)
def load(tile, rows, columns, matrix, row0, column0, row_end, column_end):
    """tile[r,c] = matrix[row0 + r, column0 + c] for r < rows, c < columns;

    0 where that row is not below row_end or that column not below column_end.
    """
    for i in range(rows // SIDE):
        for j in range(columns // SIDE):
            r = cuda.threadIdx.y + SIDE * i
            c = cuda.threadIdx.x + SIDE * j
            inside = row0 + r < row_end and column0 + c < column_end
            tile[r, c] = matrix[row0 + r, column0 + c] if inside else float32(0)


@cuda.jit(device=True)
def load_transposed(tile, rows, columns, matrix, row0, column0, row_end, column_end):
    """tile[c,r] = matrix[row0 + r, column0 + c], with the zeros of `load`.

    Neighbouring threads still read neighbouring elements of a row.
    """
    for i in range(rows // SIDE):
        for j in range(columns // SIDE):
            r = cuda.threadIdx.y + SIDE * i
            c = cuda.threadIdx.x + SIDE * j
            inside = row0 + r < row_end and column0 + c < column_end
            tile[c, r] = matrix[row0 + r, column0 + c] if inside else float32(0)


@cuda.jit(device=True)
def load_flat(tile, rows, columns, values, start, pitch, row_end, column_end):
    """tile[r,c] = values[start + r pitch + c] for r < rows, c < columns;

    0 unless r < row_end and c < column_end.
    """
    for i in range(rows // SIDE):
        for j in range(columns // SIDE):
            r = cuda.threadIdx.y + SIDE * i
            c = cuda.threadIdx.x + SIDE * j
            inside = r < row_end and c < column_end
            tile[r, c] = values[start + r * pitch + c] if inside else float32(0)
