# %% [markdown]
# # 7. Two papers, one plan: backward in the memory of forward
#
# **At the end you can** say how a gradient can be written over the activation it belongs
# to, and in which order a layer must compute for that; why the least memory of a
# network falls by a third, to half of the paper's peak; and what a lower bound says about a planner.
#
# **Before you begin**: tutorials 3, 4 and 5.
#
# **Time**: about 60 minutes. The cells run for about 15 seconds; most of that is a search
# for quick plans.

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

from snref.layers import Linear, ReLU, Softmax
from snref.plans import extent, lower_bound
from snref.scheduler.in_place import overwrite
from snref.views import colour

MiB = 2**20

# %% [markdown]
# ## The floor
#
# All plans so far had to hold the working set of each run. The largest one is a floor: as long
# as each layer runs as a whole, there is no plan below it, whatever we copy or compute again.
#
# **Predict**: in AlexNet, which run has the largest working set, and how many large tensors
# are in it?


# %%
def size(run):
    """Return the bytes of a run's working set."""
    return sum(tensor.nbytes for tensor in run.working_set)


def largest_runs(route, count):
    """Print the runs with the largest working sets."""
    for run in sorted(route.runs(), key=size, reverse=True)[:count]:
        names = ", ".join(t.name for t in run.working_set)
        print(f"{size(run) / MiB:8.1f} MiB  {run.layer} {run.phase}: {names}")


net = snref.nets.alexnet(batch=200)
usual = overwrite(snref.route(net), "gradients")
largest_runs(usual, 4)
assert round(lower_bound(usual) / MiB, 3) == 664.673

# %% [markdown]
# Three tensors of 221.6 MiB. (The gradient dx is written over dy already: the paper's code
# does that for ReLU and LRN.)
#
# ## The second paper's idea
#
# Shirahata et al. (2016) asked: when backward computes the gradient of x, who still needs
# x? Often nobody. Then the gradient, which has the same shape, can be written **over x**.
#
# Take a linear layer: y = x w. Its backward computes dw = xᵀ dy, and dx = dy wᵀ.
#
# **Predict**: dx shall be written over x. In which order must the two be computed?

# %%
random = np.random.default_rng(0)
x, w, dy = (
    random.normal(size=(5, 3)),
    random.normal(size=(3, 4)),
    random.normal(size=(5, 4)),
)
right_dw, right_dx = x.T @ dy, dy @ w.T

memory = x.copy()
dw = memory.T @ dy  # dw first: it reads x
memory[:] = dy @ w.T  # then dx over x
print("dw first:", np.array_equal(dw, right_dw), np.array_equal(memory, right_dx))
assert np.array_equal(dw, right_dw) and np.array_equal(memory, right_dx)

memory = x.copy()
memory[:] = dy @ w.T  # dx first, over x
dw = memory.T @ dy  # x is gone
print("dx first:", np.array_equal(dw, right_dw), np.array_equal(memory, right_dx))
assert not np.array_equal(dw, right_dw)

# %% [markdown]
# dw first, then dx. And the other layers?
#
# | layer | needs for dx | dx lies on |
# |---|---|---|
# | convolution, linear | dy and w (x is for dw, which is first) | x |
# | max pooling | where the maxima are in x: it finds their places first, as integers | x |
# | ReLU | dy, and the sign of x | dy, which has the same shape |
# | LRN | dy and x of neighbouring channels, which a thread reads before it writes | dy |
# | dropout | dy, and its mask, which is computed again | dy |
#
# ## It is a renaming
#
# In snref, "dx lies on x" means that there is no tensor dx: the run writes x. A pass renames
# tensors, and no other pass, nor the verifier, has a rule for it. Look at the backward of
# fc2 in the two plans.
#
# **Predict**: how many tensors named `.dy` are left in the second one?


# %%
def small(declarations):
    net = snref.Net("small", declarations=declarations)
    x = net.input((256, 64))
    net.chain(
        x,
        fc1=Linear(64),
        relu1=ReLU(),
        fc2=Linear(64),
        relu2=ReLU(),
        fc3=Linear(10),
        softmax=Softmax(),
    )
    return net


for setting in "never", "activations":
    line = overwrite(snref.route(small("reuse")), setting)
    print(setting)
    print(*(text for text in str(line).splitlines() if "backward" in text), sep="\n")
gradients = {
    t.name for run in line.runs() for t in run.working_set if t.kind == "gradient"
}
assert not gradients

