# %% [markdown]
# # 4. The tensor pool: memory of the host as more memory of the device
#
# **At the end you can** say what offload and prefetch cost and save; read a timeline of
# three clocks and see where a run waits for a copy; say why a plan may need more addresses
# than bytes; and write a rule of eviction for a cache of tensors.
#
# **Before you begin**: tutorial 3, or its words: *peak*, *last use*, *working set*.
#
# **Time**: about 75 minutes. The cells run for about 5 seconds.

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

from dataclasses import replace

import matplotlib.pyplot as plt

from snref.plans import Alloc, Free, Offload, Prefetch, Run, extent, memory
from snref.scheduler.in_place import overwrite
from snref.scheduler.lru_cache import least_recently_used, tensor_cache
from snref.scheduler.placement import place
from snref.scheduler.slab import Pool
from snref.timing.timeline import simulate

MiB = 2**20

# %% [markdown]
# ## Two steps
#
# The host (the computer around a GPU) has more memory than the device. So a tensor that is
# not needed for a long time can be copied to the host, and back before it is needed:
#
# - **offload**: copy a tensor to the host. The step *reads* the tensor.
# - **prefetch**: copy it back. The step *writes* the tensor: it defines it a second time.
#
# Nothing says "free the tensor now". Between its last use (which may be the offload) and
# the prefetch it is dead, and liveness frees it, as in tutorials 2 and 3. Here is LeNet,
# forward only:

# %%
lenet = snref.plan(snref.nets.lenet(batch=8), preset="offload", algorithms="none")
lines = str(lenet.plan).splitlines()
print(*lines[: lines.index("prefetch  conv2.y") + 1], sep="\n")

# %% [markdown]
# Which tensors are worth two copies? In the paper: the outputs of convolutions. They are
# large, and costly to compute again.
#
# **Predict**: AlexNet at batch 200 has five convolutions, whose outputs have 221.6, 142.4,
# 49.5, 49.5 and 33.0 MiB. The peak of "liveness" is 1489 MiB. Where is the new peak: below
# 1489 - 496 = 993 MiB, there, or above it?

# %%
net = snref.nets.alexnet(batch=200)
held = snref.plan(net, preset="liveness", algorithms="none")
planned = snref.plan(net, preset="offload", algorithms="none")
print(f"copied to the host: {planned.offload_bytes / MiB:.3f} MiB")
for name, p in {"liveness": held, "offload": planned}.items():
    peak = p.steps[p.peak_step - 1]
    print(
        f"{name:9} {p.peak_bytes / MiB:9.3f} MiB at step {p.peak_step}: {peak.layer} {peak.phase}"
    )
assert round(planned.offload_bytes / MiB, 1) == 496.0
assert round(planned.peak_bytes / MiB, 3) == 1132.056
assert planned.offload_bytes == planned.prefetch_bytes

# %% [markdown]
# Above it. The copies come back while backward runs, and the new peak is at a step where
# some of them are back already.
#
# (`algorithms="none"` gives all plans of this tutorial the same convolutions. Which ones
# to take when there is more memory is tutorial 6.)
#
# ## Three clocks
#
# A GPU computes, copies to the host and copies from it *at the same time*. So a plan has
# three clocks. They wait for each other where they must:
#
# - a copy waits for the runs before it, which write what it copies;
# - a run waits until the tensors that it reads are back;
# - memory is given to another tensor only when it has been copied out.
#
# There is no GPU in this notebook. The seconds come from a *model* of one, NVIDIA's K40c
# of the paper: operations and bytes, divided by what the device can do. They rank plans,
# and are no measurement.
#
# **Predict**: the link to the host moves about 10 GB in a second. How many milliseconds do
# 496 MiB take, each way? How many of them will the runs have to wait?

# %%
time = planned.timeline
print(planned.costs.source, f"{planned.costs.to_host / 1e9:.2f} GB/s to the host")
for what in "compute", "copy_out", "copy_in", "stall":
    print(f"{what:9} {1000 * getattr(time, what + '_seconds'):6.1f} ms")
