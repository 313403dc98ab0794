# %% [markdown]
# # 3. Liveness: what has to be in memory, and why
#
# **At the end you can** read the memory curve of a network; name the tensors that make
# its peak; and find the one line of one layer that moves AlexNet's peak by 494 MiB.
#
# **Before you begin**: tutorial 2, or its words: *tensor*, *run*, *plan*, *last use*.
#
# **Time**: about 60 minutes. The cells run for about 5 seconds; the first time, they
# compile four kernels for about 5 seconds more.

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
from dataclasses import dataclass, fields, replace

import matplotlib.pyplot as plt

from snref.layers import LRN, MaxPool, ReLU
from snref.plans import Alloc, Free, Run, lower_bound, memory
from snref.views import colour

MiB = 2**20

# %% [markdown]
# ## The tensors of AlexNet
#
# The first convolution of AlexNet has 96 filters, and its output is 55 x 55 pixels. The
# batch is 200 images, and a number has 4 bytes.
#
# **Predict**: how many MiB has this output?

# %%
net = snref.nets.alexnet(batch=200)
for node in net.nodes[:8]:
    kind = type(node.layer).__name__
    print(f"{node.name:6} {kind:8} {node.y.shape!s:20} {node.y.nbytes / MiB:7.2f} MiB")
conv1 = net.nodes[0].y
assert conv1.nbytes == 200 * 96 * 55 * 55 * 4

# %% [markdown]
# Three tensors of this size stand at the beginning: conv1, relu1 and lrn1. Counted here
# and below are *data tensors*: outputs of layers, and gradients of them. Parameters,
# their gradients and the images are not in these numbers; MiB is 2^20 bytes.
#
# ## Hold everything, or free after the last use
#
# The preset "baseline" holds all data tensors for the whole iteration. "liveness" frees
# each of them after its last use.
#
# **Predict**: AlexNet has 23 layers, so an iteration has 46 steps: 23 forward, 23
# backward. At which step is the memory of "liveness" largest?

# %%
baseline = snref.plan(net, preset="baseline")
liveness = snref.plan(net, preset="liveness")
peak = liveness.steps[liveness.peak_step - 1]
print(f"baseline  {baseline.peak_bytes / MiB:8.3f} MiB")
print(f"liveness  {liveness.peak_bytes / MiB:8.3f} MiB", end="  ")
print(f"at step {liveness.peak_step}: {peak.layer} {peak.phase}")
assert len(liveness.steps) == 46
assert round(baseline.peak_bytes / MiB, 3) == 2189.437
assert round(liveness.peak_bytes / MiB, 3) == 1489.355
assert (liveness.peak_step, peak.layer, peak.phase) == (32, "pool5", "backward")


# %%
def draw(curves, title):
    """Draw bytes in use over the steps of an iteration."""
    _, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for name, planned in curves.items():
        curve = [step.nbytes / MiB for step in planned.steps]
        axes.step(
            range(1, len(curve) + 1), curve, where="mid", label=name, color=colour(name)
        )
    axes.axvline(len(curve) / 2 + 0.5, color="#cccccc", linewidth=1, zorder=0)
    axes.set_ylim(0)
    axes.set_xlabel("step: forward, then backward")
    axes.set_ylabel("MiB in use")
    axes.set_title(title, loc="left")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    plt.show()


draw({"baseline": baseline, "liveness": liveness}, "AlexNet, batch 200")

# %% [markdown]
# The curve climbs in forward, since what backward will read is kept. It falls in backward.
#
# ## How long each tensor lives
#
# Here is the same plan tensor by tensor. A bar begins where the tensor is allocated and
# ends where it is freed; its height is its size.

# %%
step, born, lives = 0, {}, []
for item in liveness.plan.steps:
    if isinstance(item, Run):
        step += item.phase != "update"
    elif isinstance(item, Alloc) and item.tensor.is_data:
        born[item.tensor] = step + 1
    elif isinstance(item, Free) and item.tensor in born:
        lives.append((item.tensor, born.pop(item.tensor), step))
lives.sort(key=lambda life: (life[1], life[2]))

_, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
base = 0
for tensor, begin, end in lives:
    height = tensor.nbytes / MiB
    fill = "#3f6fb5" if tensor.kind == "activation" else "#e07b39"
    steps = end - begin + 1
    axes.barh(
        base, steps, height, begin - 0.5, align="edge", color=fill, edgecolor="white"
    )
    if height > 100:
        axes.text(
            begin,
            base + height / 2,
            tensor.name,
            va="center",
            color="white",
            fontsize=7,
        )
    base += height
axes.invert_yaxis()
axes.axvline(23.5, color="#cccccc", linewidth=1, zorder=0)
axes.set_xlabel("step")
axes.set_ylabel("MiB, one tensor below the other")
axes.set_title("blue: outputs of layers; orange: gradients", loc="left", fontsize=10)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
assert sum(tensor.nbytes for tensor, *_ in lives) == liveness.baseline_bytes
assert (conv1, 1, 45) in lives

# %% [markdown]
# **Predict**: which tensors are there at the peak, in step 32? A line at 32 through the picture
# meets them.

# %%
there = [tensor for tensor, begin, end in lives if begin <= liveness.peak_step <= end]
print(*(f"{tensor.name} {tensor.nbytes / MiB:.1f}" for tensor in there), sep=", ")
assert sum(tensor.nbytes for tensor in there) == liveness.peak_bytes

# %% [markdown]
# Long bars cost most. `conv1.y` is written in step 1 and freed after step 45
# of 46.
#
# **Predict**: which layers read conv1.y? Which one is the last?

# %%
readers = [run for run in liveness.route.runs() if conv1 in run.reads]
print(*(f"{run.layer} {run.phase}" for run in readers), sep=", ")
assert [f"{r.layer} {r.phase}" for r in readers] == ["relu1 forward", "relu1 backward"]

# %% [markdown]
# ## One line
#
# So the ReLU keeps conv1.y alive through the whole iteration. Does its backward need it?
# The gradient of a ReLU is dy where x > 0, and 0 elsewhere. But y = max(x, 0) is positive
# at the same places: y would do, and y is read by the next layer anyway.
#
# Here is what the layer says. The branch for static nets is tutorial 7's. In the last
# launch, of the kernel "relu.backward", the lines after the kernel's name are what the kernel
# gets: dx, then y (or x), then dy.

# %%
print(inspect.getsource(ReLU.backward))

# %% [markdown]
# The line with `retained` lists x, too, though the kernel never reads it. Why? The code of
# the SuperNeurons authors calls cuDNN, whose function for this gradient asks for x and y.
# The paper's numbers hold with it, so snref has it, and calls these declarations
# *original*. Those without it are *lean*.
#
# Let us take out that one line of that one layer, and nothing else. The class below does
# it: it calls the same method with a node that says "lean".


# %%
def lean(kind):
    """Return the same class of layers, with lean declarations."""

    class Lean(kind):
        def backward(self, node):
            return super().backward(replace(node, declarations="lean"))

    return Lean


def with_lean(kind):
    """Return AlexNet, with lean declarations of one kind of layer."""
    layers = {}
    for node in net.nodes:
        layer = node.layer
        if type(layer) is kind:
            settings = {f.name: getattr(layer, f.name) for f in fields(layer)}
            layer = lean(kind)(**settings)
        layers[node.name] = layer
    changed = snref.Net(f"AlexNet, lean {kind.__name__}")
    changed.chain(changed.input(net.input_shape), **layers)
    return changed


# %% [markdown]
# **Predict**: how far does the peak fall? (The outputs of the five convolutions have
# 221.6, 142.4, 49.5, 49.5 and 33.0 MiB.)

# %%
lean_relu = snref.plan(with_lean(ReLU), preset="liveness")
fall = (liveness.peak_bytes - lean_relu.peak_bytes) / MiB
print(f"{lean_relu.peak_bytes / MiB:.3f} MiB: it falls by {fall:.3f} MiB")
assert round(lean_relu.peak_bytes / MiB, 3) == 995.825
assert round(fall, 3) == 493.530
draw({"baseline": baseline, "original": liveness, "lean ReLU": lean_relu}, "One line")

