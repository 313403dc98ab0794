"""Properties of every stage, over random nets."""

from dataclasses import replace

import pytest

from snref.net import route
from snref.nets import random_net
from snref.plans import (
    Alloc,
    Free,
    Launch,
    Offload,
    OutOfMemory,
    Plan,
    Prefetch,
    Run,
    Tensor,
    extent,
    host_memory,
    layer_peak,
    lower_bound,
    memory,
)
from snref.scheduler import PRESETS, Options, check_host, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead, hold_all, last_uses
from snref.scheduler.offloading import offload
from snref.scheduler.options import Transfers
from snref.scheduler.recomputation import recompute

SEEDS = range(20)


def routed(seed: int) -> Plan:
    return overwrite(route(random_net(seed, batch=2)), "gradients")


def peak(plan: Plan) -> int:
    return max(memory(plan))


def moved(plan: Plan) -> int:
    copies = (s for s in plan.steps if isinstance(s, Offload | Prefetch))
    return sum(copy.tensor.nbytes for copy in copies)


def counts(plan: Plan) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for run in plan.runs():
        key = run.layer, run.phase
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_liveness_lies_between_the_layer_peak_and_the_baseline(seed: int):
    plan = routed(seed)
    assert layer_peak(plan) <= peak(free_dead(plan)) <= peak(hold_all(plan))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tensor_is_freed_exactly_after_its_last_use(seed: int):
    plan = routed(seed)
    dead = last_uses(plan)
    last: dict[object, int] = {}
    for place, step in enumerate(plan.steps):
        assert isinstance(step, Run)
        for tensor in step.working_set:
            last[tensor] = place
    # Without a second definition a tensor dies once, at the last run that touches it.
    assert {t: i for i, ts in enumerate(dead) for t in ts} == last


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", ["speed-centric", "memory-centric", "cost-aware"])
def test_recomputation_repeats_only_cheap_forwards(seed: int, strategy: str):
    plan = routed(seed)
    again = recompute(plan, strategy)
    checkpoints = {run.layer for run in plan.runs() if run.checkpoint}
    for (layer, phase), count in counts(again).items():
        if phase != "forward" or layer in checkpoints:
            assert count == 1
        elif strategy == "speed-centric":
            assert count <= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_cost_aware_runs_no_less_than_speed_and_no_more_than_memory_centric(seed: int):
    plan = routed(seed)
    speed, cost, slow = (
        sum(counts(recompute(plan, strategy)).values())
        for strategy in ("speed-centric", "cost-aware", "memory-centric")
    )
    assert speed <= cost <= slow


