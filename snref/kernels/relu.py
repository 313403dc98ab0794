"""ReLU (Nair and Hinton 2010, section 2)."""

from numba import cuda, float32, int32


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


BITS = 32  # of a word


@cuda.jit
def signs(words, y):
    """Bit b of words[i] says whether y[i + b W] > 0 or NaN; W words."""
    for i in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        word = int32(0)
        for b in range(BITS):
            place = i + b * words.size
            if place < y.size:
                # A comparison with NaN is false: NaN counts as positive.
                word |= int32(0) if y[place] <= float32(0) else int32(1) << int32(b)
        words[i] = word


@cuda.jit
def backward_by_signs(dx, words, dy):
    """dx[i] = dy[i] where the bit of i in words is 1, else 0. dx may lie on dy."""
    for i in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        word = words[i]
        for b in range(BITS):
            place = i + b * words.size
            if place < dx.size:
                gradient = dy[place]
                passes = (word >> int32(b)) & int32(1)
                dx[place] = gradient if passes else float32(0)
