"""Each refinement of the cache does what it is there for, and earns what is said."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest

from snref import nets
from snref.net import route
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
    lower_bound,
    memory,
)
from snref.plans.steps import InvalidPlan
from snref.plans.verification import verify
from snref.scheduler import cache_refinements as refinements
from snref.scheduler.cache_refinements import refined_cache
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.lru_cache import least_recently_used, tensor_cache
from snref.scheduler.recomputation import recompute
from tests.scheduler.caches import SIZE, bytes_copied, plan_of

NETS = {"alexnet": 200, "vgg16": 32, "resnet50": 32, "inception_v4": 32}
NETS |= {"densenet121": 32, "unet": 1}
SLABS = 6


def plan_for(name: str, batch: int) -> Plan:
    return recompute(
        overwrite(route(nets.find(name, batch)), "gradients"), "cost-aware"
    )


def slabs(plan: Plan, count: int = SLABS) -> list[int]:
    """Sizes from the largest working set to just under the peak, in equal steps."""
    low, high = lower_bound(plan), max(memory(free_dead(plan), workspace=True))
    return [low + (high - low) * i // count for i in range(count)]


def without_levels(plan: Plan, slab: int) -> Plan:
    return refinements._without_useless_reruns(plan, slab, least_recently_used, None)


def traffic(plan: Plan, cache: Callable[[Plan, int], Plan] = without_levels) -> int:
    """Bytes copied in all the slabs."""
    return sum(bytes_copied(cache(plan, slab)) for slab in slabs(plan))


@pytest.mark.slow
def test_the_refinements_earn_what_their_docstring_says(monkeypatch):
    rows: dict[str, list[int]] = {"no plan": [], "short-lived high": []}
    rows |= {"put back": [], "levels": []}
    for name, batch in NETS.items():
        plan = plan_for(name, batch)
        rows["no plan"].append(sum(not papers_has(plan, slab) for slab in slabs(plan)))
        whole = traffic(plan)

        def more(other: int, whole: int = whole) -> int:
            return round(100 * (other / whole - 1))

        with monkeypatch.context() as patch:
            patch.setattr(refinements, "_short_lived", lambda plan: set())
            rows["short-lived high"].append(more(traffic(plan)))
        with monkeypatch.context() as patch:
            patch.setattr(refinements._RefinedCache, "put_back", lambda *_: False)
            rows["put back"].append(more(traffic(plan)))
        rows["levels"].append(more(traffic(plan, refined_cache)))
    print(rows)
    said = {
        what: [int(number) for number in re.findall(r"-?\d+", numbers)]
        for what, numbers in re.findall(
            r"^    (\S.*?) {2,}((?: +-?\d+)+)$", refinements.__doc__, re.MULTILINE
        )
    }
    assert said == rows


def papers_has(plan: Plan, slab: int) -> bool:
    """Whether the paper's cache finds a plan."""
    try:
        tensor_cache(plan, slab)
    except OutOfMemory:
        return False
    return True


def test_a_plan_exists_at_the_bound_where_the_papers_cache_has_none():
    plan = plan_for("vgg16", 32)
    assert not papers_has(plan, lower_bound(plan))
    refined_cache(plan, lower_bound(plan))


@pytest.mark.parametrize("seed", [1, 3])
def test_nothing_is_copied_in_a_slab_that_holds_all_with_tensors_rounded_up(seed):
    plan = overwrite(route(nets.random_net(seed, batch=2)), "gradients")
    rounded, exact = (max(memory(free_dead(plan), workspace=w)) for w in (True, False))
    assert bytes_copied(refined_cache(plan, rounded)) == 0
    assert bytes_copied(refined_cache(plan, exact)) > 0


def test_without_levels_a_smaller_slab_can_have_a_higher_peak():
    def falls(cache: Callable[[Plan, int], Plan]) -> int:
        """How often less memory gives a higher peak."""
        count = 0
        for seed in (5, 7, 13):
            whole = overwrite(route(nets.random_net(seed, batch=2)), "gradients")
            plan = recompute(whole, "cost-aware")
            peaks = [max(memory(cache(plan, slab))) for slab in slabs(plan, 24)]
            count += sum(a > b for a, b in pairwise(peaks))
        return count

    assert falls(without_levels) > 0
    assert falls(refined_cache) == 0


def test_a_useless_re_run_is_removed():
    net = nets.random_net(18, batch=2).with_options("original", "share")
    whole = route(net)
    plan = recompute(overwrite(whole, "gradients"), "speed-centric")
    slab = lower_bound(plan)
    with_useless = refinements._RefinedCache(plan, slab, least_recently_used, None)
    with pytest.raises(InvalidPlan, match="useless"):
        verify(with_useless.play(), whole)
    verify(refined_cache(plan, slab), whole)


def test_a_re_run_whose_output_reaches_the_host_only_then_is_useful():
    x, y, dy = (Tensor(name, (64,)) for name in ("x", "y", "dy"))
    forward = Run("a", "forward", (Launch("", (y,), (x,)),))
    backward = Run("a", "backward", (Launch("", (dy,), (y,)),))
    first, last = [Alloc(y), forward], [Alloc(y), Prefetch(y), backward, Free(y)]
    again = [Alloc(y), forward]
    out, gone = Offload(y), Free(y)
    had = Plan((*first, out, gone, *again, gone, *last))
    had_not = Plan((*first, gone, *again, out, gone, *last))
    assert refinements._useless_reruns(had) == {1}
    assert refinements._useless_reruns(had_not) == set()


def test_a_victim_that_is_in_no_tensors_way_is_put_back():
    """D needs the bytes of b and c. The paper's cache evicts a, too, which is older."""
    plan = plan_of(
        "-> a", "-> x", "-> b", "-> c", "x ->", "-> D", "D ->", "a x ->", "b c ->"
    )

    def copied(cache: Callable[[Plan, int], Plan]) -> set[str]:
        steps = cache(plan, 4 * SIZE).steps
        return {step.tensor.name for step in steps if isinstance(step, Offload)}

    assert copied(tensor_cache) == {"a", "b", "c"}
    assert copied(refined_cache) == {"b", "c"}
