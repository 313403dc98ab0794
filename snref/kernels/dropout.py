"""Dropout (Srivastava et al. 2014, section 4), from a counter instead of a stored mask.

Whether an element is kept follows from (seed, layer, iteration, element) alone, so
forward may be repeated, and backward needs nothing that forward left behind. The
generator is Philox4x32 with seven rounds (Salmon et al. 2011, section 5.1): a counter
of four words and a key of two give four random words. They serve four elements, a
quarter of the tensor apart, so that neighbouring threads touch neighbouring elements.
"""

from numba import cuda, float32, uint32, uint64


@cuda.jit(device=True)
def mix(c0, c1, c2, c3, k0, k1, number):
    """A round of Philox4x32: two products of 64 bits, halves exchanged, keys added."""
    a = uint64(c0) * uint64(0xD2511F53)
    b = uint64(c2) * uint64(0xCD9E8D57)
    key0 = uint32(uint64(k0) + uint64(number) * uint64(0x9E3779B9))
    key1 = uint32(uint64(k1) + uint64(number) * uint64(0xBB67AE85))
    c0 = uint32(uint32(b >> uint64(32)) ^ c1 ^ key0)
    c2 = uint32(uint32(a >> uint64(32)) ^ c3 ^ key1)
    return c0, uint32(b), c2, uint32(a)


@cuda.jit(device=True)
def philox(c0, c1, c2, c3, k0, k1):
    """The four random words of counter c under key k, all of 32 bits.

    Seven rounds, the fewest that pass every test of BigCrush; written out, because a
    loop would keep the words in memory between the rounds on a CPU.
    """
    c0, c1, c2, c3 = mix(c0, c1, c2, c3, k0, k1, 0)
    c0, c1, c2, c3 = mix(c0, c1, c2, c3, k0, k1, 1)
    c0, c1, c2, c3 = mix(c0, c1, c2, c3, k0, k1, 2)
    c0, c1, c2, c3 = mix(c0, c1, c2, c3, k0, k1, 3)
    c0, c1, c2, c3 = mix(c0, c1, c2, c3, k0, k1, 4)
    c0, c1, c2, c3 = mix(c0, c1, c2, c3, k0, k1, 5)
    return mix(c0, c1, c2, c3, k0, k1, 6)


@cuda.jit(device=True)
def scaled(value, word, ratio):
    """value / (1 - ratio), or 0 if the word, as a fraction of 2^32, is below ratio."""
    uniform = float32(word >> uint32(8)) * float32(2.0**-24)
    return value / (float32(1) - ratio) if uniform >= ratio else float32(0)


@cuda.jit(device=True)
def drop(y, x, seed, layer, iteration, ratio):
    """y[i] = x[i] / (1 - ratio) if u[i] >= ratio else 0, u uniform in [0, 1)."""
    n = x.size
    quarter = (n + 3) // 4
    k0 = uint32(seed)
    k1 = uint32(seed >> 32)
    for i in range(cuda.grid(1), quarter, cuda.gridsize(1)):
        w0, w1, w2, w3 = philox(
            uint32(i), uint32(i >> 32), uint32(layer), uint32(iteration), k0, k1
        )
        y[i] = scaled(x[i], w0, ratio)
        if i + quarter < n:
            y[i + quarter] = scaled(x[i + quarter], w1, ratio)
        if i + 2 * quarter < n:
            y[i + 2 * quarter] = scaled(x[i + 2 * quarter], w2, ratio)
        if i + 3 * quarter < n:
            y[i + 3 * quarter] = scaled(x[i + 3 * quarter], w3, ratio)


@cuda.jit(device=True)
def drop_part(y, x, seed, layer, iteration, ratio, first, size):
    """What `drop` does to the elements from `first` on of a tensor of `size` elements.

    A thread an element: the others of its quarter may be in another part.
    """
    quarter = (size + 3) // 4
    k0 = uint32(seed)
    k1 = uint32(seed >> 32)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        which = (first + i) // quarter
        place = first + i - which * quarter
        w0, w1, w2, w3 = philox(
            uint32(place), uint32(place >> 32), uint32(layer), uint32(iteration), k0, k1
        )
        word = w0
        if which == 1:
            word = w1
        elif which == 2:
            word = w2
        elif which == 3:
            word = w3
        y[i] = scaled(x[i], word, ratio)


@cuda.jit
def forward(y, x, seed, layer, iteration, ratio):
    """y[i] = x[i] / (1 - ratio) if u[i] >= ratio else 0. y may lie on x."""
    drop(y, x, seed, layer, iteration, ratio)


@cuda.jit
def backward(dx, dy, seed, layer, iteration, ratio):
    """dx[i] = dy[i] / (1 - ratio) if u[i] >= ratio else 0, with the u of forward.

    dx may lie on dy.
    """
    drop(dx, dy, seed, layer, iteration, ratio)


@cuda.jit
def forward_part(y, x, seed, layer, iteration, ratio, first, size):
    """`forward` of some images of a batch. y may lie on x."""
    drop_part(y, x, seed, layer, iteration, ratio, first, size)


@cuda.jit
def backward_part(dx, dy, seed, layer, iteration, ratio, first, size):
    """`backward` of some images of a batch. dx may lie on dy."""
    drop_part(dx, dy, seed, layer, iteration, ratio, first, size)
