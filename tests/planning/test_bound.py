"""The certified bound: no plan is below it, and any multipliers prove one."""

from itertools import product
from random import Random

import pytest

import snref
from snref.net import Net, route
from snref.nets import find, random_net
from snref.planning.bound import Relaxation, certified, multipliers, relaxation
from snref.planning.quickest.forecast import forecast
from snref.planning.quickest.gaps import Problem
from snref.planning.quickest.writing import written
from snref.plans import OutOfMemory, extent, lower_bound
from snref.scheduler import PRESETS, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.placement import place
from snref.timing import roofline
from snref.timing.timeline import simulate


@pytest.fixture(autouse=True)
def scipy() -> None:
    pytest.importorskip("scipy")


def problem_of(net: Net) -> Problem:
    whole = route(net)
    costs = roofline.costs(whole, roofline.machine("virtual:k40c"))
    return Problem(overwrite(whole, "gradients"), costs, "exact")


def bound(problem: Problem, capacity: int, seconds: float) -> float:
    linear = relaxation(problem, capacity, seconds)
    return certified(linear, multipliers(linear))


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


@pytest.mark.parametrize("name", ["alexnet", "random:1", "random:2", "random:5"])
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


def test_too_little_memory_is_no_matter_of_bounds():
    with pytest.raises(OutOfMemory):
        snref.plan(find("lenet", batch=2), memory=1000)
