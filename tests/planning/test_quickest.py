"""The quickest plan: its stages, and what holds of every plan that it finds."""

from random import Random

import pytest

from snref.net import Net, route
from snref.nets import find, random_net
from snref.planning.bound import bound
from snref.planning.quickest import least_time
from snref.planning.quickest.forecast import forecast
from snref.planning.quickest.frontier import Frontier
from snref.planning.quickest.gaps import Decisions, Problem
from snref.planning.quickest.order import order
from snref.planning.quickest.search import Limits, all_leave, repaired, swept
from snref.planning.quickest.writing import written
from snref.plans import (
    OutOfMemory,
    Prefetch,
    aligned,
    extent,
    host_memory,
    lower_bound,
    memory,
)
from snref.plans.verification import verify
from snref.scheduler import PRESETS, Options, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.placement import place
from snref.scheduler.slab import ENDLESS
from snref.timing import roofline
from snref.timing.costs import Costs
from snref.timing.timeline import simulate


def problem_of(net: Net) -> tuple[Problem, Costs]:
    whole = route(net)
    costs = roofline.costs(whole, roofline.machine("virtual:k40c"))
    return Problem(overwrite(whole, "gradients"), costs, "exact"), costs


def drawn(problem: Problem, seed: int) -> Decisions:
    """Random decisions: nothing that a search would make."""
    draw = Random(seed)
    decisions: Decisions = {}
    for gap in problem.gaps:
        offers = [None, "copy"]
        if gap.maker is not None:
            offers += ["recompute", "recompute each"]
        decision = draw.choice(offers)
        if decision is not None:
            decisions[gap] = decision
    return decisions


# Stages


@pytest.mark.parametrize("seed", range(12))
def test_any_decisions_make_a_plan_that_computes_what_the_route_does(seed):
    net = random_net(seed)
    problem, _ = problem_of(net)
    for variant in range(4):
        found = forecast(problem, drawn(problem, variant), ENDLESS)
        verify(place(written(problem, found, ENDLESS)), route(net))


@pytest.mark.parametrize("seed", range(8))
def test_bytes_in_use_are_forecast(seed):
    problem, _ = problem_of(random_net(seed))
    for variant in range(4):
        decisions = drawn(problem, variant)
        found = forecast(problem, decisions, 0)
        roomy = forecast(problem, decisions, ENDLESS)
        plan = written(problem, roomy, 0)
        # Copies under way come on top of what the runs need.
        assert max(memory(plan, workspace=True)) >= max(found.used)
        # A copy may be back before the run that needs it; until then it counts.
        assert roomy.host >= max(host_memory(plan), default=0)


@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_the_forecast_agrees_with_the_timeline_where_memory_is_no_limit(name):
    problem, costs = problem_of(find(name, batch=8))
    for variant in range(4):
        found = forecast(problem, drawn(problem, variant), ENDLESS)
        seconds = simulate(written(problem, found, ENDLESS), costs).seconds
        assert found.seconds == pytest.approx(seconds, rel=1e-9)


def test_if_all_leaves_no_run_has_more_in_memory_than_its_own_tensors():
    for seed in range(8):
        problem, _ = problem_of(random_net(seed))
        found = forecast(problem, all_leave(problem, Limits()), 0)
        assert found.used == [problem.own[i] for i, _ in found.order]


def test_a_value_that_is_rebuilt_early_stays_only_if_it_is_recomputed_once():
    """Both ReLUs of a segment are dropped; the second needs the first."""
    problem, _ = problem_of(find("alexnet", batch=2))
    both = {gap: "recompute" for gap in problem.gaps if gap.maker is not None}
    each = dict.fromkeys(both, "recompute each")
    once = [i for i, again in order(problem, both) if again]
    often = [i for i, again in order(problem, each) if again]
    assert len(set(once)) == len(once) < len(often)
    assert set(once) == set(often)


