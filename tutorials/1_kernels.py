# %% [markdown]
# # 1. Kernels: what a GPU is told to do
#
# **At the end you can** write a CUDA kernel in Python and run it without a GPU; say
# what threads, blocks, shared memory and barriers are for; find a mistake in a kernel
# with a checker; and count whether a kernel reads memory well.
#
# **Before you begin**: Python and NumPy. You need no GPU and no CUDA.
#
# **Time**: about 60 minutes. The cells run for about 15 seconds the first time, when
# kernels are compiled, and for about 5 seconds after that (two cores).
#
# How to read: where the text asks you to *predict*, write your answer down before you
# run the next cell. All cells run from top to bottom.
#
# The first cell loads snref, and says how to install it if it is missing. In Colab, that
# is from a wheel that you upload.

# %%
try:
    import snref
except ModuleNotFoundError:
    raise SystemExit(
        "snref is not installed in this Python. On your computer: in a clone of its "
        "repository, run `pip install -e .`. In Colab: build a wheel from a clone with "
        "`pip wheel --no-deps .`, upload the file snref-*.whl (the folder symbol on "
        "the left), run `%pip install snref-*.whl` in a cell, then this one again."
    ) from None

import inspect
import warnings

import matplotlib.pyplot as plt
import numpy as np
from numba import cuda, float32

from snref import simt
from snref.__main__ import main as run_snref
from snref.device.present import find_gpu
from snref.kernels import relu

print("snref", snref.__version__)

# %% [markdown]
# `snref doctor` says what works on this machine. It is a command for a terminal; here
# we call it from Python. If something does not work, it prints the line that repairs it.

# %%
exit_code = run_snref(["doctor"])

# %% [markdown]
# ## One thread
#
# A *kernel* is a function that a GPU runs many times at once. Each run is a *thread*.
# All threads run the same code. A thread learns which one it is from `cuda.grid(1)`,
# and so each of them can work on its own element.


# %%
@cuda.jit
def add_one(y, x):
    i = cuda.grid(1)
    y[i] = x[i] + float32(1)


# %% [markdown]
# A kernel returns nothing. It writes to an array that it was given. So by convention
# the outputs come first, then the inputs.
#
# Threads come in *blocks*. A launch says how many blocks there are, and how many
# threads each block has: `[blocks, threads]`. `simt.compile` makes a kernel that runs
# on the CPU, with the same blocks and threads as on a GPU.
#
# **Predict**: `x` holds 0, 1, ... 7. What does `y` hold after the launch?

# %%
x = np.arange(8, dtype=np.float32)
y = np.zeros(8, np.float32)
simt.compile(add_one)[2, 4](y, x)  # 2 blocks of 4 threads
print(y)
assert y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]

# %% [markdown]
# ## One source, three devices
#
# The same function runs in three ways:
#
# | device | how | what for |
# |---|---|---|
# | a GPU | `add_one[2, 4](y, x)` | speed |
# | the CPU, compiled | `simt.compile(add_one)[2, 4](y, x)` | the same result without a GPU |
# | the CPU, as Python | `simt.debug(add_one)[2, 4](y, x)` | `print` and `breakpoint()` in a thread |
#
# The next cell runs all that this machine has, and compares the results.

# %%
results = {}
for name, run in {"compiled": simt.compile, "as Python": simt.debug}.items():
    y = np.zeros(8, np.float32)
    run(add_one)[2, 4](y, x)
    results[name] = y
if find_gpu().works:
    y = np.zeros(8, np.float32)
    with warnings.catch_warnings(action="ignore"):  # too small a launch to be fast
        add_one[2, 4](y, x)
    results["GPU"] = y
for name, y in results.items():
    print(f"{name:10}", y)
    assert np.array_equal(y, x + 1)

# %% [markdown]
# ## The number of threads is a multiple of the block
#
# All blocks of a launch have the same number of threads, the last one, too.
#
# **Predict**: an array has 1,000 elements, a block 256 threads. How many blocks are
# needed? How many threads then have no element?

