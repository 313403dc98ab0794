"""Planning a net: the papers' numbers, the report, and memory as a limit."""

import json
from dataclasses import replace

import pytest

import snref
from snref.nets import alexnet, find, lenet
from snref.plans import Alloc, Free, OutOfMemory, extent, memory
from snref.scheduler import PRESETS

MIB = 2**20


@pytest.fixture(scope="module")
def net():
    return alexnet(batch=200)


@pytest.mark.parametrize(
    ("preset", "peak", "step", "layer", "again"),
    [
        ("baseline", 2189.4371, 1, "conv1", 0),
        ("liveness", 1489.3555, 32, "pool5", 0),
        ("offload", 1132.0557, 39, "pool2", 0),
        ("speed-centric", 993.0176, 43, "pool1", 14),
        ("memory-centric", 886.2305, 44, "lrn1", 23),
        ("superneurons", 886.2305, 44, "lrn1", 17),
    ],
)
def test_alexnets_report_has_the_papers_numbers(net, preset, peak, step, layer, again):
    report = snref.plan(net, preset=preset).to_json()
    assert report["peak_bytes"] / MIB == pytest.approx(peak, abs=1e-4)
    assert (report["peak_step"], report["peak_layer"]) == (step, layer)
    assert report["extra_forwards"] == again
    assert report["baseline_bytes"] / MIB == pytest.approx(2189.4371, abs=1e-4)
    assert report["layer_peak_bytes"] / MIB == pytest.approx(664.6729, abs=1e-4)
    original = report["original_layer_peak_bytes"]
    assert original / MIB == pytest.approx(886.2305, abs=1e-4)
    counts = report["layers"], report["tensors"], report["route_steps"]
    assert counts == (23, 36, 46)
    assert report["resident"]["parameters"] == 4 * 62_378_344


def test_nothing_in_place_needs_more(net):
    report = snref.plan(net, preset="baseline", overwrite="never").to_json()
    assert report["baseline_bytes"] / MIB == pytest.approx(3056.362, abs=1e-3)


KEYS = """
schema snref_version net batch input preset options unit counts layers
tensors route_steps baseline_bytes peak_bytes peak_step peak_layer peak_phase
live_tensors_by_step memory_by_step peak_with_workspace_bytes extent_bytes
lower_bound_bytes total_lower_bound_bytes layer_peak_bytes original_layer_peak_bytes
extra_forwards offload_bytes prefetch_bytes host_bytes resident workspace_peak_bytes
total_bytes algorithms modelled planning_seconds
"""


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ["lenet", "random:7", "resnet:1,1,1,1"])
def test_the_report_is_complete_and_agrees_with_itself(name, preset):
    planned = snref.plan(find(name, batch=2), preset=preset)
    report = json.loads(json.dumps(planned.to_json()))
    assert set(KEYS.split()) <= set(report)
    assert report["peak_bytes"] == max(report["memory_by_step"])
    assert report["memory_by_step"].index(report["peak_bytes"]) == (
        report["peak_step"] - 1
    )
    assert len(report["memory_by_step"]) == report["route_steps"]
    assert len(report["live_tensors_by_step"]) == report["route_steps"]
    assert report["peak_bytes"] <= report["peak_with_workspace_bytes"]
    assert report["peak_with_workspace_bytes"] <= report["extent_bytes"]
    assert report["lower_bound_bytes"] <= report["extent_bytes"]
    fixed = sum(report["resident"].values())
    assert report["total_bytes"] == fixed + report["extent_bytes"]
    assert report["total_lower_bound_bytes"] == fixed + report["lower_bound_bytes"]
    assert report["prefetch_bytes"] >= report["offload_bytes"] >= report["host_bytes"]
    modelled = report["modelled"]
    assert modelled["seconds"] == pytest.approx(
        modelled["compute_seconds"] + modelled["stall_seconds"]
    )
    assert modelled["machine"]["bandwidth"]["unit"] == "bytes/s"
    assert planned.summary().count("\n") > 10


def test_a_re_run_counts_to_the_step_that_follows_it():
    planned = snref.plan(lenet(batch=2), preset="memory-centric")
    usage = memory(planned.plan)
    assert max(usage) == max(step.nbytes for step in planned.steps)
    again = set()
    for step in planned.plan.runs():
        if step.phase == "forward":
            assert (step.layer in again) <= (planned.extra_forwards > 0)
            again.add(step.layer)


# Memory as a limit