def test_a_sweep_only_gains_and_leaves_nothing_that_one_change_would_gain():
    problem, _ = problem_of(find("alexnet", batch=200))
    limits = Limits(device=int(0.6 * sum(gap.nbytes for gap in problem.gaps)))
    first = repaired(problem, limits, all_leave(problem, limits))
    assert first is not None
    decisions, found, left = swept(problem, limits, *first, tries=2000)
    assert found.seconds < first[1].seconds
    assert left > 0
    for gap, decision in decisions.items():
        for other in {"copy", "recompute", None} - {decision}:
            if other == "recompute" and gap.maker is None:
                continue
            changed = {**decisions, gap: other}
            if other is None:
                del changed[gap]
            result = forecast(problem, changed, limits.device)
            costs = decision != "copy" or gap.tensor in found.waits
            assert not (costs and limits.allow(result)) or (
                result.seconds >= found.seconds
            )


def test_a_sweep_tries_no_more_than_it_may():
    problem, _ = problem_of(find("alexnet", batch=200))
    limits = Limits(device=int(0.6 * sum(gap.nbytes for gap in problem.gaps)))
    first = repaired(problem, limits, all_leave(problem, limits))
    assert first is not None
    assert swept(problem, limits, *first, tries=0)[:2] == first
    assert swept(problem, limits, *first, tries=3)[2] == 0


# Plans


def budgets(net: Net, count: int) -> tuple[int, list[int]]:
    """The lower bound, and sizes from it to what the plan without savings needs."""
    least = lower_bound(overwrite(route(net), "gradients"))
    most = extent(schedule(route(net), PRESETS["liveness"]))
    return least, [aligned(least + (most - least) * i // count) for i in range(count)]


def check_frontier(net: Net, count: int) -> None:
    """Every plan fits; more memory is never slower, less never has a higher peak."""
    whole = route(net)
    _, costs = problem_of(net)
    _, sizes = budgets(net, count)
    before: tuple[float, int] | None = None
    for size in sizes:
        _, plan = least_time(whole, costs, size)
        assert extent(plan) <= size
        result = simulate(plan, costs).seconds, max(memory(plan, workspace=True))
        if before is not None:
            assert result[0] <= before[0] and result[1] >= before[1]
        before = result


@pytest.mark.slow
def test_more_memory_never_gives_a_slower_plan_nor_less_a_higher_peak():
    for seed in range(3):
        check_frontier(random_net(seed), 5)
    check_frontier(find("alexnet", batch=200), 8)


@pytest.mark.slow
def test_more_memory_never_gives_a_slower_plan_on_many_nets():
    for seed in range(3, 9):
        check_frontier(random_net(seed), 10)
    check_frontier(find("vgg16", batch=64), 15)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("alexnet", 200),
        ("vgg16", 64),
        ("resnet50", 128),
        ("inception_v4", 32),
        ("densenet121", 64),
        ("unet", 4),
        ("gpt2", 16),
    ],
)
def test_a_dense_sweep_of_a_net_is_monotonic(name, batch):
    check_frontier(find(name, batch), 40)


def slower_than_presets(net: Net, count: int) -> list[tuple[str, int, float]]:
    """Presets that beat the quickest plan in the memory that they need themselves."""
    whole = route(net)
    _, costs = problem_of(net)
    found = []
    least, sizes = budgets(net, count)
    for name, options in PRESETS.items():
        for size in sizes if name == "cache" else [None]:
            limited = options
            if size is not None:
                limited = type(options)(capacity=size, slab=size)
            plan = schedule(whole, limited, costs)
            needed = max(least, extent(plan))
            _, quickest = least_time(whole, costs, needed)
            ratio = simulate(quickest, costs).seconds / simulate(plan, costs).seconds
            if ratio > 1:
                found.append((name, needed, ratio))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet", "random:1"])
def test_no_preset_is_quicker_in_the_memory_that_it_needs(name):
    assert slower_than_presets(find(name, batch=16), 2) == []


@pytest.mark.slow
def test_no_preset_is_quicker_on_many_nets():
    for name in "lenet", "vgg16", "random:2", "random:3", "random:4":
        assert slower_than_presets(find(name, batch=16), 4) == []