assert 51 < 1000 * time.copy_out_seconds < 53 and 51 < 1000 * time.copy_in_seconds < 53
assert 0 < time.stall_seconds < (time.copy_out_seconds + time.copy_in_seconds) / 2


# %%
def draw(planned, time, title):
    """Draw when each step begins and ends, on the three clocks."""
    _, axes = plt.subplots(figsize=(8, 2.2), layout="constrained")
    rows = {Run: (2, "#3f6fb5"), Offload: (1, "#e07b39"), Prefetch: (0, "#2f8f5b")}
    for step, start, end in zip(planned.steps, time.starts, time.ends, strict=True):
        if type(step) in rows:
            row, colour = rows[type(step)]
            width = 1000 * (end - start)
            axes.barh(
                row,
                width,
                0.7,
                1000 * start,
                color=colour,
                edgecolor="white",
                linewidth=0.5,
            )
    axes.set_yticks([2, 1, 0], ["runs", "copies out", "copies in"])
    axes.set_xlabel("milliseconds, modelled")
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    plt.show()


draw(
    planned.plan,
    time,
    f"offload: the runs wait for {1000 * time.stall_seconds:.0f} ms in all",
)

# %% [markdown]
# Look for the white gaps in the row of the runs: there a run waits. Which ones are they?


# %%
def gaps(plan, time):
    """Return the runs that wait for copies, with milliseconds."""
    found, last = {}, 0.0
    for step, start, end in zip(plan.steps, time.starts, time.ends, strict=True):
        if isinstance(step, Run):
            if start - last > 1e-6:
                found[step.layer, step.phase] = 1000 * (start - last)
            last = end
    return found


waiting = gaps(planned.plan, time)
for (layer, phase), milliseconds in waiting.items():
    print(f"{layer:6} {phase}: {milliseconds:5.1f} ms")
assert (
    all(phase == "forward" for _, phase in waiting) and ("lrn1", "forward") in waiting
)
first = next(s.offset for s in planned.plan.steps if isinstance(s, Alloc))
third = next(
    s for s in planned.plan.steps if isinstance(s, Alloc) and s.tensor.name == "lrn1.y"
)
print("conv1.y lies at", first, "and lrn1.y, later, at", third.offset)
assert first == third.offset

# %% [markdown]
# All of them are in forward. `lrn1` does not read conv1.y. But its output is placed where
# conv1.y lies, and conv1.y is still on its way to the host. Saving memory means to use it
# again soon; so here the saving has its price.
#
# In backward nothing waits: the copies in are hidden behind runs.
#
# ## Earlier, or later
#
# `ahead` says by how many convolutions a prefetch is early: 1 in the paper.
#
# **Predict**: what happens to the waiting and to the peak with 0 (at the last moment), and
# with 2?

# %%
for ahead in 0, 1, 2:
    plan = snref.schedule(planned.route, planned.options, planned.costs, ahead=ahead)
    waits = simulate(plan, planned.costs).stall_seconds
    print(
        f"{ahead} ahead: waits {1000 * waits:5.1f} ms, peak {max(memory(plan)) / MiB:8.3f} MiB"
    )
    if ahead == 0:
        assert waits > 2 * time.stall_seconds and max(memory(plan)) < planned.peak_bytes
    if ahead == 2:
        assert waits == time.stall_seconds and max(memory(plan)) > planned.peak_bytes

# %% [markdown]
# Later means more waiting: with 0, runs of backward wait, too. Earlier means more memory,
# and gains nothing here, since no run of backward waits with 1.
#
# **Predict**: with a link that is four times as fast, how much waiting is left?

# %%
faster = replace(
    planned.costs,
    to_host=4 * planned.costs.to_host,
    to_device=4 * planned.costs.to_device,
)
waits = simulate(planned.plan, faster).stall_seconds
print(f"{1000 * time.stall_seconds:.1f} ms -> {1000 * waits:.1f} ms")
assert waits < time.stall_seconds / 4

