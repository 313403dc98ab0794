"""The contract: plans with the same summation orders train to the same bits.

Parameters, momenta, running statistics and losses; under every preset and every budget
down to the lower bound. Freed memory is poisoned, and the bytes that the device counts
at every step are those that the plan predicts, or ``Iteration`` raises.
"""

from dataclasses import replace

import numpy as np
import pytest
from small_nets import FAMILIES, images_for

from snref.nets import random_net
from snref.planning.planned import plan
from snref.plans import OutOfMemory, Plan, Prefetch, extent, lower_bound, memory
from snref.scheduler import PRESETS
from snref.scheduler.in_place import overwrite
from snref.timing.costs import Costs
from snref.training import NotFinite, Session, Settings

ITERATIONS = 3
SETTINGS = Settings(0.01)
SHARES = (3.0, 0.5, 0.0)  # of the way from the lower bound to a preset's own extent


def ended(planned, device="cpu"):
    """The losses, and all that training changes, after some iterations."""
    session = Session(planned, images_for(planned.net), SETTINGS, device, seed=3)
    indices = np.arange(planned.net.batch)
    for number in range(ITERATIONS):
        session.position = replace(session.position, iteration=number)
        session.iterate(indices)
    assert session.peak == max(memory(planned.plan, workspace=True))
    assert session.device.in_use == 0
    assert session.device.resident_bytes == sum(planned.resident.values())
    return session.losses, session.state()


def assert_the_same_bits(left, right, what):
    assert left[0] == right[0], f"{what}: losses"
    assert left[1].keys() == right[1].keys()
    for key, array in left[1].items():
        assert array.tobytes() == right[1][key].tobytes(), f"{what}: {key}"


def budgets(net, **options):
    """A preset's plans without a budget, and under three down to the lower bound.

    A preset without a cache may need more than the bound: then it is its own least.
    """
    free = plan(net, **{"preset": "superneurons"} | options)
    fixed = sum(free.resident.values())
    bound = lower_bound(free.plan)
    yield free
    for share in SHARES:
        budget = fixed + bound + int(share * (extent(free.plan) - bound))
        try:
            yield plan(net, memory=budget, **options)
        except OutOfMemory as error:
            assert options.get("preset") not in (None, "cache"), "these always fit"
            assert error.least > budget
            yield plan(net, memory=error.least, **options)


def every_plan(net, **options):
    """Each different plan of every preset and budget, and of those of least time."""
    seen = set()
    presets = [{"preset": preset} for preset in PRESETS]
    for chosen in (*presets, {}):
        for planned in budgets(net, **chosen, **options):
            text = f"{planned.plan}{planned.algorithms}"
            if text not in seen:
                seen.add(text)
                yield planned


def check_exact(net, device="cpu"):
    baseline = ended(plan(net, preset="baseline"), device)
    number = 0
    for planned in every_plan(net):
        what = f"{net.name}, {planned.preset} of {planned.memory} bytes"
        assert_the_same_bits(ended(planned, device), baseline, what)
        number += 1
    return number


@pytest.mark.parametrize("family", FAMILIES)
def test_every_plan_trains_to_the_bits_of_the_baseline(family, device):
    assert check_exact(FAMILIES[family](2), device) >= 5  # different plans


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_so_does_every_plan_under_lean_declarations(family):
    assert check_exact(FAMILIES[family](2).with_options("lean")) >= 4


def check_overwritten(net, device="cpu"):
    """Gradients over activations end in the bits of the baseline that has none."""
    baseline = ended(plan(net, preset="baseline"), device)
    net = net.with_options("reuse", "share")
    given = {"overwrite": "activations"}
    free = plan(net, preset="memory-centric", **given)
    fixed = sum(free.resident.values())
    least = fixed + lower_bound(overwrite(free.route, "activations"))
    for planned in (
        plan(net, preset="baseline", **given),
        plan(net, preset="joint", effort=0.1),
        free,
        plan(net, preset="cache", memory=least, **given),
        plan(net, memory=least, effort=0.1, **given),
    ):
        assert planned.total_bytes <= least or planned.memory is None
        what = f"{net.name}, {planned.preset} over activations"
        assert_the_same_bits(ended(planned, device), baseline, what)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_over_activations_change_no_bit(family, device):
    check_overwritten(FAMILIES[family](2), device)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_gradients_over_activations_change_no_bit_of_a_random_net(seed):
    check_overwritten(random_net(seed))


