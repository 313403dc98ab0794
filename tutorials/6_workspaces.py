# %% [markdown]
# # 6. Workspaces: speed for free bytes
#
# **At the end you can** say why a convolution has several algorithms and what a workspace
# is; read from a plan which algorithm each layer got; and say which choices keep the bits
# of a training the same.
#
# **Before you begin**: tutorial 3; tutorial 5 for the plan that is used here.
#
# **Time**: about 45 minutes. The cells run for about 5 seconds.

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

import matplotlib.pyplot as plt
import numpy as np

from snref.plans import Alloc, Free, Run, extent, memory

MiB = 2**20

# %% [markdown]
# ## A convolution as a product of matrices
#
# Each output of a convolution is a sum of products over a window of the image. One way to
# compute it fast is to write all windows side by side into a matrix, one window a row, and
# multiply it with the filters: products of matrices are what a GPU does best. This is called
# *im2col*. The matrix is scratch memory: a **workspace**, which is needed for this one run
# only.
#
# Here is the idea for one image in NumPy:

# %%
random = np.random.default_rng(0)
image = random.normal(size=(3, 8, 8)).astype(np.float32)  # channels, height, width
filters = random.normal(size=(4, 3, 3, 3)).astype(np.float32)
windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
workspace = windows.transpose(1, 2, 0, 3, 4).reshape(6 * 6, 3 * 3 * 3)  # a copy
product = (workspace @ filters.reshape(4, -1).T).T.reshape(4, 6, 6)

direct = np.zeros_like(product)
for c in range(3):
    for r in range(3):
        for s in range(3):
            direct += filters[:, c, r, s, None, None] * image[c, r : r + 6, s : s + 6]
print("image:", image.nbytes, "bytes, workspace:", workspace.nbytes, "bytes")
assert np.allclose(product, direct, atol=1e-4)
assert workspace.nbytes == 36 * 27 * 4

# %% [markdown]
# Every pixel is in up to 9 windows, so the workspace is much larger than the image.
#
# **Predict**: conv1 of AlexNet has windows of 11 x 11 pixels and 3 channels, and 55 x 55
# outputs in each of 200 images. How many MiB has the workspace? (Its output has 221.6.)

# %%
net = snref.nets.alexnet(batch=200)
route = snref.route(net)
none = snref.plan(net, preset="superneurons", algorithms="none")


def algorithms(layer, phase):
    """Return the choices of a run: for each part, its algorithms."""
    run = next(r for r in route.runs() if (r.layer, r.phase) == (layer, phase))
    return {choice.part: choice.algorithms for choice in run.choices}


im2col = {a.name: a for a in algorithms("conv1", "forward")["forward"]}["im2col"]
print(f"{im2col.workspace / MiB:.1f} MiB")
assert im2col.workspace == 200 * 55 * 55 * (3 * 11 * 11) * 4

# %% [markdown]
# ## The menu
#
# These are the algorithms of conv3, for its forward, and for the two parts of its backward.
# The milliseconds are a model of a K40c (tutorial 4).

# %%
for phase in "forward", "backward":
    for part, menu in algorithms("conv3", phase).items():
        for a in menu:
            milliseconds = 1000 * none.costs.algorithm("conv3", part, a.name)
            print(
                f"{part:8} {a.name:9} {a.workspace / MiB:7.1f} MiB {milliseconds:7.1f} ms   order: {a.order}"
            )
assert all(menu[0].workspace == 0 for menu in algorithms("conv3", "backward").values())

# %% [markdown]
# The first of each part needs nothing: there is always a way. The fast ones want memory.
#
# Section 3.5 of the paper gives them what is left: tensors come first. Before each run, look
# how many bytes are free, and take the fastest algorithm whose workspace fits. After the
# run, the workspace is freed. So a layer may get different algorithms in forward and in
# backward.
#
# **Predict**: the plan "superneurons" has a peak of 886.2 MiB, at one step. Suppose that
# workspaces may use what is free below 886.2 MiB at all other steps. What happens to the
# peak? What to the time?

