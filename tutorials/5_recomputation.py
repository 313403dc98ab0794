# %% [markdown]
# # 5. Recomputation: time for memory
#
# **At the end you can** say which layers are worth computing twice; follow the three
# strategies of SuperNeurons through AlexNet and count what each costs; and say why a
# forward pass must give the same bits each time it runs.
#
# **Before you begin**: tutorial 3. Tutorial 2 has the idea in a few lines.
#
# **Time**: about 60 minutes. The cells run for about 5 seconds.

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

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from numba import cuda, float32, uint32

from snref.layers import Conv, Dropout, Linear, ReLU, Softmax
from snref.plans import Launch, grid_of, layer_peak
from snref.views import colour

MiB = 2**20

# %% [markdown]
# ## Cheap layers with large outputs
#
# Backward reads outputs of forward. Instead of keeping an output, we can compute it again.
# That pays if it is large and cheap.
#
# **Predict**: of the forward time of AlexNet, which share is spent in convolutions? Of the
# bytes of all outputs, which share do convolutions write?

# %%
net = snref.nets.alexnet(batch=200)
liveness = snref.plan(net, preset="liveness", algorithms="none")
seconds, nbytes = {}, {}
for node in net.nodes:
    kind = type(node.layer).__name__
    run = next(r for r in liveness.route.runs() if r.layer == node.name)
    seconds[kind] = seconds.get(kind, 0) + liveness.costs.seconds(run)
    nbytes[kind] = nbytes.get(kind, 0) + node.y.nbytes
shares = {
    kind: (seconds[kind] / sum(seconds.values()), nbytes[kind] / sum(nbytes.values()))
    for kind in seconds
}
for kind, (of_time, of_bytes) in shares.items():
    print(f"{kind:8} {of_time:6.1%} of the time, {of_bytes:6.1%} of the bytes")
assert shares["Conv"][0] > 0.9 and shares["Conv"][1] < 0.35
assert sum(shares[k][0] for k in ("ReLU", "LRN", "MaxPool")) < 0.05
assert sum(shares[k][1] for k in ("ReLU", "LRN", "MaxPool")) > 0.6

# %%
_, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
places = range(len(shares))
axes.barh(
    [p - 0.2 for p in places],
    [t for t, _ in shares.values()],
    0.38,
    label="of the forward time",
    color="#e07b39",
)
axes.barh(
    [p + 0.2 for p in places],
    [b for _, b in shares.values()],
    0.38,
    label="of the bytes of outputs",
    color="#3f6fb5",
)
axes.set_yticks(list(places), list(shares))
axes.invert_yaxis()
axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# (Seconds are a model of a K40c, as in tutorial 4.)
#
# So SuperNeurons keeps the outputs of convolutions and of fully connected layers. They are
# **checkpoints**. The cheap layers between two checkpoints are a **segment**; backward
# computes them again from the checkpoint before them.
#
# As a step, that is the *same* forward run, a second time in the plan. It defines its
# output again, so liveness frees the first value. Nothing else has to be told.

# %%
parts, segment = [], []
for node in net.nodes:
    if node.layer.checkpoint:
        parts.append((node.name, segment := []))
    else:
        segment.append(node.name)
for checkpoint, cheap in parts:
    print(f"{checkpoint:8} {' '.join(cheap)}")
assert ("conv1", ["relu1", "lrn1", "pool1"]) in parts

# %% [markdown]
# ## Three strategies
#
# **speed-centric**: when backward first needs a tensor of a segment, compute the whole
# segment, and keep it until the backward of the segment is done.
#
# **Predict**: the backward of conv2 needs pool1.y. Which layers run again before it? And
# before the backward of lrn1?


# %%
def runs_again(planned):
    """Return, for each run of backward, the layers that run again for it."""
    seen, waiting, found = set(), [], {}
    for run in planned.plan.runs():
        if run.phase == "forward" and run.layer in seen:
            waiting.append(run.layer)
        elif waiting:
            found[f"{run.layer} {run.phase}"] = waiting
            waiting = []
        seen.add(run.layer)
    return found


strategies = ("speed-centric", "memory-centric", "cost-aware")
plans = {
    name: snref.plan(net, preset="liveness", recompute=name, algorithms="none")
    for name in strategies
}
for reader, layers in runs_again(plans["speed-centric"]).items():
    print(f"before {reader:15} {' '.join(layers)}")
assert runs_again(plans["speed-centric"])["conv2 backward"] == [
    "relu1",
    "lrn1",
    "pool1",
]
assert "lrn1 backward" not in runs_again(plans["speed-centric"])

# %% [markdown]
# Three layers run again before conv2's backward, and nothing before lrn1's: relu1.y is
# still there.
#
# **memory-centric**: compute again only what the next run of backward reads, and drop it
# at once. **Predict**: what runs again for the same segment now? How many runs are there
# in all, after 14 with the first strategy?

# %%
for reader, layers in runs_again(plans["memory-centric"]).items():
    print(f"before {reader:15} {' '.join(layers)}")