@pytest.mark.parametrize(
    ("smaller_by", "strategy"), [(0, "speed-centric"), (1, "memory-centric")]
)
def test_cost_aware_rebuilds_a_segment_as_a_whole_up_to_the_largest_backward_run(
    smaller_by: int, strategy: str
):
    """The segment costs x, y, z, dz and dy: as much as z, dz and dw of conv2."""
    sizes = {"x": 64, "y": 64, "z": 64, "w": 64, "dz": 64, "dy": 64, "dx": 64}
    sizes["dw"] = 3 * 64 - smaller_by
    kinds = {name: "gradient" for name in sizes if name.startswith("d")}
    x, y, z, w, dz, dy, dx, dw = (
        Tensor(name, (size,), kinds.get(name, "activation"))
        for name, size in sizes.items()
    )
    plan = Plan(
        (
            Run("conv1", "forward", (Launch("", (x,)),), checkpoint=True),
            Run("relu1", "forward", (Launch("", (y,), (x,)),)),
            Run("relu2", "forward", (Launch("", (z,), (y,)),)),
            Run("conv2", "forward", (Launch("", (w,), (z,)),), checkpoint=True),
            Run("loss", "backward", (Launch("", (dw,), (w,)),)),
            Run("conv2", "backward", (Launch("", (dz,), (z, dw)),)),
            Run("relu2", "backward", (Launch("", (dy,), (y, dz)),)),
            Run("relu1", "backward", (Launch("", (dx,), (x, dy)),)),
        )
    )
    assert layer_peak(plan) == (5 * 64 - smaller_by) * 4
    made = str(recompute(plan, "cost-aware"))
    assert made == str(recompute(plan, strategy))
    assert str(recompute(plan, "speed-centric")) != str(
        recompute(plan, "memory-centric")
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("transfers", ["offload", "demand"])
def test_what_leaves_returns_once_and_in_time(seed: int, transfers: str):
    plan = offload(routed(seed), transfers)
    left = [step.tensor for step in plan.steps if isinstance(step, Offload)]
    back = [step.tensor for step in plan.steps if isinstance(step, Prefetch)]
    assert len(left) == len(set(left)) == len(back)
    assert set(left) == set(back)
    assert peak(free_dead(plan)) <= peak(free_dead(routed(seed)))


@pytest.mark.parametrize("between", [False, True])
def test_an_output_that_backward_uses_at_once_is_not_copied(between: bool):
    x, y, dx = (Tensor(name, (64,)) for name in ("x", "y", "dx"))
    loss = Run("loss", "forward", (Launch("", (y,)),))
    plan = Plan(
        (
            Run("conv1", "forward", (Launch("", (x,)),), offload=True),
            *((loss,) if between else ()),
            Run("conv1", "backward", (Launch("", (dx,), (x,)),)),
        )
    )
    assert (moved(offload(plan, "offload")) > 0) == between


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_valid_plan(seed: int, preset: str):
    plan = schedule(route(random_net(seed, batch=2)), PRESETS[preset])  # verifies
    assert extent(plan) >= max(memory(plan, workspace=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cache_has_a_plan_at_every_budget_from_the_bound_up(seed: int):
    whole = route(random_net(seed, batch=2))
    free = schedule(whole, PRESETS["cache"])
    low, high = lower_bound(free), max(memory(free, workspace=True))
    budgets = [low, low + 256, *(low + (high - low) * i // 6 for i in range(1, 7))]
    highest = 0
    for budget in sorted(budgets):
        options = Options(transfers="cache", capacity=budget, slab=budget)
        plan = schedule(whole, options)
        assert extent(plan) <= budget
        assert peak(plan) >= highest, "less memory gave a higher peak"
        highest = peak(plan)
    with pytest.raises(OutOfMemory) as refused:
        schedule(whole, Options(capacity=low - 1, slab=low - 1))
    assert refused.value.least == low


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cache_moves_nothing_when_everything_fits(seed: int):
    whole = route(random_net(seed, batch=2))
    room = extent(schedule(whole, PRESETS["cache"]))
    assert moved(schedule(whole, Options(capacity=room, slab=room))) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_memory_that_an_error_names_works(seed: int):
    whole = route(random_net(seed, batch=2))
    for preset in ("baseline", "liveness", "superneurons"):
        tight = Options(
            PRESETS[preset].liveness,
            PRESETS[preset].recompute,
            PRESETS[preset].transfers,
            capacity=256,
            slab=256,
        )
        with pytest.raises(OutOfMemory) as refused:
            schedule(whole, tight)
        least = refused.value.least
        enough = Options(
            tight.liveness,
            tight.recompute,
            tight.transfers,
            capacity=least,
            slab=least,
        )
        assert extent(schedule(whole, enough)) <= least


@pytest.mark.parametrize("transfers", ["none", "offload", "cache"])
@pytest.mark.parametrize("limit", [0, 256])
def test_an_error_names_the_memory_there_is(limit: int, transfers: Transfers):
    options = Options(transfers=transfers, capacity=limit)
    with pytest.raises(OutOfMemory, match=f", {limit} available"):
        schedule(route(random_net(3, batch=2)), options)


def test_the_host_has_a_limit_too():
    whole = route(random_net(3, batch=2))
    kept = max(host_memory(schedule(whole, PRESETS["offload"])))
    assert kept > 0
    options = Options(recompute=None, transfers="offload", host_capacity=kept)
    schedule(whole, options)
    options = Options(recompute=None, transfers="offload", host_capacity=kept - 1)
    with pytest.raises(OutOfMemory, match="host"):
        schedule(whole, options)


def test_a_plan_without_copies_needs_no_memory_of_the_host():
    check_host(Plan(()), 0)
    plan = schedule(route(random_net(3, batch=2)), Options(host_capacity=0))
    assert max(host_memory(plan)) == 0


def test_planning_twice_gives_the_same_plan():
    for preset in PRESETS.values():
        texts = {str(schedule(route(random_net(5, 2)), preset)) for _ in range(2)}
        assert len(texts) == 1


def test_passes_leave_their_argument_as_it_was():
    plan = routed(7)
    before = str(plan)
    for strategy in ("speed-centric", "memory-centric", "cost-aware"):
        offload(recompute(plan, strategy), "offload")
    free_dead(plan)
    assert str(plan) == before


def test_an_allocated_plan_is_refused_by_liveness():
    plan = free_dead(routed(1))
    assert any(isinstance(step, Alloc | Free) for step in plan.steps)
    with pytest.raises(TypeError, match="allocated"):
        free_dead(plan)


def test_a_pass_that_comes_too_late_says_so_and_drops_nothing():
    plan = routed(3)
    again, copied = recompute(plan, "cost-aware"), offload(plan, "demand")
    allocated = free_dead(plan)
    for late in copied, allocated:
        for work in (
            lambda plan: overwrite(plan, "gradients"),
            lambda plan: recompute(plan, "cost-aware"),
            lambda plan: offload(plan, "offload"),
        ):
            with pytest.raises(TypeError, match="comes before transfers and alloc"):
                work(late)
    with pytest.raises(TypeError, match="recomputes already"):
        recompute(again, "speed-centric")
    with pytest.raises(TypeError, match="allocated already"):
        free_dead(allocated)


def test_what_is_held_throughout_is_neither_recomputed_nor_copied():
    for given in {"recompute": "cost-aware"}, {"transfers": "demand"}:
        with pytest.raises(ValueError, match="both need liveness"):
            replace(PRESETS["baseline"], **given)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("recompute", "speed"),
        ("transfers", "lru"),
        ("algorithms", None),
        ("overwrite", "weights"),
        ("overwrite", "per tensor"),
        ("algorithms", "per tensor"),
        ("capacity", -1),
        ("slab", -1),
        ("host_capacity", -1),
    ],
)
def test_an_option_that_is_not_there_is_refused_by_name(what, value):
    with pytest.raises(ValueError, match=f"^{what} .*{value}.*: must be"):
        Options(**{what: value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ahead": 2}, "ahead is of transfers 'offload', not 'cache'"),
        ({"victim": next}, "victim is of transfers 'cache', not 'offload'"),
    ],
)
def test_an_argument_that_these_transfers_do_not_use_is_refused(given, message):
    transfers = "offload" if "victim" in given else "cache"
    with pytest.raises(ValueError, match=message):
        schedule(route(random_net(5, 2)), Options(transfers=transfers), **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"capacity": "1GB"}, "capacity '1GB': must be None or a whole number"),
        ({"slab": 1.5}, "slab 1.5: must be"),
        ({"host_capacity": -1}, "host_capacity -1: must be .* >= 0"),
        ({"liveness": "no"}, "liveness 'no': must be one of True, False"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(given, message: str):
    with pytest.raises(ValueError, match=message):
        Options(**given)