# %% [markdown]
# ## Bytes are not addresses
#
# Asking the driver for memory is slow. So SuperNeurons asks for one *slab*, and keeps its
# own list of holes: the *pool*. A tensor gets the first hole that is large enough.
#
# **Predict**: a slab of 10 KiB. We allocate 4, 4 and 2 KiB, free the first and the last,
# and ask for 5 KiB. How many bytes are free? Does it succeed?

# %%
KiB = 1024
pool = Pool(slab=10 * KiB)
first, second, third = (pool.allocate(n * KiB) for n in (4, 4, 2))
pool.free(first)
pool.free(third)
print("free: 6 KiB; the largest hole:", pool.largest_hole // KiB, "KiB")
assert pool.allocate(5 * KiB) is None

# %% [markdown]
# 6 KiB are free, but in two pieces. This is *fragmentation*. The highest address that a plan
# uses is its **extent**; the most bytes in use are its **peak**; the extent is what the
# device has to have.
#
# A plan is known before it runs. So we can do better than the first hole: place all
# allocations of the plan together. Both are drawn below: time goes to the right, addresses
# go up, and each rectangle is a tensor in memory.
#
# **Predict**: by how much is the extent above the peak, with the first hole that fits, and
# packed together?

# %%
placed = {
    "first fit": place(planned.plan, order="arrival"),
    "packed": place(planned.plan),
}
peak = max(memory(planned.plan))
_, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for axis, (name, plan) in zip(axes, placed.items(), strict=True):
    born, now = {}, 0
    for step in plan.steps:
        now += isinstance(step, Run)
        if isinstance(step, Alloc):
            born[step.tensor] = now, step.offset
        elif isinstance(step, Free):
            begin, offset = born.pop(step.tensor)
            size = step.tensor.nbytes / MiB
            axis.barh(
                offset / MiB,
                now - begin,
                size,
                begin,
                align="edge",
                edgecolor="white",
                linewidth=0.5,
            )
    axis.axhline(peak / MiB, color="black", linewidth=1, linestyle=":")
    axis.set_title(
        f"{name}: extent {extent(plan) / MiB:.0f} MiB", loc="left", fontsize=10
    )
    axis.set_xlabel("run")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("address, MiB; dotted: the peak")
plt.show()
print({name: f"{extent(plan) / peak:.3f} of the peak" for name, plan in placed.items()})
assert 1.10 < extent(placed["first fit"]) / peak < 1.11
assert extent(placed["packed"]) == peak

# %% [markdown]
# Here the packing has no loss at all. That is not so for every plan: snref prints peak and
# extent, always both, and a budget is compared with the extent.
#
# ## A cache: copy only what does not fit
#
# Offloading copies 496 MiB in every iteration, even where memory is plenty. The second idea
# of the paper treats the slab as a **cache**: a tensor stays until its memory is needed.
# Then the *least recently used* one is evicted. Backward needs the latest tensors first, so
# the ones that were used longest ago are needed last.
#
# As in every training iteration the same things happen, the cache is played once, when the
# plan is made. What it does becomes steps of the plan. This is the preset "cache":
#
# **Predict**: how many MiB are copied in each of these slabs? The plan needs 886 MiB without
# copies.

# %%
resident = sum(snref.plan(net, preset="cache").resident.values())
print("slab MiB   out MiB    in MiB   iteration")
copied = {}
for slab in 1000, 887, 880, 800, 700, 665:
    p = snref.plan(net, preset="cache", algorithms="none", memory=resident + slab * MiB)
    copied[slab] = p.offload_bytes
    print(
        f"{slab:8} {p.offload_bytes / MiB:9.1f} {p.prefetch_bytes / MiB:9.1f}"
        f" {1000 * p.timeline.seconds:8.0f} ms"
    )
assert copied[1000] == copied[887] == 0 < copied[880] <= copied[665]

# %% [markdown]
# As long as everything fits, nothing moves. In the smallest slab there is room for the
# largest layer only.
#
# ## A rule of your own
#
# Which tensor leaves is a small function. It gets the cache and the tensors that must stay
# (*locked*: the running layer needs them). `cache.used` holds the tensors, least recently
# used first. We write the opposite rule, and compare. (Without recomputation, so that only
# the cache decides.)
#
# **Predict**: which rule copies less? By what factor?


# %%
def most_recently_used(cache, locked):
    return next((t for t in reversed(cache.used) if t not in locked), None)


line = overwrite(planned.route, "gradients")
rules = {
    "least recently used": least_recently_used,
    "most recently used": most_recently_used,
}
moved = {name: [] for name in rules}
slabs = range(800, 1501, 50)
for slab in slabs:
    for name, rule in rules.items():
        steps = tensor_cache(line, slab * MiB, victim=rule).steps
        moved[name].append(
            sum(s.tensor.nbytes for s in steps if isinstance(s, Offload | Prefetch))
            / MiB
        )

_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, curve in moved.items():
    axes.plot(slabs, curve, "o-", label=name, markersize=4)
axes.set_xlabel("slab, MiB")
axes.set_ylabel("MiB copied, both ways")
axes.set_ylim(0)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
lru, mru = moved.values()
worse = [slab for slab, a, b in zip(slabs, lru, mru, strict=True) if a > b]
print("least recently used copies more only in slabs of", worse, "MiB")
assert lru[-1] == mru[-1] == 0 and 0 < len(worse) < len(slabs) / 4
assert sum(lru) < sum(mru)

# %% [markdown]
# Least recently used is better in most slabs, but not in all. It looks at time alone. How
# large a tensor is, and whether its hole and the ones beside it are large enough for the
# next one, it does not see.
#
# And a rule may make a mistake. The cache looks at what it returns:


# %%
def forgets_the_lock(cache, locked):
    return next(reversed(cache.used), None)


try:
    tensor_cache(line, 800 * MiB, victim=forgets_the_lock)
    raise AssertionError("the rule was not refused")
except ValueError as error:
    print(error)

# %% [markdown]
# And no rule can help if a layer does not fit:

# %%
try:
    snref.plan(net, preset="cache", memory=resident + 600 * MiB)
    raise AssertionError("a layer ran in less than it needs")
except snref.OutOfMemory as error:
    print(error)
    assert error.least == resident + 696960000

# %% [markdown]
# ## Outside this course
#
# vDNN (Rhu et al. 2016) offloads the inputs of convolutions; `--policy vdnn-conv` is its
# rule in snref. In PyTorch, `torch.autograd.graph.save_on_cpu` moves all that backward
# saves to the host. PyTorch's own allocator is a pool with holes, too: its setting
# `expandable_segments` is an answer to fragmentation.
#
# **Left out**: pinned memory (the host's pages must be locked for fast copies); several
# GPUs that share one link; the links of newer machines, which are faster, while their
# computing is faster by more (tutorial 9 computes it for two GPUs).
#
# ## Questions
#
# 1. Is a tensor copied to the host again if it is evicted a second time?
# 2. Why does offloading not copy the output of a ReLU?
# 3. A cache that knows the future would evict the tensor whose next use is furthest away
#    (Belady 1966). For a chain of layers, at the end of forward, which one is that? What
#    does it say about least recently used?
#
# ## Answers
#
# The next cell shows the first one.
#
# 1. No. Its value has not changed since, so the copy on the host is still right: more comes
#    in than goes out.
# 2. It is cheap to compute again, which costs less than two copies (tutorial 5).
# 3. The output of the first layer, which backward reads last. It was also used longest ago:
#    in a chain both rules look at the same end.

# %%
small = snref.plan(net, preset="cache", algorithms="none", memory=resident + 800 * MiB)
times = {}
for step in small.plan.steps:
    if isinstance(step, Offload | Prefetch):
        times.setdefault(step.tensor.name, []).append(type(step).__name__)
print(times)
assert small.prefetch_bytes > small.offload_bytes
assert all(found.count("Offload") == 1 for found in times.values())
