"""The certified bound: no plan is below it, and any multipliers prove one."""

import json
from dataclasses import replace
from itertools import product
from random import Random

import pytest

import snref
from snref.net import Net, route
from snref.nets import find, random_net
from snref.planning.bound import Relaxation, bound, certified, relaxation
from snref.planning.distance import distance
from snref.planning.quickest import least_time
from snref.planning.quickest.forecast import forecast
from snref.planning.quickest.frontier import Frontier
from snref.planning.quickest.gaps import Problem
from snref.planning.quickest.search import Limits
from snref.planning.quickest.writing import written
from snref.plans import (
    Alloc,
    Free,
    Launch,
    Offload,
    OutOfMemory,
    Plan,
    Run,
    Tensor,
    extent,
    lower_bound,
)
from snref.scheduler import PRESETS, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.placement import place
from snref.timing import roofline
from snref.timing.costs import Costs
from snref.timing.timeline import simulate


@pytest.fixture(autouse=True)
def scipy() -> None:
    pytest.importorskip("scipy")


def problem_of(net: Net) -> Problem:
    whole = route(net)
    costs = roofline.costs(whole, roofline.machine("virtual:k40c"))
    return Problem(overwrite(whole, "gradients"), costs, "exact")


def small(layers: int) -> Net:
    """A chain of up to eight layers whose link is not too slow to be worth it."""
    from snref.layers import Conv, Linear, MaxPool, ReLU, Softmax

    net = Net("small")
    x = net.input((16, 8, 24, 24))
    x = net.add("conv1", Conv(16, 3, padding=1), x)
    x = net.add("relu1", ReLU(), x)
    x = net.add("conv2", Conv(16, 3, padding=1), x)
    if layers > 6:
        x = net.add("relu2", ReLU(), x)
        x = net.add("pool2", MaxPool(2), x)
    x = net.add("fc", Linear(10), x)
    net.add("softmax", Softmax(), x)
    return net


@pytest.mark.parametrize("layers", [5, 8])
def test_exhaustive_search_finds_no_plan_below_the_bound(layers):
    problem = problem_of(small(layers))
    least = lower_bound(overwrite(route(small(layers)), "gradients"))
    offers = [
        (None, "copy", "recompute") if gap.maker is not None else (None, "copy")
        for gap in problem.gaps
    ]
    for share in 1.0, 1.2, 1.5:
        capacity = int(share * least)
        best = float("inf")
        for decisions in product(*offers):
            chosen = {
                gap: decision
                for gap, decision in zip(problem.gaps, decisions, strict=True)
                if decision is not None
            }
            found = forecast(problem, chosen, capacity)
            if found.over <= 0:
                plan = place(written(problem, found, capacity), capacity)
                if extent(plan) <= capacity:
                    best = min(best, simulate(plan, problem.costs).seconds)
        proven = bound(problem, capacity, best)
        assert best / 2 < proven <= best


def test_a_copy_that_begins_before_the_first_gap_is_no_plan_below_the_bound():
    """x is copied out while its first reader runs, and gone when c begins."""
    x, z = Tensor("x", (256,)), Tensor("z", (256,))
    y, dz, dy, dx = (Tensor(name, (64,)) for name in ("y", "dz", "dy", "dx"))
    whole = Plan(
        (
            Run("a", "forward", (Launch("", (x,)),)),
            Run("b", "forward", (Launch("", (y,), (x,)),)),
            Run("c", "forward", (Launch("", (z,), (y,)),)),
            Run("c", "backward", (Launch("", (dz,), (z,)),)),
            Run("b", "backward", (Launch("", (dy,), (dz,)),)),
            Run("a", "backward", (Launch("", (dx,), (x, dy)),)),
        )
    )
    seconds = {(run.layer, run.phase): 10.0 for run in whole.runs()}
    seconds["a", "forward"] = 100.0
    costs = Costs("by hand", seconds, {}, to_host=102.4, to_device=102.4)
    _, plan = least_time(whole, costs, 1536)
    assert simulate(plan, costs).seconds == 150.0
    assert 149.0 < bound(Problem(whole, costs, "exact"), 1536, 150.0) <= 150.0


