"""Other systems' planners: their plans are valid, fit, and follow their rule."""

from itertools import combinations, pairwise
from typing import get_args

import numpy as np
import pytest

from snref import Net
from snref.commands.cite import ENTRIES
from snref.layers import Conv, Linear, ReLU, Softmax
from snref.net import route
from snref.nets import alexnet, find, random_net
from snref.planning.planned import plan
from snref.plans import (
    Launch,
    Offload,
    OutOfMemory,
    Plan,
    Prefetch,
    Run,
    Tensor,
    extent,
    host_memory,
    lower_bound,
    memory,
)
from snref.policies import POLICIES
from snref.policies.dtr import _Runtime
from snref.policies.mxnet import _take
from snref.policies.rebuilding import Stay, kept_for_backward, rebuild
from snref.scheduler import Options
from snref.scheduler.liveness import free_dead
from snref.timing.costs import Costs

QUICK = tuple(name for name in POLICIES if name != "checkmate")


def chain(depth, batch=4):
    """Convolutions of one size in a row, each with its ReLU."""
    net = Net(f"chain of {depth}")
    x = net.input((batch, 8, 8, 8))
    for i in range(depth):
        x = net.add(f"conv{i}", Conv(8, 3, padding=1), x)
        x = net.add(f"relu{i}", ReLU(), x)
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    return net


def budgets(net, policy):
    """Memory from the lower bound to what the policy takes if there is no limit."""
    free = plan(net, policy=policy)
    fixed, bound = sum(free.resident.values()), lower_bound(free.plan)
    for share in (1.0, 0.6, 0.3, 0.0):
        yield fixed + bound + int(share * max(0, extent(free.plan) - bound))


# All of them


@pytest.mark.parametrize(
    "seed", [s if s < 2 else pytest.param(s, marks=pytest.mark.slow) for s in range(6)]
)
@pytest.mark.parametrize("policy", QUICK)
def test_a_plan_is_valid_and_fits_or_the_error_names_what_does(policy, seed):
    """``plan`` verifies each of them."""
    net = random_net(seed)
    for budget in budgets(net, policy):
        try:
            planned = plan(net, policy=policy, memory=budget)
            assert planned.total_bytes <= budget
        except OutOfMemory as error:
            assert error.least > budget
            planned = plan(net, policy=policy, memory=error.least)
            assert planned.total_bytes <= error.least


@pytest.mark.parametrize("policy", QUICK)
def test_too_little_memory_of_the_host_is_an_error_that_says_so(policy):
    net = alexnet(batch=8)
    whole = plan(net, policy=policy)
    budget = whole.total_bytes - 1 if policy == "belady" else None
    kept = plan(net, policy=policy, memory=budget).host_bytes
    if kept:
        assert plan(net, policy=policy, memory=budget, host_memory=kept)
        with pytest.raises(OutOfMemory, match="the host"):
            plan(net, policy=policy, memory=budget, host_memory=kept - 1)


def test_a_policy_says_which_savings_it_had():
    options = plan(find("lenet"), policy="dtr").to_json()["options"]
    assert (options["overwrite"], options["algorithms"]) == ("never", "exact")
    assert options["recompute"] == options["transfers"] == "decided by the policy"
    given = plan(find("lenet"), policy="dtr", overwrite="gradients").to_json()
    assert given["options"]["overwrite"] == "gradients"


def test_an_unknown_policy_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"no policy 'vdn': caffe, .*vdnn-dyn.*, or "):
        plan(find("lenet"), policy="vdn")


@pytest.mark.parametrize("policy", POLICIES)
def test_cite_has_the_source_of_a_policy(policy):
    assert ENTRIES.count(f"{{{POLICIES[policy].source},") == 1


# Each by its rule


def test_caffe_holds_every_tensor_and_small_workspaces():
    planned = plan(alexnet(batch=8), policy="caffe")
    baseline = plan(alexnet(batch=8), preset="baseline")
    assert planned.peak_bytes == baseline.peak_bytes
    assert 0 < planned.workspace_peak_bytes <= 8 << 20
    assert planned.host_bytes == planned.extra_forwards == 0


def copied(planned):
    return [s.tensor.name for s in planned.plan.steps if isinstance(s, Offload)]


def test_vdnn_copies_the_inputs_of_convolutions_or_of_all_layers_before_the_first_fc():
    net = alexnet(batch=8)
    assert copied(plan(net, policy="vdnn-conv")) == [
        "pool1.y",
        "pool2.y",
        "relu3.y",
        "relu4.y",
    ]
    every = copied(plan(net, policy="vdnn-all"))
    assert every[:4] == ["conv1.y", "relu1.y", "lrn1.y", "pool1.y"]
    assert not {name for name in every if name.startswith(("fc", "drop", "relu6"))}


