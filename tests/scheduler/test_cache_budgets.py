"""The tensor cache at many budgets, its traffic beside that of a byte-counting LRU."""

from collections.abc import Iterator

import pytest

from snref import nets
from snref.net import Net, route
from snref.plans import extent, lower_bound, memory
from snref.scheduler import PRESETS, Options, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.recomputation import recompute
from tests.scheduler.caches import byte_counting_lru, bytes_copied

MIB = 2**20
NETS = {
    "lenet": 64,
    "alexnet": 200,
    "vgg16": 32,
    "vgg19": 32,
    "resnet50": 32,
    "resnet101": 32,
    "resnet152": 16,
    "inception_v4": 32,
    "inception_v4_original": 32,
    "densenet121": 32,
    "unet": 1,
    "gpt2": 1,
    "digits": 32,
}


def curve(net: Net, budgets: int = 20) -> Iterator[tuple[int, int, int]]:
    """Budget, bytes copied, bytes that a byte-counting LRU copies."""
    whole = route(net)
    bare = recompute(overwrite(whole, "gradients"), "cost-aware")
    free = schedule(whole, PRESETS["cache"])
    low, high = lower_bound(free), max(memory(free, workspace=True))
    between = [low + (high - low) * i // (budgets - 1) for i in range(budgets)]
    highest = 0
    for budget in sorted({low, low + 256, *between}):
        plan = schedule(whole, Options(capacity=budget, slab=budget))
        assert extent(plan) <= budget
        assert max(memory(plan)) >= highest, "less memory gave a higher peak"
        highest = max(memory(plan))
        if budget >= extent(free):
            assert bytes_copied(plan) == 0
        yield budget, bytes_copied(plan), byte_counting_lru(bare, budget)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_a_network_has_a_plan_at_every_budget(name: str):
    ours = theirs = 0
    for budget, here, there in curve(nets.find(name, NETS[name])):
        print(f"{name} {budget / MIB:.3f}: {here / MIB:.1f} MiB, LRU {there / MIB:.1f}")
        ours, theirs = ours + here, theirs + there
    print(f"{name}: {ours / max(1, theirs):.3f} of a byte-counting LRU's traffic")


@pytest.mark.full
@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_random_nets_have_plans_at_every_budget(hundred: int):
    ours = theirs = 0
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        for _, here, there in curve(nets.random_net(seed, batch=2)):
            ours, theirs = ours + here, theirs + there
    print(f"{ours / theirs:.3f} of a byte-counting LRU's traffic")