def test_what_is_not_allowed_is_not_done():
    net = find("vgg16", batch=8)
    whole = route(net)
    _, costs = problem_of(net)
    size = int(0.8 * extent(schedule(whole, PRESETS["liveness"])))
    _, plan = least_time(whole, costs, size, transfers="none")
    assert not any(isinstance(step, Prefetch) for step in plan.steps)
    _, plan = least_time(whole, costs, size, recompute=None)
    assert len([*plan.runs()]) == len([*whole.runs()])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_the_host_s_memory_is_a_limit(share):
    net = find("alexnet", batch=16)
    whole = route(net)
    _, costs = problem_of(net)
    size = int(0.7 * extent(schedule(whole, PRESETS["liveness"])))
    _, free = least_time(whole, costs, size)
    limit = int(share * max(host_memory(free)))
    _, plan = least_time(whole, costs, size, host_capacity=limit)
    assert max(host_memory(plan), default=0) <= limit


@pytest.mark.parametrize("seed", [17, 29, 34])
def test_there_is_a_plan_where_the_cache_has_one_though_the_host_is_small(seed):
    whole = route(random_net(seed, batch=2))
    costs = roofline.costs(whole, roofline.machine("virtual:k40c"))
    least = lower_bound(overwrite(whole, "gradients"))
    cached = Options(
        recompute="cost-aware", transfers="cache", capacity=least, slab=least
    )
    host = max(host_memory(schedule(whole, cached)))
    _, plan = least_time(whole, costs, least, effort=0.1, host_capacity=host)
    assert extent(plan) <= least
    assert max(host_memory(plan)) <= host


def test_the_lower_bound_has_a_plan_and_a_byte_less_has_none():
    for name in "lenet", "alexnet", "random:3":
        net = find(name, batch=2)
        _, costs = problem_of(net)
        least, _ = budgets(net, 1)
        assert extent(least_time(route(net), costs, least)[1]) <= least
        with pytest.raises(OutOfMemory) as caught:
            least_time(route(net), costs, least - 1)
        assert caught.value.least == least


@pytest.mark.slow
def test_a_net_of_many_branches_is_planned_near_the_bound():
    pytest.importorskip("scipy")
    net = find("densenet121", batch=64)
    problem, costs = problem_of(net)
    size = extent(schedule(route(net), PRESETS["liveness"])) // 2
    seconds = simulate(least_time(route(net), costs, size)[1], costs).seconds
    assert seconds <= 1.05 * bound(problem, size, seconds)


@pytest.mark.slow
def test_more_effort_is_not_slower_on_a_net_that_needs_it():
    net = find("resnet50", batch=16)
    problem, _ = problem_of(net)
    size = int(0.3 * extent(schedule(route(net), PRESETS["liveness"])))
    quick = Frontier(problem, Limits(), effort=0.1).best(size)
    long = Frontier(problem, Limits(), effort=1.0).best(size)
    assert quick is not None and long is not None
    assert long.seconds <= 1.02 * quick.seconds


def test_a_frontier_that_is_asked_again_answers_as_a_new_one():
    problem, _ = problem_of(find("alexnet", batch=8))
    asked = Frontier(problem, Limits(), 0.1)
    sizes = [asked.least + (asked.most - asked.least) * i // 4 for i in (3, 1, 0, 2)]
    for size in sizes:
        point = Frontier(problem, Limits(), 0.1).best(size)
        assert str(asked.best(size).plan) == str(point.plan)


@pytest.mark.slow
def test_the_same_problem_gives_the_same_plan():
    net = find("random:4", batch=4)
    _, costs = problem_of(net)
    least, _ = budgets(net, 1)
    first, second = (least_time(route(net), costs, least * 2)[1] for _ in range(2))
    assert str(first) == str(second)


def test_below_its_levels_a_frontier_descends_as_far_as_the_capacity_asks():
    problem, _ = problem_of(find("alexnet", batch=8))
    limits = Limits(host=2**20)
    frontier = Frontier(problem, limits, 0.1)
    least = extent(frontier.lowest.plan)
    assert least > 1.1 * frontier.least  # the host has too little for less
    sizes = [least + least * i // 100 for i in range(0, 16, 3)]
    points = [Frontier(problem, limits, 0.1).best(size) for size in sizes]
    for size, point in zip(sizes, points, strict=True):
        assert extent(point.plan) <= size
        assert max(host_memory(point.plan), default=0) <= 2**20
    seconds = [point.seconds for point in points]
    assert seconds == sorted(seconds, reverse=True)
    peaks = [point.peak for point in points]
    assert peaks == sorted(peaks)
    assert Frontier(problem, limits, 0.1).best(least - least // 50) is None