counts = {name: plan.extra_forwards for name, plan in plans.items()}
print(counts)
assert (counts["speed-centric"], counts["memory-centric"]) == (14, 23)

# %% [markdown]
# relu1 runs three more times now. In a segment of n layers this grows with n². What does it buy?
#
# **cost-aware** asks for each segment: if we compute it as a whole, does it need more than
# the largest layer needs anyway? If not, the memory is there, and speed-centric is free. If
# it does, memory-centric.
#
# **Predict**: the largest backward run has 664.7 MiB. conv1.y, relu1.y and lrn1.y have 221.6
# MiB each. For which segments does cost-aware choose memory-centric?

# %%
largest = layer_peak(plans["cost-aware"].plan)
print(f"the largest backward run: {largest / MiB:.1f} MiB")
assert round(largest / MiB, 1) == 664.7
whole, single = (runs_again(plans[s]) for s in ("speed-centric", "memory-centric"))
mixed = runs_again(plans["cost-aware"])
for reader in mixed:
    print(f"before {reader:15} {' '.join(mixed[reader])}")
assert {reader for reader in mixed if reader not in whole} == {
    "pool1 backward",
    "lrn1 backward",
}

# %% [markdown]
# For one, the segment of conv1: the three tensors alone have 664.7 MiB, and pool1.y and the
# gradients come on top. All others are computed as a whole.

# %%
print(f"{'':15} {'peak':>12} {'extra runs':>11} {'compute':>10}")
table = {"liveness": liveness, **plans}
for name, p in table.items():
    compute = p.timeline.compute_seconds
    print(
        f"{name:15} {p.peak_bytes / MiB:8.3f} MiB {p.extra_forwards:11} {1000 * compute:7.1f} ms"
    )
peaks = {name: round(p.peak_bytes / MiB, 3) for name, p in table.items()}
assert peaks == {
    "liveness": 1489.355,
    "speed-centric": 993.018,
    "memory-centric": 886.230,
    "cost-aware": 886.230,
}
assert counts["cost-aware"] == 17
slower = (
    plans["cost-aware"].timeline.compute_seconds / liveness.timeline.compute_seconds
)
print(f"cost-aware computes {slower - 1:.1%} longer than liveness")
assert slower < 1.03

# %%
_, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, p in table.items():
    curve = [step.nbytes / MiB for step in p.steps]
    line = "--" if name == "memory-centric" else "-"
    axes.step(
        range(1, len(curve) + 1),
        curve,
        line,
        where="mid",
        label=name,
        color=colour("superneurons" if name == "cost-aware" else name),
    )
axes.axvline(23.5, color="#cccccc", linewidth=1, zorder=0)
axes.set_ylim(0)
axes.set_xlabel("step: forward, then backward")
axes.set_ylabel("MiB in use")
axes.legend(frameon=False, fontsize=9)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Two percent of time for two fifths of the memory. The paper's preset "superneurons" also
# offloads the convolutions' outputs. **Predict**: how much lower is its peak?

# %%
both = snref.plan(net, preset="superneurons", algorithms="none")
print(f"{both.peak_bytes / MiB:.3f} MiB")
assert both.peak_bytes == plans["cost-aware"].peak_bytes
assert both.steps[both.peak_step - 1].layer == "lrn1"

# %% [markdown]
# Not at all, on AlexNet: the peak is at the backward of lrn1, where only tensors of the
# first layers are there, and none of them can be away. In other networks offloading helps: try
# `snref compare resnet50 --batch 32` in a terminal.
#
# ## It can go wrong
#
# To compute something again, its source must be there. That can keep a tensor alive longer
# than before. **Predict**: can a plan with recomputation have a *higher* peak than liveness
# alone?

# %%
odd = snref.nets.random_net(57, batch=4)
plain = snref.plan(odd, preset="liveness", algorithms="none")
again = snref.plan(
    odd, preset="liveness", recompute="memory-centric", algorithms="none"
)
print(f"{plain.peak_bytes:,} bytes, with recomputation {again.peak_bytes:,}")
assert again.peak_bytes > 1.2 * plain.peak_bytes

# %% [markdown]
# It can. That is why snref compares plans, and does not trust a rule.
#
# ## Forward must be pure
#
# Dropout sets random elements to 0. In backward the *same* elements must be 0. If dropout
# runs a second time and draws a new mask, y is another tensor, and the gradient belongs to
# a network that nobody ran.
#
# Here is a small example in NumPy: the loss is sum(w * dropout(x)), so its derivative by w
# is dropout(x), with the mask of forward.
#
# **Predict**: which share of the derivatives is wrong if dropout (ratio 1/2) draws again?

# %%
random = np.random.default_rng(0)
x, w = random.normal(size=10_000), random.normal(size=10_000)


def dropout(x, random):
    return np.where(random.random(x.shape) < 0.5, 0, 2 * x)