# %% [markdown]
# None. And `reuse`, the declarations of this network, lets each layer read in backward what
# is still there: a ReLU reads x, since its y is overwritten by the gradient that comes in.
#
# ## A lower floor
#
# **Predict**: AlexNet's largest runs had three large tensors each. What is the floor now?

# %%
joint_route = overwrite(snref.route(net.with_options("reuse", "share")), "activations")
largest_runs(joint_route, 4)
print(f"{lower_bound(joint_route) / MiB:.3f} MiB")
for text in str(joint_route).splitlines():
    if text.split()[:2] in (
        ["backward", layer] for layer in ("conv2", "pool1", "lrn1")
    ):
        print(text)
assert round(lower_bound(joint_route) / MiB, 3) == 443.115

# %% [markdown]
# Two of them: a layer reads one and writes the other. pool1 writes its gradient over lrn1.y,
# which is its x. For lrn1 that is the gradient that comes in, and its own goes over it. The
# paper's cost-aware plan has its peak at 886.2 MiB, so this is one half.
#
# **Predict**: is the floor "two of the largest outputs" for other networks, too, with forks
# and joins?

# %%
print(f"{'':14} {'usual':>8} {'joint':>8} {'two largest':>12}   MiB")
for name, batch in (
    ("alexnet", 200),
    ("vgg16", 32),
    ("resnet50", 32),
    ("densenet121", 32),
):
    other = snref.nets.find(name, batch)
    floors = (
        lower_bound(overwrite(snref.route(other), "gradients")),
        lower_bound(
            overwrite(snref.route(other.with_options("reuse", "share")), "activations")
        ),
    )
    two = 2 * max(node.y.nbytes for node in other.nodes)
    print(f"{name:14} {floors[0] / MiB:8.1f} {floors[1] / MiB:8.1f} {two / MiB:12.1f}")
    assert floors[1] < 1.001 * two and 1.49 < floors[0] / floors[1] < 1.51

# %% [markdown]
# (A floor may be a few bytes above two tensors: gradients of parameters lie in the same
# memory.)
#
# ## Gradients of parameters
#
# The second paper has another idea. A gradient dw is only needed to change w. If w is
# changed at once, the memory of this dw is free for the next layer's.
#
# **Predict**: AlexNet has 62 million parameters, and the largest layer 38 million. How many
# MiB do all gradients need, if they are held until the end? How many if they share?

# %%
sizes = [t.nbytes for t in net.tensors("parameter_gradient")]
print(f"held: {sum(sizes) / MiB:.1f} MiB, shared: {max(sizes) / MiB:.1f} MiB")
assert 237 < sum(sizes) / MiB < 239 and max(sizes) == 4 * 9216 * 4096

# %% [markdown]
# In the joint plan they need no memory of their own at all: dw lies where an activation has
# been, at a moment when little else is there.
#
# ## The joint plan
#
# The preset "reuse" is the second paper alone: a fixed region for each activation, and nothing
# is freed, copied or computed again. The preset "joint" combines both papers: renaming,
# immediate updates, and for each tensor the choice whether it is kept, copied to the host or
# computed again.

# %%
shown = [
    snref.plan(net, preset=p) for p in ("baseline", "reuse", "superneurons", "joint")
]
baseline, reuse, superneurons, joint = shown
_, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for planned in shown:
    curve = [step.nbytes / MiB for step in planned.steps]
    label = f"{planned.preset}: {planned.peak_bytes / MiB:.1f} MiB"
    axes.step(
        range(1, len(curve) + 1),
        curve,
        where="mid",
        label=label,
        color=colour(planned.preset),
    )
axes.axvline(23.5, color="#cccccc", linewidth=1, zorder=0)
axes.set_ylim(0, 2900)
axes.set_xlabel("step: forward, then backward")
axes.set_ylabel("MiB in use")
axes.legend(frameon=False, ncols=2, fontsize=9)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
assert joint.peak_bytes == lower_bound(joint_route) == extent(joint.plan)
assert round(superneurons.peak_bytes / joint.peak_bytes, 3) == 2.0
assert reuse.peak_bytes < baseline.peak_bytes / 2
assert reuse.extra_forwards == reuse.offload_bytes == 0

# %% [markdown]
# The joint plan stands at its floor, gradients of parameters included. In all, with parameters
# and all else that a device must hold:

# %%
fair = net.with_options(image_gradient=False)
for planned in snref.plan(fair, preset="superneurons"), joint:
    t = planned.timeline
    print(
        f"{planned.preset:13} {planned.total_bytes / MiB:7.0f} MiB in all, {1000 * t.seconds:.0f} ms"
        f" an iteration, {1000 * t.stall_seconds:.0f} of them waiting for copies"
    )
    if planned is not joint:
        slower = joint.timeline.seconds / t.seconds - 1