# %%
exact = snref.plan(net, preset="superneurons", algorithms="exact")
for name, p in {"without": none, "with": exact}.items():
    print(
        f"{name:8} workspaces: peak of tensors {p.peak_bytes / MiB:.3f} MiB, extent"
        f" {extent(p.plan) / MiB:.3f} MiB, compute {1000 * p.timeline.compute_seconds:.0f} ms"
    )
assert extent(exact.plan) == extent(none.plan) == none.peak_bytes
assert exact.timeline.compute_seconds < 0.8 * none.timeline.compute_seconds

# %% [markdown]
# A fifth of the time, for no memory at all: the bytes were there. Here is where they are.


# %%
def stacked(plan):
    """Return, for each run, bytes of tensors and bytes of workspace in use."""
    tensors, scratch, curve = 0, 0, []
    for step in plan.steps:
        if isinstance(step, Alloc | Free):
            sign = 1 if isinstance(step, Alloc) else -1
            if step.tensor.kind == "workspace":
                scratch += sign * step.tensor.aligned_bytes / MiB
            else:
                tensors += sign * step.tensor.aligned_bytes / MiB
        elif isinstance(step, Run) and step.phase != "update":
            curve.append((tensors, scratch))
    return curve


tensors, scratch = zip(*stacked(exact.plan), strict=True)
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.bar(range(len(tensors)), tensors, 1, label="tensors", color="#3f6fb5")
axes.bar(range(len(tensors)), scratch, 1, tensors, label="workspace", color="#e07b39")
axes.axhline(extent(exact.plan) / MiB, color="black", linewidth=1, linestyle=":")
axes.set_xlabel("run, re-runs included")
axes.set_ylabel("MiB in use")
axes.legend(frameon=False, loc="upper center", ncols=2)
axes.set_ylim(0, 1050)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
assert max(memory(exact.plan, workspace=True)) == none.peak_bytes

# %% [markdown]
# ## The order of a sum
#
# The menu has a column *order*. Numbers of a computer are rounded after each addition. So
# the order in which a sum is added up decides its last bits.
#
# **Predict**: we add 10,000 random float32 numbers forwards and backwards. Is the result the
# same?

# %%
numbers = random.normal(size=10_000).astype(np.float32)


def added(numbers):
    total = np.float32(0)
    for number in numbers:
        total += number
    return total


print(added(numbers), added(numbers[::-1]))
assert added(numbers) != added(numbers[::-1])

# %% [markdown]
# Different by a little. If a layer has algorithms of *different* orders, then its bits depend
# on how many bytes were free: on the scheduler. snref names the order of each algorithm.
#
# - `algorithms="exact"` chooses among algorithms of one order only. Then plans for any
#   memory train to the same bits.
# - `algorithms="fastest"` chooses freely, as the paper does.
#
# *Winograd* is the one with an order of its own. It needs fewer multiplications. For two
# outputs of a filter with three weights, 4 instead of 6:


# %%
def winograd(x, w):
    """Return two outputs of a convolution with 3 weights, by 4 products."""
    a = (x[0] - x[2]) * w[0]
    b = (x[1] + x[2]) * ((w[0] + w[1] + w[2]) / 2)
    c = (x[2] - x[1]) * ((w[0] - w[1] + w[2]) / 2)
    d = (x[1] - x[3]) * w[2]
    return np.array([a + b + c, b - c - d])


x, w = (
    random.normal(size=(4, 1000)).astype(np.float32),
    random.normal(size=(3, 1000)).astype(np.float32),
)
usual = np.array([sum(x[i + s] * w[s] for s in range(3)) for i in range(2)])
print("largest difference:", np.abs(winograd(x, w) - usual).max())
print(f"equal bits in {np.mean(winograd(x, w) == usual):.0%} of the outputs")
assert np.allclose(winograd(x, w), usual, atol=1e-4)
assert not np.array_equal(winograd(x, w), usual)

# %% [markdown]
# **Predict**: does "fastest" use Winograd everywhere? It is defined for windows of 3 x 3.

