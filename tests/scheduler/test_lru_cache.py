"""The cache's rule: who is evicted, what is copied, and how much in all."""

import random

import pytest

from snref import nets
from snref.net import route
from snref.plans import (
    Free,
    Offload,
    OutOfMemory,
    Plan,
    Prefetch,
    extent,
    lower_bound,
    memory,
)
from snref.plans.verification import verify
from snref.scheduler import Options, schedule
from snref.scheduler.cache_refinements import refined_cache
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.lru_cache import Victim, least_recently_used, tensor_cache
from snref.scheduler.recomputation import recompute
from tests.scheduler.caches import (
    SIZE,
    byte_counting_lru,
    bytes_copied,
    clock,
    first_in,
    most_recently_used,
    plan_of,
)

CACHES = [tensor_cache, refined_cache]


def names(plan: Plan, kind: type[Offload | Prefetch | Free]) -> list[str]:
    return [step.tensor.name for step in plan.steps if isinstance(step, kind)]


@pytest.mark.parametrize("cache", CACHES)
def test_the_least_recently_used_tensor_is_evicted_first(cache):
    first = "-> a", "-> b", "-> c", "a -> a"  # b is the least recent, then c, then a
    plan = plan_of(*first, "-> d", "-> e", "a d ->", "b e ->", "c ->")
    assert names(cache(plan, 3 * SIZE), Offload)[:2] == ["b", "c"]


@pytest.mark.parametrize("cache", CACHES)
def test_a_tensor_is_freed_after_its_last_use_and_not_evicted(cache):
    plan = plan_of("-> a", "a -> b", "b -> c", "c -> d")
    played = cache(plan, 2 * SIZE)
    assert names(played, Free) == ["a", "b", "c", "d"]
    assert names(played, Offload) == []


@pytest.mark.parametrize("cache", CACHES)
def test_the_tensors_of_a_run_are_locked_so_that_all_must_fit(cache):
    plan = plan_of("-> a", "-> b", "a b -> c", "c ->")
    with pytest.raises(OutOfMemory, match="run2 forward needs 768 bytes") as refused:
        cache(plan, 3 * SIZE - 1)
    assert extent(cache(plan, refused.value.least)) <= refused.value.least


@pytest.mark.parametrize("cache", CACHES)
def test_a_clean_tensor_is_not_copied_to_the_host_twice(cache):
    plan = plan_of("-> a", "-> b", "b -> c", "a -> ", "-> b", "b -> c", "a -> ")
    played = cache(plan, 2 * SIZE)
    assert names(played, Offload) == ["a"]
    assert names(played, Prefetch) == ["a", "a"]


@pytest.mark.parametrize("cache", CACHES)
def test_a_tensor_that_was_written_since_is_copied_again(cache):
    plan = plan_of("-> a", "-> b", "b -> c", "a -> a", "-> b", "b -> c", "a -> ")
    played = cache(plan, 2 * SIZE)
    assert names(played, Offload) == ["a", "a"]


def random_uses(draw: random.Random) -> Plan:
    """Runs that read and write a dozen tensors of one size, rather recent ones."""
    recent: list[str] = []  # the latest last
    runs = []
    for _ in range(60):
        reads = {
            recent[int(len(recent) * draw.random() ** 0.5)]
            for _ in range(draw.randint(0, 2) if recent else 0)
        }
        write = draw.choice("abcdefghijkl")
        runs.append(f"{' '.join(sorted(reads))} -> {write}")
        recent = [name for name in recent if name not in {*reads, write}]
        recent += [*sorted(reads - {write}), write]
    return plan_of(*runs)


@pytest.mark.parametrize("cache", CACHES)
def test_tensors_of_one_size_cost_no_more_copies_than_a_byte_counting_lru(cache):
    for seed in range(20):
        plan = random_uses(random.Random(seed))
        for count in range(3, 12):
            played = cache(plan, count * SIZE)
            assert bytes_copied(played) == byte_counting_lru(plan, count * SIZE)