def test_vdnn_copies_an_input_back_beside_the_backward_of_the_layer_behind_it():
    steps = plan(alexnet(batch=8), policy="vdnn-conv").plan.steps
    order = [
        step.layer if isinstance(step, Run) else step.tensor.name
        for step in steps
        if isinstance(step, Prefetch) or (isinstance(step, Run) and step.choices)
    ]
    backward = order[order.index("conv5") + 1 :]
    expected = "relu4.y relu3.y conv5 pool2.y conv4 pool1.y conv3 conv2 conv1"
    assert backward == expected.split()


def test_vdnn_dyn_takes_the_first_plan_that_fits():
    net = alexnet(batch=64)
    free = plan(net, policy="vdnn-dyn")
    assert not copied(free) and free.workspace_peak_bytes
    conv = plan(net, policy="vdnn-conv")
    assert copied(plan(net, policy="vdnn-dyn", memory=conv.total_bytes)) == copied(conv)
    least = plan(net, policy="vdnn-all", algorithms="none").total_bytes
    assert copied(plan(net, policy="vdnn-dyn", memory=least)) == copied(
        plan(net, policy="vdnn-all", memory=least)
    )
    with pytest.raises(OutOfMemory):
        plan(net, policy="vdnn-dyn", memory=least - 1)


def test_chens_memory_grows_with_the_root_of_the_depth():
    peaks = {n: plan(chain(n), policy="chen").peak_bytes for n in (16, 64, 256)}
    assert peaks[64] <= 2.3 * peaks[16] and peaks[256] <= 2.3 * peaks[64]
    deep = plan(chain(256), policy="chen")
    assert deep.extra_forwards <= 2 * 256


def test_dtr_trains_a_chain_of_n_layers_in_about_root_n_memory():
    """The paper: N layers in memory of the order of root N with O(N) more runs."""
    layers = 64
    net = chain(layers)
    bound = lower_bound(route(net))
    tensor = net.nodes[0].y.aligned_bytes
    limit = bound + 4 * int(layers**0.5) * tensor
    fixed = sum(plan(net).resident.values())
    planned = plan(net, policy="dtr", memory=fixed + limit)
    liveness = max(memory(free_dead(route(net))))
    assert planned.peak_bytes < 0.4 * liveness
    assert planned.extra_forwards <= 6 * layers


@pytest.mark.parametrize("share", [0.8, 0.6, 0.4])
def test_belady_copies_no_more_than_least_recently_used_where_tensors_are_equal(share):
    net = chain(24)
    free = plan(net, preset="liveness")
    budget = free.total_bytes - int((1 - share) * extent(free.plan))
    least = plan(net, preset="cache", recompute=None, memory=budget)
    planned = plan(net, policy="belady", memory=budget)
    assert 0 < len(copied(planned)) <= len(copied(least))
    assert planned.extra_forwards == 0


def test_mxnet_takes_the_smallest_block_that_fits_or_lets_the_largest_grow():
    free = [(100, 1), (400, 0), (1900, 2), (2000, 3)]
    sizes = [400, 100, 1900, 2000]
    assert _take(free, sizes, 300) == 0  # the smallest that is large enough
    assert _take(free, sizes, 120) == 2  # at most 16 times as large
    assert _take(free, sizes, 120) == 1 and sizes[1] == 120  # else one that grows
    assert _take(free, sizes, 120) == 4 and sizes[4] == 120  # else a new one
    assert free == [(2000, 3)]


@pytest.mark.parametrize("seed", range(6))
def test_the_blocks_of_mxnet_hold_what_a_tighter_packing_needs_or_more(seed):
    net = random_net(seed)
    blocks = plan(net, policy="mxnet", algorithms="none")
    assert extent(blocks.plan) >= extent(plan(net, preset="liveness").plan)
    assert blocks.extra_forwards == 0


def rerun(planned):
    seen, again = set(), set()
    for run in planned.plan.runs():
        if run.phase == "forward" and run.layer in seen:
            again.add(run.layer)
        seen.add(run.layer)
    return again


def test_mirror_computes_the_cheap_layers_again_each_once():
    planned = plan(alexnet(batch=8), policy="mxnet-mirror")
    again = rerun(planned)
    assert again == {"relu1", "lrn1", "pool1", "relu2", "lrn2", "pool2"} | {
        f"relu{i}" for i in (3, 4, 5, 6, 7)
    } | {"pool5"}
    assert planned.extra_forwards == len(again)