# %%
n, threads = 1000, 256
blocks = -(-n // threads)  # rounded up
print(blocks, "blocks,", blocks * threads - n, "threads without an element")
assert (blocks, blocks * threads - n) == (4, 24)

# %% [markdown]
# `add_one` lets these 24 threads write beyond the end of the array. On a GPU that
# spoils other memory, often without a message. Compiled for the CPU it does the same.
# `simt.check` runs the same launch slowly and looks at every access.

# %%
x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
try:
    simt.check(add_one)[blocks, threads](y, x)
except simt.KernelError as error:
    print(error)
    outside = error.findings[0]
assert outside.kind == "out-of-bounds"

# %% [markdown]
# There are two ways to mend it. A *guard* is an `if` around the work. A *grid-stride
# loop* lets each thread work on several elements: its own, then the one that is as many
# elements further as there are threads in all. It is right for any number of blocks.


# %%
@cuda.jit
def add_one_guarded(y, x):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + float32(1)


@cuda.jit
def add_one_strided(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] + float32(1)


simt.check(add_one_guarded)[blocks, threads](y, x)
assert np.array_equal(y, x + 1)
y[:] = 0
simt.check(add_one_strided)[2, 256](y, x)  # 512 threads for 1,000 elements
assert np.array_equal(y, x + 1)
print("no mistakes found")

# %% [markdown]
# The layers of snref are written like the second one. This is the forward pass of a ReLU,
# as it trains networks on a GPU and on the CPU. The equation stands in the docstring.

# %%
print(inspect.getsource(relu.forward.py_func))

# %% [markdown]
# ## Threads that work together
#
# The threads of one block can share a small, fast memory, and can wait for each other.
# `cuda.shared.array` is an array that all threads of a block see. At
# `cuda.syncthreads()`, a *barrier*, each thread waits until all threads of its block
# are there.
#
# The next kernel sums 128 numbers in one block. In each round, half of the threads add
# a number from the other half, so 7 rounds are enough. Look at the picture first.

# %%
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for level, width in enumerate((8, 4, 2, 1)):
    axes.plot(range(width), [-level] * width, "o", color="#3f6fb5", markersize=9)
    for t in range(width // 2):
        for source in (t, t + width // 2):
            axes.annotate(
                "",
                (t, -level - 0.85),
                (source, -level - 0.15),
                arrowprops={"arrowstyle": "->", "color": "#777777"},
            )
axes.set_yticks([0, -1, -2, -3], ["8 numbers", "round 1", "round 2", "round 3"])
axes.set_xlabel("thread, and its place in shared memory")
axes.set_title("A sum of 8 numbers in 3 rounds", loc="left")
axes.spines[["top", "right", "left"]].set_visible(False)
plt.show()


# %%
@cuda.jit
def block_sum(total, x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        total[0] = s[0]


x = np.arange(128, dtype=np.float32)
total = np.zeros(1, np.float32)
simt.check(block_sum)[1, 128](total, x)
print(total[0], "=", x.sum())
assert total[0] == x.sum() == 127 * 128 / 2

# %% [markdown]
# ## A broken kernel
#
# A student left out the second barrier. **Predict**: does the sum come out wrong?


# %%
@cuda.jit
def hasty_sum(total, x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        total[0] = s[0]


total[0] = 0
simt.compile(hasty_sum)[1, 128](total, x)
print("the sum that this run gives:", total[0], " the right one:", x.sum())

# %% [markdown]
# A *race*: one thread writes an element, another one reads it, and nothing says which
# comes first. A run may give the right answer on one machine and a wrong one on the
# next. So do not trust a result that came out right; ask the checker.

# %%
try:
    simt.check(hasty_sum)[1, 128](total, x)
except simt.KernelError as error:
    print(error)
    race = error.findings[0]
print()
print("as data:", race.kind, "of", race.name, race.element, "threads", race.thread)
assert race.kind == "race" and race.name == "s"

# %% [markdown]
# The message names the line, the element of `s`, and both threads. One of them is in a
# round that the other one has not finished. The barrier that is missing is the one after
# the addition.
#
# ## Memory in sectors
#
# A GPU runs 32 threads, a *warp*, in step. When they read memory, the hardware fetches
# whole pieces of 32 bytes, called *sectors*. A float32 has 4 bytes, so 8 neighbours
# are in one sector.
#
# **Predict**: 32 threads read 32 neighbouring floats. How many sectors is that? And how
# many if each thread reads from another row of a wide matrix?


# %%
@cuda.jit
def copy_rows(y, x):
    row, column = cuda.blockIdx.x, cuda.threadIdx.x
    y[row, column] = x[row, column]


@cuda.jit
def copy_columns(y, x):
    row, column = cuda.threadIdx.x, cuda.blockIdx.x
    y[row, column] = x[row, column]


x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
y = np.zeros_like(x)
along, across = (simt.profile(k)[32, 32](y, x) for k in (copy_rows, copy_columns))
for report in along, across:
    sectors = report.total("load_sectors") / report.total("loads")
    print(f"{report.kernel:14} {sectors:4.0f} sectors for each load of a warp")
assert along.total("load_sectors") == 4 * along.total("loads")
assert across.total("load_sectors") == 32 * across.total("loads")

# %% [markdown]
# 4 against 32: the second kernel moves eight times as many bytes for the same result. An
# access in which neighbouring threads read neighbouring elements is called *coalesced*.
# The report also counts by line:

# %%
print(across)

# %% [markdown]
# ## Tiles, and banks of shared memory
#
# A transposition reads rows and writes columns. So either its loads or its stores are
# not coalesced. The cure is a *tile*: the block copies a square of the matrix to shared
# memory, waits at a barrier, and writes it in another order.
#
# Shared memory has 32 *banks*; word i is in bank i mod 32. Threads of a warp that
# read different words of one bank have to wait for each other: a *bank conflict*.
#
# **Predict**: the tile has 32 columns. A warp reads one of its columns. In which banks
# are these 32 words? What changes if the tile has 33 columns, one of them unused?


# %%
@cuda.jit
def transpose(y, x):
    row, column = cuda.blockIdx.x, cuda.threadIdx.x
    y[column, row] = x[row, column]


@cuda.jit
def transpose_tile(y, x):
    tile = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    tile[i, j] = x[i, j]
    cuda.syncthreads()
    y[i, j] = tile[j, i]


@cuda.jit
def transpose_padded(y, x):
    tile = cuda.shared.array((32, 33), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    tile[i, j] = x[i, j]
    cuda.syncthreads()
    y[i, j] = tile[j, i]


launches = {transpose: (32, 32), transpose_tile: (1, (32, 32))}
launches[transpose_padded] = (1, (32, 32))
reports = []
for kernel, (grid, block) in launches.items():
    y[:] = 0
    reports.append(simt.profile(kernel)[grid, block](y, x))
    assert np.array_equal(y, x.T)
    simt.check(kernel)[grid, block](y, x)
conflicts = [sum(line.bank_conflicts for line in r.lines) for r in reports]
stores = [r.total("store_sectors") for r in reports]
for report, sectors, count in zip(reports, stores, conflicts, strict=True):
    print(f"{report.kernel:17} {sectors:5} sectors stored, {count:4} bank conflicts")
assert stores == [1024, 128, 128]
assert conflicts == [0, 32 * 31, 0]

# %%
figure, axes = plt.subplots(1, 2, figsize=(7, 2.2), layout="constrained", sharey=True)
names = [r.kernel for r in reports]
for axis, counts, what in zip(
    axes, (stores, conflicts), ("sectors stored", "bank conflicts"), strict=True
):
    bars = axis.barh(names, counts, color="#3f6fb5")
    axis.bar_label(bars, padding=3)
    axis.set_title(what, loc="left")
    axis.set_xlim(0, 1250)
    axis.set_xticks([])
    axis.spines[["top", "right", "bottom"]].set_visible(False)
axes[0].invert_yaxis()
plt.show()

# %% [markdown]
# With 32 columns, a whole column is in one bank: each of the 32 warps needs 31 further
# passes. With 33 columns the words of a column are in 32 different banks.
#
# ## What the CPU device generates
#
# How can a CPU run 128 threads that wait for each other? It does not start 128 threads.
# The compiler cuts the kernel at its barriers, and makes each piece a loop over the
# threads. `simt.show` prints what is made of a kernel at each stage. Here are the cuts:
# a `run` is what each thread does in turn, `once` is the same for all threads.

# %%
x, total = np.arange(128, dtype=np.float32), np.zeros(1, np.float32)
pieces = simt.show(block_sum, 128, total, x, stage="split")
print(pieces)
assert pieces.count("_barrier()") == 2

# %% [markdown]
# And this is the beginning of what Numba compiles for the processor. Each
# `for threadIdx_x in range(128)` is one piece; LLVM turns it into vector instructions.

# %%
text = simt.show(block_sum, 128, total, x)
print(*text[text.index("def launch(") :].splitlines()[:24], sep="\n")
assert text.count("for threadIdx_x in range(128):") >= 2

# %% [markdown]
# `snref/simt/README.md` follows one kernel through all stages.
#
# ## Outside this course
#
# On a GPU, NVIDIA's compute-sanitizer finds races and wrong indices, and Nsight Compute
# counts sectors and bank conflicts. Both look at the machine code that runs; `simt` looks
# at the Python source.
#
# **Left out** here: caches, occupancy, warp shuffles, atomics, streams; and time. A count
# of sectors says which of two kernels asks for less memory, not how many microseconds it
# takes.
#
# ## Questions
#
# 1. A launch of `add_one_strided` has 3 blocks of 64 threads and arrays of 1,000
#    elements. How many elements does the first thread write?
# 2. In `block_sum`, may the barrier be inside the `if t < half`? Why?
# 3. 32 threads read every second float of an array. How many sectors is that, and which
#    share of the bytes is used?
#
# ## Answers
#
# The next cell computes them.
#
# 1. 6 elements: 0, 192, 384, 576, 768 and 960.
# 2. No. The threads with `t >= half` would never come to it. CUDA does not define what
#    the others do then; on some GPUs they wait for ever. `simt` refuses such a kernel.
# 3. 8 sectors; one half of their bytes is used.


# %%
@cuda.jit
def barrier_in_branch(x):
    if cuda.threadIdx.x < 16:
        cuda.syncthreads()
        x[cuda.threadIdx.x] = 0


@cuda.jit
def every_second(y, x):
    i = cuda.grid(1)
    y[i] = x[2 * i]


assert list(range(0, 1000, 3 * 64)) == [0, 192, 384, 576, 768, 960]
for run in simt.compile, simt.check:
    try:
        run(barrier_in_branch)[1, 32](x)
        raise AssertionError("the barrier in a branch was not refused")
    except simt.KernelError as error:
        print(error)
report = simt.profile(every_second)[1, 32](np.zeros(32, np.float32), x)
print(report.total("load_sectors"), "sectors")
assert report.total("load_sectors") == 8
assert 32 * 4 / (8 * 32) == 0.5