@pytest.mark.parametrize("victim", [first_in, most_recently_used])
def test_the_plans_of_the_test_above_tell_other_rules_from_this_one(victim: Victim):
    ours = theirs = 0
    for seed in range(20):
        plan = random_uses(random.Random(seed))
        ours += sum(bytes_copied(tensor_cache(plan, n * SIZE, victim)) for n in (4, 6))
        theirs += sum(byte_counting_lru(plan, n * SIZE) for n in (4, 6))
    print(victim.__name__, ours / theirs)
    assert ours > 1.01 * theirs


def test_alexnets_traffic_is_near_that_of_a_byte_counting_lru():
    """At most 25 % more; first in, first out and most recent copy 33 % more."""
    whole = route(nets.alexnet(batch=200))
    plan = recompute(overwrite(whole, "gradients"), "cost-aware")
    low, high = lower_bound(plan), max(memory(free_dead(plan), workspace=True))
    ours = theirs = 0
    for i in range(6):
        slab = low + (high - low) * i // 6
        made = schedule(whole, Options(algorithms="none", capacity=slab, slab=slab))
        ours += bytes_copied(made)
        theirs += byte_counting_lru(plan, slab)
    assert theirs <= ours <= 1.25 * theirs


@pytest.mark.parametrize("victim", [least_recently_used, first_in, clock])
@pytest.mark.parametrize("cache", CACHES)
def test_whatever_the_rule_the_plan_is_valid_and_in_its_slab(cache, victim: Victim):
    for seed in range(6):
        whole = route(nets.random_net(seed, batch=2))
        plan = recompute(overwrite(whole, "gradients"), "cost-aware")
        least, enough = lower_bound(plan), extent(tensor_cache(plan, 1 << 40))
        for slab in least, (least + enough) // 2, enough:
            try:
                played = cache(plan, slab, victim)
            except OutOfMemory as refused:
                assert cache is tensor_cache and slab < enough
                assert bytes_copied(cache(plan, refused.least, victim)) == 0
                continue
            verify(played, whole, slab=slab)
            if cache is tensor_cache and slab == enough:
                assert bytes_copied(played) == 0


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda plan: None, "None though a may leave"),
        (lambda plan: "a", "'a', which is no tensor"),
        (lambda plan: [], r"\[\], which is no tensor"),
        (lambda plan: plan.steps[2].reads[0], "b, which is locked"),
        (lambda plan: plan.steps[2].writes[0], "c, which is not on the device"),
    ],
)
def test_a_rule_that_returns_what_may_not_leave_is_named(cache, returned, message):
    plan = plan_of("-> a", "-> b", "b -> c", "a ->")

    def careless(cache, locked):
        return returned(plan)

    with pytest.raises(ValueError, match=f"the victim rule 'careless' ret.* {message}"):
        cache(plan, 2 * SIZE, careless)


@pytest.mark.parametrize("cache", CACHES)
def test_a_rule_that_takes_tensors_out_itself_is_named(cache):
    def thorough(cache, locked):
        victim = next(t for t in cache.used if t not in locked)
        del cache.used[victim]
        return victim

    with pytest.raises(ValueError, match="rule 'thorough' changed which tensors"):
        cache(plan_of("-> a", "-> b", "b -> c", "a ->"), 2 * SIZE, thorough)


@pytest.mark.parametrize("cache", CACHES)
def test_a_rule_that_gives_up_too_early_is_named_on_a_net(cache):
    """Returned early, None once made the refined cache move other runs' tensors."""
    rule = iter(range(10**9))

    def tired(cache, locked):
        return None if next(rule) % 3 == 2 else least_recently_used(cache, locked)

    whole = route(nets.alexnet(batch=200))
    plan = recompute(overwrite(whole, "gradients"), "cost-aware")
    with pytest.raises(ValueError, match=r"'tired' returned None though \S+ may leave"):
        cache(plan, lower_bound(plan) * 11 // 10 // SIZE * SIZE, tired)
