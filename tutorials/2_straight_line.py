# %% [markdown]
# # 2. A network as a straight line of steps
#
# **At the end you can** say what a scheduler of memory sees of a network: tensors, steps,
# and a last use of each value. You will have written one, from nothing, in less than 200
# lines: it frees what is not needed any more, computes cheap values a second time, and
# trains to the same numbers in less than half of the memory.
#
# **Before you begin**: Python and NumPy; what forward and backward of a layer are. No
# kernels are needed here.
#
# **Time**: about 60 minutes. The cells run for about 5 seconds.
#
# The first cell loads snref, which we need at the end only, to compare.

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
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from snref.layers import Linear, ReLU, Softmax
from snref.plans import Alloc as RealAlloc
from snref.plans import Free as RealFree
from snref.scheduler.liveness import free_dead as real_free_dead

# %% [markdown]
# ## Tensors and runs
#
# Training a network on one batch always does the same things in the same order: each
# layer forward, the loss, each layer backward. So an iteration is a program without
# branches and loops: a *straight line* of steps.
#
# A **tensor** is the name of a value and its shape. It holds no data. A **run** is a step
# that computes: it reads tensors and writes tensors. The parameters, their gradients and
# the batch are *resident*: they stay in memory all the time, so we do not plan them.


# %%
@dataclass(frozen=True, eq=False)
class Tensor:
    name: str
    shape: tuple[int, ...]
    resident: bool = False

    @property
    def nbytes(self) -> int:
        return 4 * int(np.prod(self.shape))  # float32


@dataclass(frozen=True, eq=False)
class Run:
    name: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    compute: Callable
    backward: bool = False


# %% [markdown]
# ## A network
#
# Each of its layers is a product with weights, z = x w, then a *swish*,
# a = z s(z) with s(z) = 1 / (1 + exp(-z)). The formulas of backward:
#
# - swish: dz = da (s + z s (1 - s)), where s is s(z). **It reads z.**
# - product: dx = dz wᵀ, and dw = xᵀ dz. **It reads x**, which is the a of the layer before.
#
# What backward reads is the most important line of a layer here: it decides what has to
# be kept.


# %%
def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def swish(z):
    return (z * sigmoid(z),)


def swish_backward(z, da):
    s = sigmoid(z)
    return (da * (s + z * s * (1 - s)),)


def product(x, w):
    return (x @ w,)


def product_backward(x, w, dz):
    return dz @ w.T, x.T @ dz


def squared_error(a, target):
    return np.mean((a - target) ** 2), 2 * (a - target) / a.size


def network(depth, batch, width):
    """Return the runs of an iteration, and the resident tensors by name."""
    shape = (batch, width)
    x, dx = Tensor("x", shape, True), Tensor("dx", shape)
    target, loss = Tensor("target", shape, True), Tensor("loss", (), True)
    resident = {"x": x, "target": target, "loss": loss}
    forward, backward = [], []
    for i in range(1, depth + 1):
        w = resident[f"w{i}"] = Tensor(f"w{i}", (width, width), True)
        dw = resident[f"dw{i}"] = Tensor(f"dw{i}", (width, width), True)
        z, a = Tensor(f"z{i}", shape), Tensor(f"a{i}", shape)
        dz, da = Tensor(f"dz{i}", shape), Tensor(f"da{i}", shape)
        forward += [
            Run(f"product{i}", (x, w), (z,), product),
            Run(f"swish{i}", (z,), (a,), swish),
        ]
        backward = [
            Run(f"swish{i} backward", (z, da), (dz,), swish_backward, True),
            Run(f"product{i} backward", (x, w, dz), (dx, dw), product_backward, True),
            *backward,
        ]
        x, dx = a, da
    middle = Run("loss", (x, target), (loss, dx), squared_error)
    return [*forward, middle, *backward], resident


route, resident = network(depth=2, batch=4, width=3)
for run in route:
    print(
        f"{run.name:18}",
        *(t.name for t in run.reads),
        "->",
        *(t.name for t in run.writes),
    )

# %% [markdown]
# This list is the **route**. Find the line that reads `z1` for the last time. Everything
# that follows in this course is about lists like this one.
#
# ## Memory as steps
#
# Memory is two further kinds of steps: allocate a tensor, free a tensor. A **plan** is a
# list of runs, allocations and frees. The simplest plan holds everything.


# %%
@dataclass(frozen=True, eq=False)
class Alloc:
    tensor: Tensor


@dataclass(frozen=True, eq=False)
class Free:
    tensor: Tensor


def planned_tensors(step):
    return [t for t in (*step.reads, *step.writes) if not t.resident]


def hold_all(runs):
    tensors = dict.fromkeys(t for run in runs for t in planned_tensors(run))
    return [*map(Alloc, tensors), *runs, *map(Free, tensors)]