# %%
fastest = snref.plan(net, preset="superneurons", algorithms="fastest")
for layer in "conv1", "conv2", "conv3":
    print(layer, fastest.algorithms[layer])
for p in exact, fastest:
    orders = {order for parts in p.orders.values() for order in parts.values()}
    print(p.options.algorithms, "has the orders", *sorted(orders))
assert exact.orders == none.orders != fastest.orders

# %% [markdown]
# conv1 has 11 x 11 and conv2 has 5 x 5; the part "filter" never has it; and for the part
# "data" of conv3 too few bytes are free. The plans "none" and "exact" have the same orders,
# so they train to the same bits.
#
# ## More memory, more speed?
#
# **Predict**: draw the time of an iteration against the memory, from 886 MiB to 2.4 GiB. Is it
# a smooth curve, or a staircase?

# %%
resident = sum(none.resident.values())
slabs = [887, *range(900, 2401, 100)]
curves = {}
for name in "none", "exact", "fastest":
    curves[name] = [
        1000
        * snref.plan(
            net, preset="superneurons", algorithms=name, memory=resident + slab * MiB
        ).timeline.compute_seconds
        for slab in slabs
    ]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, curve in curves.items():
    axes.step(slabs, curve, where="post", label=name)
axes.set_ylim(0)
axes.set_xlabel("slab, MiB")
axes.set_ylabel("ms of compute, modelled")
axes.legend(frameon=False, loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
print(
    {name: f"{curve[0]:.0f} ms -> {curve[-1]:.0f} ms" for name, curve in curves.items()}
)
for curve in curves.values():
    assert sorted(curve, reverse=True) == curve
assert len(set(curves["exact"])) <= 4
assert curves["none"][0] - curves["exact"][0] > 5 * (
    curves["exact"][0] - curves["exact"][-1]
)

# %% [markdown]
# A staircase: at each step one more workspace fits. And the first bytes bring most: those
# that were free anyway.
#
# ## Outside this course
#
# cuDNN has the same menu, and `torch.backends.cudnn.benchmark = True` lets it time the
# algorithms and take the fastest, workspace included. `torch.use_deterministic_algorithms`
# is the wish for the same bits, as "exact" is here.
#
# **Left out**: convolutions by Fourier transform; half precision; that kernels which run at
# the same time share the memory.
#
# ## Questions
#
# 1. How many MiB has the im2col workspace of conv3: 3 x 3 windows, 256 channels, 13 x 13
#    outputs?
# 2. Why does the paper place tensors first, and gives workspaces what is left?
# 3. From which slab on does conv2's forward get im2col, whose workspace has 1,335 MiB?
#
# ## Answers
#
# The next cell computes the first and the third one.
#
# 1. 200 x 13 x 13 x 256 x 9 x 4 bytes: 297.1 MiB.
# 2. A tensor must have its memory, or nothing runs. A workspace is optional: there is an
#    algorithm without one.
# 3. Its workspace has to fit beside what is in use at that run, 196 MiB: pool1.y and
#    conv2.y. So from 1,531 MiB on. The cell looks for the slab in steps of 16 MiB.

# %%
conv3 = {a.name: a for a in algorithms("conv3", "forward")["forward"]}["im2col"]
assert conv3.workspace == 200 * 13 * 13 * 256 * 9 * 4
in_use = next(
    nbytes
    for step, nbytes in zip(none.plan.steps, memory(none.plan), strict=True)
    if isinstance(step, Run) and step.layer == "conv2"
)
for slab in range(1400, 2000, 16):
    p = snref.plan(net, preset="superneurons", memory=resident + slab * MiB)
    if p.algorithms["conv2"]["forward"] == "im2col":
        break
print(f"{in_use / MiB:.1f} MiB in use; im2col from {slab} MiB on")
menu = {a.name: a for a in algorithms("conv2", "forward")["forward"]}
assert slab - 16 < (in_use + menu["im2col"].workspace) / MiB <= slab