@pytest.mark.parametrize("preset", [*PRESETS, None])
@pytest.mark.parametrize("name", ["lenet", "random:3"])
def test_the_least_memory_that_an_error_names_works_and_a_byte_less_does_not(
    name, preset
):
    net = find(name, batch=4)
    with pytest.raises(OutOfMemory) as caught:
        snref.plan(net, preset=preset, memory=1000)
    least = caught.value.least
    assert caught.value.available == 1000
    assert snref.plan(net, preset=preset, memory=least).total_bytes <= least
    with pytest.raises(OutOfMemory) as again:
        snref.plan(net, preset=preset, memory=least - 1)
    assert again.value.least == least


@pytest.mark.parametrize(
    "given", [{}, {"preset": "superneurons"}, {"preset": "reuse"}, {"policy": "chen"}]
)
def test_an_error_says_what_joint_needs_where_there_is_so_much(given):
    net = find("random:3", batch=4)
    enough = snref.plan(net, preset="joint").total_bytes
    kept = {**given, "parts": 1}  # whole layers
    with pytest.raises(OutOfMemory, match="preset 'joint' needs") as caught:
        snref.plan(net, memory=enough, **kept)
    assert caught.value.joint == enough < caught.value.least
    with pytest.raises(OutOfMemory) as less:
        snref.plan(net, memory=enough - 1, **kept)
    assert less.value.joint is None and "joint" not in str(less.value)
    with pytest.raises(OutOfMemory) as limited:
        snref.plan(net, memory=enough, host_memory=0, **kept)
    assert limited.value.joint is None


def test_memory_may_be_written_with_a_unit(net):
    limit = 1.75 * 2**30
    assert snref.plan(net, memory="1.75GiB").total_bytes <= limit
    with pytest.raises(ValueError, match=r"'1\.75 GGB' is no size"):
        snref.plan(net, memory="1.75 GGB")