y = dropout(x, random)  # forward
loss = np.sum(w * y)
kept = y  # backward that kept y
redrawn = dropout(x, random)  # backward that ran dropout again
from_seed = [dropout(x, np.random.default_rng(7)) for _ in range(2)]
wrong = np.mean(redrawn != kept)
print(f"{wrong:.1%} of the derivatives are wrong")
assert 0.48 < wrong < 0.52
assert np.array_equal(*from_seed)

# %% [markdown]
# One half: where exactly one of the two masks is 0. And training would go on without a
# message. The last line shows the cure: the mask must be a *function*, of a seed, the layer,
# the iteration and the element. Then it can be computed again at any time, and need not be
# stored. The kernel of snref does so; it has no generator with a state.
#
# What if you write a layer that is not pure? This one counts its calls, and draws by them.


# %%
@cuda.jit
def count_call(calls):
    for i in range(cuda.grid(1), calls.size, cuda.gridsize(1)):
        calls[i] += float32(1)


@cuda.jit
def masked(y, x, calls):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        word = uint32(i) * uint32(2654435761) + uint32(calls[i]) * uint32(40503)
        word = (word ^ (word >> uint32(15))) * uint32(2246822519)
        keep = (word >> uint32(16)) & uint32(1)
        y[i] = float32(2) * x[i] if keep else float32(0)


@dataclass(frozen=True)
class Redrawing(snref.Layer):
    """A dropout that draws another mask each time it runs."""

    def saved_shapes(self, *inputs):
        return {"calls": inputs[0]}

    def forward(self, node):
        calls = node.saved["calls"]
        grid = grid_of(calls.size)
        counted = Launch(count_call, (calls,), view="flat", updates=True, grid=grid)
        return (counted, *snref.elementwise(masked, node.y, node.x, calls))

    def backward(self, node):
        return snref.elementwise(masked, node.dx, node.dy, node.saved["calls"])


def small(drop):
    """A network with this dropout."""
    net = snref.Net("small")
    x = net.chain(
        net.input((32, 1, 8, 8)), conv1=Conv(8, 3, padding=1), relu1=ReLU(), drop1=drop
    )
    net.chain(x, conv2=Conv(8, 3, padding=1), fc=Linear(10), softmax=Softmax())
    return net


# %% [markdown]
# **Predict**: who notices? Three candidates: the check of a layer, the verifier of a plan
# without recomputation, and the verifier of one with it.

# %%
said = []
try:
    snref.check_layer(Redrawing(), (2, 4, 3, 3))
except snref.LayerError as error:
    said.append(f"check_layer: {error}")
for recompute in None, "speed-centric":
    try:
        snref.plan(small(Redrawing()), preset="liveness", recompute=recompute)
    except snref.InvalidPlan as error:
        said.append(f"verifier, recompute={recompute}: {error}")
print(*said, sep="\n")
assert [line.split(":")[0] for line in said] == [
    "check_layer",
    "verifier, recompute=speed-centric",
]
assert snref.plan(
    small(Dropout()), preset="liveness", recompute="speed-centric"
).extra_forwards

# %% [markdown]
# `check_layer` notices at once. The verifier objects only where the layer would really run
# twice. It does not know kernels; it follows values through the plan, and sees that the
# second run reads another value than the first.
#
# ## Outside this course
#
# In PyTorch, `torch.utils.checkpoint.checkpoint(function, x)` computes a function again in
# backward. It saves the state of the random generator and sets it again, for the reason
# that you have just seen. Chen et al. (2016) put checkpoints at every √n-th layer
# (`--policy chen` in snref); XLA rematerialises on its own.
#
# **Left out**: computing gradients again; which plan is the *best* for a given memory. For
# chains that is solved (`--policy rotor`), in general it is hard (`--policy checkmate`).
#
# ## Questions
#
# 1. How often does the first layer of a segment of n cheap layers run in all, under
#    memory-centric, if each backward reads its layer's input?
# 2. Batch normalisation computes a running mean in forward. May it change it there?
# 3. What is cheaper for AlexNet's ReLUs: to offload their outputs, or to compute them
#    again? By what factor?
#
# ## Answers
#
# The next cell computes the first and the third one.
#
# 1. n + 1 times: once in forward; again for the backward of each of the n - 1 layers after
#    it; and once for the checkpoint that ends the segment. relu1, with n = 3, runs 4 times.
# 2. No. Computed again, it would be changed twice. In snref that is a part of the update.
# 3. To compute them again, by a factor of about 20: 502 MiB over a link of 10 GB/s, both
#    ways, against a few milliseconds.

# %%
runs = [r.layer for r in plans["memory-centric"].plan.runs() if r.phase == "forward"]
print("relu1 runs", runs.count("relu1"), "times")
assert runs.count("relu1") == 4
copies = liveness.costs.copy_out(nbytes["ReLU"]) + liveness.costs.copy_in(
    nbytes["ReLU"]
)
print(f"copies {1000 * copies:.1f} ms, computing {1000 * seconds['ReLU']:.1f} ms")
assert 15 < copies / seconds["ReLU"] < 25