@pytest.mark.parametrize(
    "name",
    [
        "random:1",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("alexnet", "random:5")),
    ],
)
def test_no_plan_of_ours_is_below_the_bound(name):
    net = find(name, batch=8)
    problem, whole = problem_of(net), route(net)
    for options in PRESETS.values():
        plan = schedule(whole, options, problem.costs)
        seconds = simulate(plan, problem.costs).seconds
        assert bound(problem, extent(plan), seconds) <= seconds
    least = lower_bound(overwrite(whole, "gradients"))
    for share in 1.0, 1.3, 2.0:
        fixed = snref.plan(net).total_bytes - extent(snref.plan(net).plan)
        planned = snref.plan(net, memory=fixed + int(share * least))
        assert 0 < planned.bound_seconds <= planned.timeline.seconds


@pytest.mark.slow
def test_no_plan_of_ours_is_below_the_bound_on_many_nets():
    for seed in range(20):
        net = random_net(seed)
        problem, whole = problem_of(net), route(net)
        for preset in "liveness", "superneurons", "cache":
            plan = schedule(whole, PRESETS[preset], problem.costs)
            seconds = simulate(plan, problem.costs).seconds
            assert bound(problem, extent(plan), seconds) <= seconds


@pytest.mark.parametrize("seconds", [0.0, 1.0, 1e100])
@pytest.mark.parametrize("speed", [1e-3, 1e100])
def test_extreme_costs_have_a_bound_and_a_sentence(seconds, speed):
    net = find("lenet", batch=2)
    costs = problem_of(net).costs
    costs = Costs(
        "by hand",
        dict.fromkeys(costs.runs, seconds),
        dict.fromkeys(costs.algorithms, 0.0),
        speed,
        speed,
    )
    planned = snref.plan(net, costs=costs)
    runs = seconds * sum(1 for _ in route(net).runs())
    assert runs * (1 - 1e-9) <= planned.bound_seconds <= planned.timeline.seconds
    assert "takes less than" in planned.compared()
    kept = snref.plan(net, preset="liveness", costs=costs)
    assert (kept.compared() == "  This plan takes no time, so none is quicker.") == (
        seconds == 0
    )


def test_a_policy_that_does_more_than_the_options_allow_has_no_bound():
    def fastest(whole, options, costs):
        algorithms = replace(PRESETS["superneurons"], algorithms="fastest")
        return schedule(whole, algorithms, costs)

    net = find("alexnet", batch=200)
    with pytest.raises(ValueError, match="forward conv3 does what"):
        snref.plan(net, policy=fastest).compared()
    with pytest.raises(ValueError, match="overwrite 'never' do not allow"):
        planned = snref.plan(
            net, policy=fastest, algorithms="fastest", overwrite="never"
        )
        planned.compared()
    planned = snref.plan(net, policy=fastest, algorithms="fastest")
    assert 0 < planned.bound_seconds <= planned.timeline.seconds


@pytest.mark.parametrize(
    "name",
    [
        "random:2",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("alexnet", "random:5")),
    ],
)
@pytest.mark.parametrize("share", [1.0, 1.3, 2.0])
def test_the_causes_of_the_distance_add_up(name, share):
    net = find(name, batch=8)
    least = lower_bound(overwrite(route(net), "gradients"))
    fixed = snref.plan(net).total_bytes - extent(snref.plan(net).plan)
    for preset in None, "superneurons", "cache":
        memory = fixed + int(share * least)
        try:
            planned = snref.plan(net, memory=memory, preset=preset)
        except OutOfMemory:
            continue
        found, seconds = planned.distance, planned.timeline.seconds
        assert found.seconds == pytest.approx(seconds - planned.bound_seconds)
        causes = found.recomputation, found.waiting, found.placement, found.algorithms
        assert min(causes) >= -1e-12 and found.unavoidable >= -1e-12
        assert (found.recomputation > 0) == (planned.extra_forwards > 0)
        waiting = found.waiting + found.placement
        assert waiting == pytest.approx(planned.timeline.stall_seconds)