RANDOM = [
    pytest.param(seed, marks=[pytest.mark.full, *([pytest.mark.slow] * (seed < 10))])
    for seed in range(100)
]


@pytest.mark.parametrize("seed", RANDOM)
def test_every_plan_of_a_random_net_does(seed):
    assert check_exact(random_net(seed)) >= 4


# The fastest algorithms


def baseline_in_orders_of(planned):
    """The baseline with the algorithms that a plan chose."""
    chosen = {}
    for run in planned.plan.runs():
        for choice in run.choices:
            key = run.layer, choice.part
            assert chosen.setdefault(key, choice.chosen) is choice.chosen, (
                "a convolution that runs twice, in two orders, has no baseline"
            )
    seconds = {
        (run.layer, choice.part, algorithm.name): float(
            algorithm.name != chosen[run.layer, choice.part].name
        )
        for run in planned.route.runs()
        for choice in run.choices
        for algorithm in choice.algorithms
    }
    costs = Costs("by hand", dict(planned.costs.runs), seconds, 1e9, 1e9)
    made = plan(
        planned.net,
        preset="baseline",
        algorithms="fastest",
        memory="1GiB",
        costs=costs,
    )
    assert made.algorithms == planned.algorithms
    return made


def preferring_workspaces(net):
    """Costs under which every convolution wants the most of them: Winograd's."""
    whole = plan(net, preset="baseline")
    rank = ("winograd", "im2col", "tiled", "direct")
    seconds = {
        (run.layer, choice.part, algorithm.name): rank.index(algorithm.name) * 1e-3
        for run in whole.route.runs()
        for choice in run.choices
        for algorithm in choice.algorithms
    }
    return Costs("by hand", dict(whole.costs.runs), seconds, 1e9, 1e9)


def check_fastest(net, device="cpu"):
    orders = set()
    costs = preferring_workspaces(net)
    for planned in every_plan(net, algorithms="fastest", costs=costs):
        what = f"{net.name}, fastest, {planned.preset} of {planned.memory} bytes"
        reference = baseline_in_orders_of(planned)
        assert_the_same_bits(ended(planned, device), ended(reference, device), what)
        orders.update(
            order for parts in planned.orders.values() for order in parts.values()
        )
    return orders


@pytest.mark.parametrize("family", ["digits", "resnet"])
def test_under_fastest_plans_of_the_same_orders_train_to_the_same_bits(family, device):
    assert check_fastest(FAMILIES[family](2), device) == {"taps", "winograd"}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["lenet", "inception", "densenet"])
def test_so_do_those_of_other_families(family):
    assert "taps" in check_fastest(FAMILIES[family](2))


# The contract can be broken


def test_a_plan_without_one_of_its_copies_is_found_out():
    planned = plan(FAMILIES["resnet"](2), preset="offload")
    steps = planned.plan.steps
    copy = next(i for i, step in enumerate(steps) if isinstance(step, Prefetch))
    broken = Plan((*steps[:copy], *steps[copy + 1 :]))
    baseline = ended(plan(planned.net, preset="baseline"))
    with pytest.raises((NotFinite, AssertionError)):
        assert_the_same_bits(ended(replace(planned, plan=broken)), baseline, "broken")


def test_another_order_ends_in_other_bits():
    net = FAMILIES["digits"](2)
    given = {"memory": "1GiB", "costs": preferring_workspaces(net)}
    exact = plan(net, preset="baseline", **given)
    fastest = plan(net, preset="baseline", algorithms="fastest", **given)
    assert exact.orders != fastest.orders
    with pytest.raises(AssertionError, match="digits"):
        assert_the_same_bits(ended(fastest), ended(exact), "digits")