def check_budgets(name, count):
    """More memory never gives a slower plan, less never one with a higher peak."""
    net = find(name, batch=8)
    bound = snref.plan(net).to_json()["total_lower_bound_bytes"]
    top = snref.plan(net, preset="liveness").total_bytes
    sizes = [bound + (top - bound) * i // (count - 2) for i in range(count)]
    plans = [snref.plan(net, memory=size, algorithms="none") for size in sizes]
    for size, planned in zip(sizes, plans, strict=True):
        assert planned.total_bytes <= size
    peaks = [planned.peak_bytes for planned in plans]
    assert peaks == sorted(peaks)
    seconds = [planned.timeline.seconds for planned in plans]
    assert seconds == sorted(seconds, reverse=True)
    return len(set(peaks))


def test_more_memory_never_gives_a_slower_plan_nor_less_a_higher_peak():
    assert check_budgets("alexnet", 6) > 2
    assert check_budgets("random:1", 5) > 2


@pytest.mark.slow
def test_more_memory_never_gives_a_slower_plan_on_many_nets():
    for seed in range(4):
        check_budgets(f"random:{seed}", 12)


def test_with_all_the_memory_there_is_nothing_is_recomputed_or_copied(net):
    planned = snref.plan(net, memory="12GiB")
    assert planned.extra_forwards == planned.offload_bytes == 0
    assert planned.timeline.stall_seconds == 0


def test_options_that_are_given_are_kept_when_the_rest_is_chosen(net):
    planned = snref.plan(net, memory="1.9GiB", transfers="none")
    assert planned.offload_bytes == 0 and planned.extra_forwards > 0
    with pytest.raises(OutOfMemory):
        snref.plan(net, memory="1.9GiB", transfers="none", recompute=None)


def test_host_memory_is_a_limit(net):
    needed = snref.plan(net, preset="offload").host_bytes
    snref.plan(net, preset="offload", host_memory=needed)
    with pytest.raises(OutOfMemory) as caught:
        snref.plan(net, preset="offload", host_memory=needed - 1)
    assert (caught.value.step, caught.value.least) == ("the host", needed)
    without = snref.plan(net, memory="1.8GiB", host_memory=0)
    assert without.host_bytes == 0


def test_less_host_memory_is_made_up_for_by_recomputation_if_that_fits():
    net = find("unet", batch=1)
    planned = snref.plan(net, memory="1010MB", host_memory="420MB")
    assert planned.total_bytes <= 1_010_000_000
    assert planned.host_bytes <= 420_000_000


@pytest.mark.parametrize(("name", "host"), [("random:3", 10_000), ("random:3", 0)])
def test_an_error_names_the_least_memory_with_this_host_memory_and_with_enough(
    name, host
):
    net = find(name, batch=1)
    with pytest.raises(OutOfMemory, match=f"with {host} bytes of the host") as caught:
        snref.plan(net, memory=1000, host_memory=host)
    error = caught.value
    planned = snref.plan(net, memory=error.least, host_memory=host)
    assert planned.total_bytes <= error.least and planned.host_bytes <= host
    without = error.least_without_host_limit
    assert without is not None and without < error.least
    assert snref.plan(net, memory=without).total_bytes == without


def test_an_error_of_the_host_names_the_least_host_memory_of_all_that_is_allowed(net):
    with pytest.raises(OutOfMemory, match="the host needs") as caught:
        snref.plan(net, memory="4GiB", host_memory=1000, transfers="demand")
    least = caught.value.least
    planned = snref.plan(net, memory="4GiB", host_memory=least, transfers="demand")
    assert planned.host_bytes == least


def test_no_memory_at_all_is_a_limit_too():
    net = find("lenet", batch=2)
    for preset in PRESETS:
        with pytest.raises(OutOfMemory):
            snref.plan(net, preset=preset, memory=0)
    for transfers in "offload", "demand":
        with pytest.raises(OutOfMemory, match="the host"):
            snref.plan(net, transfers=transfers, host_memory=0)


# Other planners


def test_a_policy_may_be_any_function_from_route_to_plan(net):
    def keep_all(route, options, costs):
        return route

    planned = snref.plan(net, policy=keep_all)
    assert planned.preset == "keep_all"
    assert "keep_all: decided by the policy, declarations" in planned.summary()
    said = snref.plan(net, policy=keep_all, memory="8GiB", host_memory=5).to_json()
    options = said["options"]
    assert options["recompute"] == options["overwrite"] == "decided by the policy"
    assert options["capacity"] == options["slab"] > 0 and options["host_capacity"] == 5
    assert planned.extra_forwards == 0
    assert extent(planned.plan) >= planned.peak_bytes
    with pytest.raises(OutOfMemory, match="the plan of keep_all needs"):
        snref.plan(net, policy=keep_all, memory="1GiB")


def test_a_policy_that_computes_something_else_is_refused(net):
    def forget(route, options, costs):
        return replace(route, steps=route.steps[:-1])

    with pytest.raises(snref.InvalidPlan):
        snref.plan(net, policy=forget)


def test_a_policy_that_is_not_there_is_named(net):
    with pytest.raises(ValueError, match="'nowhere:plan': there is no module"):
        snref.plan(net, policy="nowhere:plan")


def test_an_unknown_preset_is_refused_with_the_names_there_are(net):
    with pytest.raises(ValueError, match=r"no preset 'fast': .*baseline, liveness"):
        snref.plan(net, preset="fast")


def test_what_is_no_net_is_refused_with_the_way_to_one():
    with pytest.raises(ValueError, match=r"'alexnet' is no Net; snref\.nets\.find"):
        snref.plan("alexnet")


def test_live_tensors_are_those_with_memory(net):
    planned = snref.plan(net, preset="baseline")
    allocs = sum(isinstance(s, Alloc) for s in planned.plan.steps)
    frees = sum(isinstance(s, Free) for s in planned.plan.steps)
    assert allocs == frees
    assert {step.tensors for step in planned.steps} == {36}


@pytest.mark.parametrize(
    "given",
    [
        {"transfers": "none"},
        {"transfers": "none", "recompute": None},
        {"transfers": "offload"},
        {"host_memory": 0},
    ],
)
def test_joint_without_a_limit_is_the_least_plan_under_any_options(given):
    least = snref.plan(find("digits", 32), preset="joint", **given).total_bytes
    with pytest.raises(OutOfMemory) as caught:
        snref.plan(find("digits", 32), preset="joint", memory=least - 1, **given)
    assert caught.value.least == least


def test_a_plan_that_is_found_below_where_others_were_not_fits_above_it_too():
    """The search names 179,100 bytes, and once refused this much and more."""
    given = {"preset": "joint", "host_memory": 0}
    for size in 179_100, 179_612, 185_000:
        assert snref.plan(find("random:1073", 4), memory=size, **given)
    with pytest.raises(OutOfMemory) as caught:
        snref.plan(find("random:1073", 4), memory=179_099, **given)
    assert caught.value.least == 179_100


def test_an_error_of_a_preset_says_that_its_least_is_without_the_host_s_limit():
    net = find("random:20002", batch=3)
    given = {"preset": "cache", "host_memory": 1000}
    with pytest.raises(OutOfMemory, match="with enough memory of the host is") as error:
        snref.plan(net, memory=1000, **given)
    with pytest.raises(OutOfMemory, match="the host needs"):
        snref.plan(net, memory=error.value.least, **given)
    snref.plan(net, preset="cache", memory=error.value.least)
