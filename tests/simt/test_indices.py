"""Indices: negative ones count from the end, and those that cannot be stay plain."""

import ast
import random

import numpy as np
import pytest
from numba import cuda, float32, int64, types

from snref import simt
from snref.simt import ir
from snref.simt.indices import indices

FLOATS = types.Array(types.float32, 1, "C")
TABLE = types.Array(types.float32, 2, "C")
BLOCK = (16, 4, 1)
GIVEN = {"a": FLOATS, "m": TABLE, "n": int64, "k": int64, "t": types.UniTuple(int64, 2)}
OWN = {"s": ir.Array("shared", (64,), types.int32, 1)}


def kernel_of(text, given=GIVEN, own=OWN):
    body = tuple(ast.parse(text).body)
    return ir.Kernel("kernel", (), 1, BLOCK, given, body, own)


def wrapped(text, assume=True):
    """The lines with an index that the stage wraps."""
    lines = ir.text(indices(kernel_of(text), assume).body)
    return [line for line in lines if "_wrap(" in line]


NATURAL = [
    "a[threadIdx_x] = a[blockIdx_x * 16 + threadIdx_x]",
    "a[15 - threadIdx_x] = m[threadIdx_y, 63 - 4 * threadIdx_x]",
    "for i in range(n): a[i] = a[n - 1 - i]",
    "for i in range(n - 1, -1, -1): a[i] = 0",
    "if k >= 0 and k < n: a[n - 1 - k] = a[k]",
    "i = a.shape[0] // 2\nwhile i > 0:\n    a[i] = 0\n    i //= 2",
    "i = threadIdx_x - k\nif i >= 0: a[i] = 0",
    "i = n - k\nhere = i >= 0 and i < n\nx = a[i] if here else 0",
    "q = k // n\nr = k - q * n\nm[q, r] = m[k // n, k % n]",
    "q = k // n\nr = (k - q * n) * k + q\na[r] = 0",
    "first = max(threadIdx_x - k, 0)\nfor i in range(first, n): a[i] = a[i - first]",
    "for i in range(k):\n    if i < threadIdx_x: continue\n    a[i - threadIdx_x] = 0",
    "s[threadIdx_x] = n * 4\n_barrier()\na[s[0] + 1] = 0",
    "a[t[0] * n + t[1]] = a[abs(n - k)]",
    "a[(n ^ k) & 31] = a[-5 & 31]",
    "a[uint32(n - k)] = a[k % (n + 1)]",
    "if not k >= n: a[n - k - 1] = 0",
    "for r in range(n):\n    for c in range(k): a[k - 1 - c + r * k] = 0",
    "d = 1\nwhile d < n:\n    a[2 * d * (threadIdx_x + 1) - 1] = 0\n    d *= 2",
]
EITHER = [
    "a[threadIdx_x - 1] = 0",
    "a[n - k] = 0",
    "a[s[0]] = 0\ns[1] = threadIdx_x - 1",
    "if k >= 0: k = k - 5\na[k] = 0",
    "i = k\nif i > 3:\n    i = i - 4\n    a[i - 4] = 0",
    "x = a[0]\nif x > 0: a[int(x) - 1] = 0",
    "for i in range(n):\n    i = i - 2\n    a[i] = 0",
    "i = n - k\nwhile i >= 0:\n    i -= 3\n    a[i] = 0",
    "here = k > 2\nk = k - n\nif here: a[k] = 0",
    "a[int8(n)] = 0",
    "if n > k: a[n - k - 2] = 0",
    "for i in range(n): a[n - i - 2] = 0",
]


@pytest.mark.parametrize("text", NATURAL)
def test_an_index_that_is_never_negative_stays_as_it_is(text):
    assert wrapped(text) == []


@pytest.mark.parametrize("text", EITHER)
def test_an_index_that_may_be_negative_is_wrapped(text):
    assert len(wrapped(text)) == 1