print(f"joint takes {slower:.1%} longer")
assert round(joint.total_bytes / MiB) == 1037
assert joint.total_bytes < 0.61 * superneurons.total_bytes
assert 0 < slower < 0.08

# %% [markdown]
# Two fifths less memory, for a few percent of modelled time. (The paper's code computes the
# gradient of the images, too, which nothing reads. The joint plan does not, so for time we
# compare with a network without it: `image_gradient=False`.)
#
# ## Memory against time
#
# With an amount of memory, `snref.plan` looks for the quickest plan that fits. We do it with
# and without the second paper's method; `parts=1` says that each layer runs as a whole.
#
# **Predict**: which one is faster where memory is short? Which one where there is plenty?

# %%
budgets = (1.1, 1.3, 1.6, 2.0, 3.0, 7.0)
times = {}
for preset in None, "joint":
    times[preset] = []
    for budget in budgets:
        try:
            p = snref.plan(fair, preset=preset, memory=f"{budget}GiB", parts=1)
            times[preset].append(1000 * p.timeline.seconds)
        except snref.OutOfMemory as error:
            print(f"{preset or 'without'}, {budget} GiB: {error}")
            assert round(error.least / 2**30, 2) == 1.46
            times[preset].append(np.nan)
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for preset, label in {None: "first paper's savings", "joint": "both papers"}.items():
    axes.plot(budgets, times[preset], "o-", label=label)
axes.set_ylim(0)
axes.set_xlabel("memory of the device, GiB, all included")
axes.set_ylabel("ms an iteration, modelled")
axes.legend(frameon=False, loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
assert np.isnan(times[None][:2]).all() and not np.isnan(times["joint"]).any()
ratios = [b / a for a, b in zip(times[None][2:], times["joint"][2:], strict=True)]
print(
    "both papers / first paper, from 1.6 GiB on:", *(f"{ratio:.3f}" for ratio in ratios)
)
assert ratios[0] < 0.98 and all(abs(ratio - 1) < 0.005 for ratio in ratios[1:])

# %% [markdown]
# Below 1.46 GiB only the joint plans exist. At 1.6 GiB they are quicker. With more
# memory the two are equal within half a percent: there is little left to be saved.
#
# ## Below the floor
#
# A ReLU of image 7 needs nothing of image 8. So a layer can run on one part of the batch after
# the other, and then no large tensor is ever there as a whole. (That is neither paper's.) snref
# does so where the memory is below the floor.
#
# **Predict**: the floor of AlexNet is 443.1 MiB, and 1,037 MiB in all. With 1,000 MiB, which layers
# will run in parts: all, the first, or the last ones?

# %%
below = snref.plan(net, preset="joint", memory="1000MiB")
print(*below.parts, sep="\n")
print(f"peak {below.peak_bytes / MiB:.1f} MiB")
assert below.parts[0].layers[0] == "conv1" and below.peak_bytes < joint.peak_bytes

# %% [markdown]
# The first ones, whose outputs are largest. The bits stay the same: a sum over the batch goes on
# from part to part in its fixed order. Batch normalisation needs the whole batch at once, so
# ResNets do not gain.
#
# ## How good is a plan?
#
# `snref plan alexnet --batch 200 --memory 1.6GiB --bound` prints a *certified lower bound*: no
# plan of this network in this memory, with the same savings, takes less time. It needs SciPy.
# So one knows how much a better planner could still win.
#
# ## Outside this course
#
# PyTorch writes in place where the user says so (`ReLU(inplace=True)`), and its optimisers
# can update in backward, by hooks: the same idea as the immediate update. XLA assigns buffers
# by liveness and lets outputs lie on inputs where it can prove that it is safe.
#
# **Left out**: momentum and other states of the optimiser, which stay.
#
# ## Questions
#
# 1. Two layers read x. Which of them may write the gradient over it?
# 2. Why is a gradient never written over an activation that may still be computed again?
# 3. By how much does the floor of AlexNet change if only `overwrite` is set to "activations",
#    with the original declarations?
#
# ## Answers
#
# The next cell computes the third one.
#
# 1. The last one that reads it, in the order of backward.
# 2. Recomputation would write the activation there again, over the gradient.
# 3. Not at all. The original declarations make a ReLU's and an LRN's backward read x *and* y,
#    so x, y and dy are there at once.

# %%
original = overwrite(snref.route(net), "activations")
print(f"{lower_bound(original) / MiB:.3f} MiB")
assert lower_bound(original) == lower_bound(usual)