def memory(plan):
    """Return the bytes in use during each run."""
    in_use, curve = 0, []
    for step in plan:
        if isinstance(step, Alloc):
            in_use += step.tensor.nbytes
        elif isinstance(step, Free):
            in_use -= step.tensor.nbytes
        else:
            curve.append(in_use)
    return curve


# %% [markdown]
# Now a network of 6 layers, width 64, and a batch of 256.
#
# **Predict**: how many KiB has one tensor z? How many tensors does the plan hold: z, a,
# dz and da for each layer, and one dx? How many KiB are they together?

# %%
route, resident = network(depth=6, batch=256, width=64)
baseline = hold_all(route)
one = 256 * 64 * 4
print(
    "one tensor:", one / 1024, "KiB;  all of them:", max(memory(baseline)) / 1024, "KiB"
)
assert max(memory(baseline)) == (4 * 6 + 1) * one

# %% [markdown]
# ## Last uses
#
# After the last step that reads it, a value is *dead*, and its memory can be freed. To
# find last uses, go through the plan from its end: the first time that you meet a tensor
# is its last use. One detail will matter later: if a step *writes* the tensor, the value
# before it was another one. So going backward, a write makes the tensor dead again.


# %%
def free_dead(runs):
    """Allocate each tensor before its first use, and free it after its last use."""
    live, dying = set(), []
    for run in reversed(runs):
        dying.append([t for t in planned_tensors(run) if t not in live])
        live -= set(run.writes)
        live |= set(run.reads)
    plan, allocated = [], set()
    for run, dead in zip(runs, reversed(dying), strict=True):
        for tensor in planned_tensors(run):
            if tensor not in allocated:
                allocated.add(tensor)
                plan.append(Alloc(tensor))
        plan.append(run)
        for tensor in dead:
            allocated.discard(tensor)
            plan.append(Free(tensor))
    return plan


# %% [markdown]
# **Predict**: at which run is the memory largest now: at the beginning, in the middle, or
# at the end? How many tensors are there at that moment?