def test_parameters_may_be_negative_where_nothing_is_assumed():
    assert wrapped("a[n] = 0", assume=False) == ["a[_wrap(n, a.shape[0])] = 0"]
    assert indices(kernel_of("a[n] = m[0, k]")).assumed == ("k", "n")
    assert indices(kernel_of("a[n] = m[0, k]"), assume=False).assumed == ()
    assert wrapped("if n > 2: a[n - 3] = 0", assume=False) == []


def test_a_constant_index_of_a_block_s_own_array_is_counted_at_once():
    assert ir.text(indices(kernel_of("s[-1] = s[-65]")).body) == [
        "s[63] = s[_wrap(-65, 64)]"
    ]


class _Writer:
    """Writes random kernels of whole numbers, with loops, branches and accesses."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = ["n", "k", "threadIdx_x", "blockIdx_x"]
        self.near = ["n"]  # what conditions say something about

    def number(self, depth=2):
        r = self.random
        if depth == 0 or r.random() < 0.4:
            return r.choice([*self.names, *map(str, range(-3, 9))])
        x, y = self.number(depth - 1), self.number(depth - 1)
        positive = r.choice(["abs(n) + 1", "3", "8"])
        forms = [f"({x} + {y})", f"({x} - {y})", f"{x} * {y}", f"({x}) // ({positive})"]
        forms += [f"({x}) % ({positive})", f"min({x}, {y})", f"max({x}, {y})"]
        forms += [f"({x} if {x} < {y} else {y} - 1)", f"(({x}) & 7)", f"(({x}) >> 1)"]
        return r.choice(forms)

    def test(self, depth=1):
        r = self.random
        x, y = self.number(1), self.number(1)
        plain = f"{x} {r.choice(['<', '<=', '>', '>=', '=='])} {y}"
        differences = [f"({x}) - ({y})", f"({y}) - ({x})"]
        self.near += differences + [f"{d} - 1" for d in differences]
        if r.random() < 0.2:
            plain = f"not ({plain})"
        if depth == 0 or r.random() < 0.6:
            return plain
        word = r.choice(["and", "or"])
        return f"({plain} {word} {'not ' * r.randrange(2)}({self.test(depth - 1)}))"

    def block(self, depth, pad):
        r, lines = self.random, []
        for _ in range(r.randrange(2, 5)):
            what = r.random()
            if what < 0.35:
                near = r.choice(self.near[-8:])
                lines.append(f"{pad}a[{r.choice([near, self.number()])}] = 0")
            elif what < 0.6 or depth == 0:
                v = r.choice(["n", "k", "x", "y", "z", *self.names[4:]])
                lines.append(f"{pad}{v} = {self.number()}")
                if not pad:
                    self.names.append(v)
            elif what < 0.8:
                lines += [f"{pad}if {self.test()}:", *self.block(depth - 1, pad + "  ")]
                if r.random() < 0.5:
                    lines += [f"{pad}else:", *self.block(depth - 1, pad + "  ")]
            else:
                i = f"i{len(self.names)}"
                step = r.choice(["", ", 2", ", -1"])
                over = f"{self.number(1)}, {self.number(1)}{step}"
                lines.append(f"{pad}for {i} in range({over}):")
                self.names.append(i)
                lines += self.block(depth - 1, pad + "  ")
                if r.random() < 0.3:
                    lines.append(f"{pad}  if {self.test()}: break")
                self.names.remove(i)
                self.near = [e for e in self.near if i not in e]
        return lines


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(100, 500, 100))],
)
def test_what_stays_plain_is_never_negative_in_random_kernels(seed):
    """Each access `a[i]` of the stage's text runs as Python for several threads."""
    seen = kept = 0
    for s in range(seed, seed + 100):
        text = "\n".join(_Writer(s).block(3, ""))
        body = ir.text(indices(kernel_of(text)).body)
        found = _Elements()
        for thread, block, n, k in [(0, 0, 0, 0), (15, 3, 5, 2), (7, 1, 2, 9)]:
            scope = {"threadIdx_x": thread, "blockIdx_x": block, "n": n, "k": k}
            scope |= {"a": found, "_wrap": lambda i, n: None, "range": _short}
            scope |= dict.fromkeys("xyz", 0)
            exec("\n".join(body), scope)
        assert not found.negative, "\n".join([*body, str(found.negative)])
        seen, kept = seen + found.all, kept + found.all - found.wrapped
    assert kept > seen / 10  # and not for want of proofs