def test_waiting_that_only_addresses_cause_is_told_from_other_waiting():
    """b takes the place of a, which is copied out, or another one that is free."""
    a, b = Tensor("a", (64,)), Tensor("b", (64,))
    first = Run("first", "forward", (Launch("", (a,)),))
    second = Run("second", "forward", (Launch("", (b,)),))
    costs = Costs(
        "by hand", {("first", "forward"): 1.0, ("second", "forward"): 1.0}, {}, 64, 64
    )

    def plan(offset):
        steps = Alloc(a, 0), first, Offload(a), Free(a), Alloc(b, offset), second
        return Plan((*steps, Free(b)))

    problem = Problem(Plan((first, second)), costs, "exact")
    for offset, capacity, waiting, placement in (
        (0, 512, 3.0, 1.0),  # 1 s, 4 s of copying, 1 s: without addresses, 5 s in all
        (0, 256, 4.0, 0.0),
        (256, 512, 3.0, 0.0),
    ):
        found = distance(plan(offset), problem, capacity, 2.0)
        assert (found.waiting, found.placement) == (waiting, placement)


def test_the_command_prints_the_causes_in_text_and_json(capsys):
    from snref.__main__ import main

    line = ["plan", "alexnet", "--batch", "8", "--memory", "800MB", "--bound"]
    assert main(line) == 0
    said = capsys.readouterr().out.splitlines()[-6:]
    assert said[0].startswith("  seconds above that")
    total, *causes = [float(text.split()[-1]) for text in said]
    assert total == pytest.approx(sum(causes), rel=0.01)
    assert main([*line, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["modelled"]
    above = told["above_bound"]
    seconds = above.pop("seconds")
    assert seconds == pytest.approx(told["seconds"] - told["bound_seconds"])
    assert seconds == pytest.approx(sum(above.values()) - 2 * above["unavoidable"])


def test_any_multipliers_prove_a_bound_and_wrong_signs_prove_nothing_more():
    """x0 >= 2, in two rows: x0 >= x1 and x1 = 2."""
    linear = Relaxation()
    x0, x1 = linear.variable(10.0), linear.variable(10.0)
    linear.at_most([(x1, 1.0), (x0, -1.0)])
    linear.equals([(x1, 1.0)], 2.0)
    assert certified(linear, [-1.0, 1.0]) == pytest.approx(2.0)
    assert certified(linear, [-1.0, 1.0]) <= 2.0
    draw = Random(0)
    for _ in range(200):
        drawn = [draw.uniform(-3, 3), draw.uniform(-3, 3)]
        assert certified(linear, drawn) <= 2.0
    assert certified(linear, [1.0, 1.0]) <= 2.0


@pytest.mark.parametrize("moments", [1, 5, 20])
def test_a_deep_net_has_a_bound_from_some_of_its_runs(monkeypatch, moments):
    """It is not above the bound from all runs, and not far below it."""
    net = find("resnet:1,1,1,1", batch=64)
    problem = problem_of(net)
    capacity = int(1.3 * lower_bound(Plan(problem.runs)))
    seconds = Frontier(problem, Limits(), 0.1).best(capacity).seconds
    alone = sum(menu[-1][1] for menu in problem.menus)
    of_all = bound(problem, capacity, seconds)
    monkeypatch.setattr("snref.planning.bound.MOST_RUNS", 10)
    monkeypatch.setattr("snref.planning.bound.MOMENTS", moments)
    monkeypatch.setattr("snref.planning.bound.LARGE", 0)
    of_some = bound(problem, capacity, seconds)
    assert alone * (1 - 1e-9) <= of_some <= of_all * (1 + 1e-6)
    if moments == 20:
        assert of_some > alone + 0.5 * (of_all - alone) > alone


def test_the_conditions_of_a_bound_grow_with_the_net_and_not_with_its_square():
    terms = []
    for blocks in 2, 4:
        net = find(f"resnet:1,1,{blocks},1", batch=1)
        problem = problem_of(net)
        linear = relaxation(problem, 2 * lower_bound(Plan(problem.runs)), 1.0)
        terms.append(sum(len(row) for row, _ in linear.rows) / len(problem.runs))
    assert terms[1] < 1.1 * terms[0]


def test_too_little_memory_is_no_matter_of_bounds():
    with pytest.raises(OutOfMemory):
        snref.plan(find("lenet", batch=2), memory=1000)


def test_without_scipy_the_bound_is_refused_before_anything_is_planned(
    monkeypatch, capsys
):
    monkeypatch.setattr("snref.planning.bound.find_spec", lambda name: None)
    from snref.__main__ import main

    assert main(["plan", "lenet", "--memory", "9MB", "--bound"]) == 2
    assert "pip install 'snref[optimal]'" in capsys.readouterr().err