# %%
liveness = free_dead(route)
curve = memory(liveness)
peak = curve.index(max(curve))
print("largest during:", route[peak].name, " tensors:", curve[peak] // one)
assert route[peak].name == "loss" and curve[peak] // one == 13

# %% [markdown]
# In the middle: when the loss is computed, z and a of all six layers are there, and the first
# gradient. Backward will read all of them but a6, which only the loss reads.
#
# ## Compute it again
#
# A swish is cheap. Its output a can be computed again from z, which we keep anyway. So we
# drop a after forward, and run the same swish a second time just before backward reads it.
#
# **All that we have to do is to insert the second run.** It defines a again. So between
# its last use in forward and this run, a is dead, and `free_dead` frees it: we do not
# change a line of it.


# %%
def recompute(runs, cheap):
    """Run the maker of a cheap value again before each backward run that reads it."""
    maker = {t: run for run in runs for t in run.writes if run.compute is cheap}
    line = []
    for run in runs:
        if run.backward:
            line += [maker[t] for t in run.reads if t in maker]
        line.append(run)
    return line


# %% [markdown]
# **Predict**: how many runs are added? By how much does the peak fall: nothing, a quarter,
# a half?

# %%
again = free_dead(recompute(route, swish))
plans = {"hold all": baseline, "free": liveness, "free, recompute": again}
for name, plan in plans.items():
    runs = sum(isinstance(step, Run) for step in plan)
    print(f"{name:16} {runs:3} runs {max(memory(plan)) / 1024:7.0f} KiB")
assert [max(memory(plan)) // one for plan in plans.values()] == [25, 13, 8]
assert sum(isinstance(s, Run) for s in again) - len(route) == 5

# %% [markdown]
# Five runs more, for a1 to a5; a6 is read by the loss only. The peak falls from 13 tensors
# to 8: six z, and two more.

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for (name, plan), colour in zip(
    plans.items(), ("#9aa0a6", "#3f6fb5", "#2f8f5b"), strict=True
):
    curve = [nbytes / 1024 for nbytes in memory(plan)]
    axes.step(range(1, len(curve) + 1), curve, where="mid", label=name, color=colour)
axes.set_ylim(0)
axes.set_xlabel("run")
axes.set_ylabel("KiB in use")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## Does it still compute the same?
#
# A plan is a promise: the numbers do not change. So let us execute it. The executor makes
# no decision. It does what each step says. New memory is filled with NaN, so that a value
# that is read before it is written is seen at once.


# %%
def execute(plan, arrays):
    """Do the steps of a plan; arrays holds the resident tensors."""
    for step in plan:
        match step:
            case Alloc(tensor):
                arrays[tensor] = np.full(tensor.shape, np.nan, np.float32)
            case Free(tensor):
                del arrays[tensor]
            case Run():
                outputs = step.compute(*(arrays[t] for t in step.reads))
                for tensor, value in zip(step.writes, outputs, strict=True):
                    arrays[tensor][...] = value


def train(plan, resident, iterations):
    """Return the losses, and the last weights."""
    random = np.random.default_rng(0)
    arrays = {
        tensor: random.normal(0, 0.2, tensor.shape).astype(np.float32)
        for tensor in resident.values()
    }
    losses = []
    for _ in range(iterations):
        execute(plan, arrays)
        losses.append(float(arrays[resident["loss"]]))
        for name, tensor in resident.items():
            if name.startswith("w"):
                arrays[tensor] -= np.float32(100) * arrays[resident["d" + name]]
    return losses, [arrays[t] for n, t in resident.items() if n.startswith("w")]


trained = {name: train(plan, resident, 40) for name, plan in plans.items()}
for name, (losses, _) in trained.items():
    print(f"{name:16} loss {losses[0]:.6f} ... {losses[-1]:.6f}")
losses, weights = trained["hold all"]
assert losses[-1] < losses[0]
for other_losses, other_weights in trained.values():
    assert losses == other_losses
    assert all(map(np.array_equal, weights, other_weights))
print("the same, bit for bit")

# %% [markdown]
# ## A plan that is wrong
#
# **Predict**: we free z3 one run too early. What will happen?

# %%
wrong = list(again)
free = max(
    i for i, s in enumerate(wrong) if isinstance(s, Free) and s.tensor.name == "z3"
)
run = max(i for i in range(free) if isinstance(wrong[i], Run))
wrong.insert(run, wrong.pop(free))
try:
    train(wrong, resident, 1)
    raise AssertionError("the wrong plan ran")
except KeyError as error:
    missing = error.args[0].name
    print(f"{wrong[run + 1].name} reads {missing}, which is not there")
assert missing == "z3"

# %% [markdown]
# The executor found it, since it keeps each tensor in an array of its own. A real device
# has one large piece of memory: the wrong plan would read what another tensor has left
# there, and training would go wrong without a message. That is why snref has a verifier,
# which looks at every plan before it runs.
#
# ## The real one
#
# Here is how snref does the same. First a network, and the plan of the preset "liveness":

# %%
net = snref.Net("small", declarations="lean")
x = net.input((256, 64))
x = net.chain(x, fc1=Linear(64), relu1=ReLU(), fc2=Linear(10), softmax=Softmax())
planned = snref.plan(net, preset="liveness", overwrite="never")
print(planned.plan)
assert any(isinstance(step, RealAlloc) for step in planned.plan.steps)

# %% [markdown]
# Compare its `free_dead` with yours:

# %%
print(inspect.getsource(real_free_dead))

# %% [markdown]
# And the verifier. We take one step out of the plan: the first allocation, the first run,
# the first free. Each time it says what is wrong, and at which step.

# %%
steps = planned.plan.steps
first_free = next(i for i, step in enumerate(steps) if isinstance(step, RealFree))
for i in (0, 1, first_free):
    try:
        snref.verify(snref.Plan(steps[:i] + steps[i + 1 :]), planned.route)
        raise AssertionError("the verifier did not object")
    except snref.InvalidPlan as error:
        print(f"without step {i}:", error)

# %% [markdown]
# ## Outside this course
#
# In PyTorch, `torch.utils.checkpoint` computes a piece of a network again in backward:
# the user says which piece. XLA rematerialises: its compiler picks values to compute again
# when the program needs more memory than there is.
#
# **Left out** here: addresses (each tensor has an array of its own, so there are no holes
# between them), copies to the host, forks and joins, the update as steps of the plan, and
# which values are worth computing again. The next tutorials add them.
#
# ## Questions
#
# 1. Why may `recompute` not run a swish again *before* z is computed, and what makes sure
#    that it does not?
# 2. If ReLU were the activation, backward could read a instead of z. What would be dead
#    after forward, and how large would the peak of "free" be?
# 3. What would happen if a run drew random numbers (dropout), and ran a second time?
#
# ## Answers
#
# The next cell computes the second one.
#
# 1. It is inserted before a run of the backward pass, and all of these come after forward,
#    which computed z. z is kept until then because the second swish reads it: to
#    `free_dead` that is one more use.
# 2. z is dead as soon as a is computed. Only the six a remain, and the gradients: 8
#    tensors, with no run more.
# 3. It would draw other numbers, and backward would belong to another forward pass. The
#    result is wrong without a message. Tutorial 5 shows it, and what helps.


# %%
def reads_output(runs):
    """Let the backward of each swish read a in place of z, as a ReLU can."""
    output = {run.reads[0]: run.writes[0] for run in runs if run.compute is swish}
    return [
        Run(run.name, (output[run.reads[0]], run.reads[1]), run.writes, run.compute)
        if run.compute is swish_backward
        else run
        for run in runs
    ]


relu_like = memory(free_dead(reads_output(route)))
print(max(relu_like) // one, "tensors")
assert max(relu_like) // one == 8