def _short(*args):
    return list(range(*args))[:20]


class _Elements:
    shape = (100,)

    def __init__(self):
        self.all = self.wrapped = 0
        self.negative = []

    def __setitem__(self, i, value):
        self.all += 1
        self.wrapped += i is None
        if i is not None and i < 0:
            self.negative.append(i)


# ------------------------------------------------------------------ whole kernels


@cuda.jit(device=True)
def last(x):
    return x[-1]


@cuda.jit
def from_the_end(a, b, out, shift):
    i = cuda.grid(1)
    s = cuda.shared.array(8, float32)
    own = cuda.local.array(4, float32)
    s[i] = a[i, -1]
    own[-1] = i
    cuda.syncthreads()
    row = a[-2]
    part = row[1:-1]
    tail = part[-2:]
    out[i, 0] = a[i - 1, 0] + s[i - 1] + s[-1]
    out[i, 1] = own[3] + own[-1]
    out[i, 2] = row[-1] + part[-1] + tail[-1] + tail[0]
    out[i, 3] = last(row) + last(b) + last(tail) + tail.size + part.shape[0]
    out[i, 4] = b[i + shift] + b[b[0] - i - 1]
    for x in b[-3:]:
        out[i, 5] += x
    for x in b[5:100]:
        out[i, 5] += x
    empty = row[5:2]
    out[i, 6] += empty.size
    cuda.atomic.add(out, (-1, -1), 1)
    out[i, -3] = -i


def expected(a, b, shift):
    out = np.zeros((8, 11))
    row, part, tail = a[-2], a[-2][1:-1], a[-2][1:-1][-2:]
    for i in range(8):
        out[i, 0] = a[i - 1, 0] + a[i - 1, -1] + a[-1, -1]
        out[i, 1] = 2 * i
        out[i, 2] = row[-1] + part[-1] + tail[-1] + tail[0]
        out[i, 3] = row[-1] + b[-1] + tail[-1] + 2 + 6
        out[i, 4] = b[i + shift] + b[b[0] - i - 1]
        out[i, 5] = b[-3:].sum() + b[5:100].sum()
        out[-1, -1] += 1
        out[i, -3] = -i
    return out


RUNS = [
    simt.compile,
    pytest.param(simt.check, marks=pytest.mark.slow),
    pytest.param(simt.profile, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("run", RUNS)
def test_negative_indices_count_from_the_end(run):
    a, b = np.arange(64, dtype=np.float32).reshape(8, 8), np.arange(8)
    for shift in (0, -3):  # a kernel for each sign
        out = np.zeros((8, 11))
        run(from_the_end)[1, 8](a, b, out, shift)
        np.testing.assert_array_equal(out, expected(a, b, shift))


@cuda.jit
def unsigned(a, out, u):
    i = cuda.threadIdx.x
    out[i] = a[u - u + i] + a[np.uint8(i + 256)]


def test_unsigned_indices_do_not_wrap():
    a, out = np.arange(8.0), np.zeros(8)
    simt.compile(unsigned)[1, 8](a, out, np.uint64(3))
    assert out.tolist() == (2 * a).tolist()


@cuda.jit
def far_outside(a):
    a[cuda.threadIdx.x - 70] = 1


def test_check_mode_names_a_negative_index_as_it_is_written():
    with pytest.raises(simt.KernelError, match=r"a\[-70\] is out of bounds"):
        simt.check(far_outside)[1, 1](np.zeros(64))