def test_densenets_memory_without_concatenations_and_norms_is_far_less():
    net = find("densenet121", batch=8).with_options("lean")
    planned = plan(net, policy="densenets")
    baseline = plan(net, preset="liveness", overwrite="never")
    assert planned.peak_bytes < 0.45 * baseline.peak_bytes
    kinds = {name.rpartition(".")[2].rstrip("123") for name in rerun(planned)}
    assert kinds == {"bn", "relu", "concat"}


def test_tensorflow_swaps_nothing_that_is_small_and_only_what_a_peak_needs():
    net = alexnet(batch=64)
    free = plan(net, policy="tensorflow")
    assert not copied(free)
    less = plan(net, policy="tensorflow", memory=free.total_bytes - (8 << 20))
    least = plan(net, policy="tensorflow", memory=free.total_bytes - (99 << 20))
    assert 0 < less.offload_bytes < least.offload_bytes
    sizes = [s.tensor.nbytes for s in least.plan.steps if isinstance(s, Offload)]
    assert min(sizes) > 1 << 20


def test_the_memory_budget_keeps_what_is_worth_most():
    net = find("vgg16", batch=4)
    free = plan(net, policy="memory-budget")
    assert free.extra_forwards == 0
    last = free.timeline.compute_seconds
    for share in (0.85, 0.7, 0.55):
        budget = free.total_bytes - int((1 - share) * extent(free.plan))
        planned = plan(net, policy="memory-budget", memory=budget, algorithms="none")
        assert planned.timeline.compute_seconds >= last
        last = planned.timeline.compute_seconds


def keeping(net, costs):
    """Yield the plans that keep each subset of the outputs that backward needs."""
    whole = route(net)
    waiting = [*kept_for_backward(whole)]
    for count in range(len(waiting) + 1):
        for dropped in combinations(waiting, count):
            for stay in get_args(Stay):
                made = rebuild(whole, dropped, stay)
                peak = max(memory(free_dead(made), workspace=True))
                yield peak, sum(map(costs.seconds, made.runs()))


def test_checkmate_is_no_slower_than_any_choice_of_what_is_kept():
    net, own = chain(4), {"algorithms": "none", "overwrite": "never"}
    free = plan(net, policy="checkmate", **own)
    fixed = sum(free.resident.values())
    others = [*keeping(net, free.costs)]
    low, high = min(p for p, _ in others), max(p for p, _ in others)
    for share in (0.0, 0.4, 0.7):
        limit = low + int(share * (high - low))
        planned = plan(net, policy="checkmate", memory=fixed + limit, **own)
        best = min(seconds for peak, seconds in others if peak <= limit)
        assert planned.timeline.seconds <= best * (1 + 1e-3), share


@pytest.mark.parametrize("depth", [8, 20])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_rotor_is_no_slower_than_chen_on_a_chain(depth, share):
    net, own = chain(depth), {"algorithms": "none", "overwrite": "never"}
    free = plan(net, preset="liveness", **own)
    low = plan(net, policy="chen", **own).total_bytes
    budget = low + int(share * (free.total_bytes - low))
    chens = plan(net, policy="chen", memory=budget, **own)
    planned = plan(net, policy="rotor", memory=budget, **own)
    assert planned.timeline.seconds <= chens.timeline.seconds


def test_checkmate_refuses_a_large_net_and_says_how_large():
    with pytest.raises(ValueError, match="at most 50 runs; these are 78"):
        plan(find("vgg16", batch=1), policy="checkmate")


def test_what_the_host_keeps_is_what_vdnn_copied():
    planned = plan(alexnet(batch=8), policy="vdnn-all")
    sizes = [s.tensor.nbytes for s in planned.plan.steps if isinstance(s, Offload)]
    assert max(host_memory(planned.plan)) == np.sum(sizes) == planned.offload_bytes
    assert Options().host_capacity is None


def test_a_chain_of_evicted_tensors_may_be_longer_than_pythons_stack():
    tensors = [Tensor(f"x{i}", (64,)) for i in range(3001)]
    runs = tuple(
        Run(y.name, "forward", (Launch("", (y,), (x,)),)) for x, y in pairwise(tensors)
    )
    loss = Run("loss", "backward", (Launch("", (), (tensors[-1],)),))
    seconds = {(run.layer, run.phase): 1.0 for run in (*runs, loss)}
    costs = Costs("by hand", seconds, {}, to_host=1.0, to_device=1.0)
    runtime = _Runtime(Plan((*runs, loss)), costs, 10**9)
    runtime.evicted = dict.fromkeys(runtime.maker)
    runtime.used[tensors[0]] = 0.0
    runtime.compute(loss)
    assert runtime.steps == [*runs, loss]