# %% [markdown]
# That is a third of the peak. Every convolution's output dies in forward now, as soon as
# the ReLU after it has run.
#
# ## And the other layers?
#
# LRN and max pooling list their output y in the same way, and do not read it.
#
# **Predict**: what does it save to leave it out, for each of them? lrn1.y has 221.6 MiB.

# %%
falls = {}
for kind in LRN, MaxPool:
    planned = snref.plan(with_lean(kind), preset="liveness")
    falls[kind] = (liveness.peak_bytes - planned.peak_bytes) / MiB
    print(f"{kind.__name__:8} {falls[kind]:8.3f} MiB")
assert falls[LRN] == 0
assert round(falls[MaxPool], 3) == 7.031

# %% [markdown]
# Nothing, and 7 MiB. lrn1.y is the input of pool1, whose backward looks for the maximum in
# it again. It stays for pool1. **A declaration matters only if nobody else needs the
# tensor as long.** That is why sums of bytes do not tell what a change brings; a plan does.
#
# ## Is the lean layer right?
#
# `snref.check_layer` runs the kernels of a layer on small inputs. It compares backward with
# differences of forward, and spoils everything that the layer did not declare. So a layer
# that declares too little fails. We try the lean ReLU, and one that reads dy alone.


# %%
@dataclass(frozen=True)
class Forgetful(ReLU):
    """A ReLU whose backward declares dy, and neither x nor y."""

    def backward(self, node):
        return snref.elementwise("relu.backward", node.dx, node.dy, node.dy)


snref.check_layer(lean(ReLU)(), (3, 5))
print("the lean ReLU is right")
try:
    snref.check_layer(Forgetful(), (3, 5))
    raise AssertionError("the forgetful ReLU passed")
except snref.LayerError as error:
    print(error)

# %% [markdown]
# ## How far down can it go?
#
# While a layer runs, all that it reads and writes must be there. The largest of these
# *working sets* is a bound: no plan of this route needs less.
#
# **Predict**: which layer has it, and is it near the peak?

# %%
bound = lower_bound(liveness.plan)
largest = max(
    liveness.plan.runs(), key=lambda run: sum(t.nbytes for t in run.working_set)
)
print(
    f"{largest.layer} {largest.phase}: {bound / MiB:.3f} MiB",
    [t.name for t in largest.working_set],
)
assert max(memory(liveness.plan)) > 2 * bound > 0.8 * max(memory(liveness.plan))

# %% [markdown]
# Between this bound and the peak there is more than a factor of two. The next tutorials
# close the gap: a tensor that is not needed for a long time can go to the host (tutorial
# 4), or be computed again (tutorial 5).
#
# ## Outside this course
#
# PyTorch frees by counting references: what a layer's backward needs is what it gives to
# `save_for_backward`. The same question, one line a layer, decides there. A framework
# that plans before it runs (XLA, TVM) computes liveness as we do.
#
# **Left out**: holes between tensors (bytes are not addresses: tutorial 4), workspaces of
# convolutions (tutorial 6), gradients that are written over activations (tutorial 7).
#
# ## Questions
#
# 1. What is the peak of "liveness" at batch 100?
# 2. A layer computes y = tanh(x), so dx = dy (1 - tanh(x)²). Which tensor should its
#    backward declare if a linear layer follows: x or y?
# 3. Is AlexNet with lean declarations of *all* layers below 995.825 MiB?
#
# ## Answers
#
# The next cell computes the first and the third one.
#
# 1. Exactly one half: every data tensor has the batch as its first size.
# 2. y. It tells all that is needed, since dx = dy (1 - y²), and the linear layer keeps y
#    anyway: y is its x. So x is dead in forward.
# 3. No. What the other layers list in addition is not there at the peak, or is needed by
#    their neighbours.

# %%
half = snref.plan(snref.nets.alexnet(batch=100), preset="liveness")
assert 2 * half.peak_bytes == liveness.peak_bytes
all_lean = snref.plan(net.with_options(declarations="lean"), preset="liveness")
print(
    f"batch 100: {half.peak_bytes / MiB:.3f} MiB;  all lean: {all_lean.peak_bytes / MiB:.3f}"
)
assert all_lean.peak_bytes == lean_relu.peak_bytes
