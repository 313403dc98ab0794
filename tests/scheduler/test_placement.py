"""Placement: no two live allocations overlap, and the extent is near the peak."""

import random
from collections.abc import Callable

import pytest

from snref.net import route
from snref.nets import NAMES, find, random_net
from snref.plans import ALIGNMENT, Alloc, Free, Plan, Step, Tensor, extent, memory
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead, hold_all
from snref.scheduler.offloading import offload
from snref.scheduler.packing import overlapping
from snref.scheduler.placement import Order, allocations, place
from snref.scheduler.recomputation import recompute

ORDERS: tuple[Order, ...] = ("arrival", "best")
Rectangle = tuple[int, int, int, int]  # from a time, to a time, from a byte, to a byte


def plan_of(rectangles: list[Rectangle]) -> Plan:
    """A plan that allocates these bytes for these times; who leaves leaves first."""
    events: list[tuple[int, int, Step]] = []
    for i, (birth, death, low, high) in enumerate(rectangles):
        tensor = Tensor(f"t{i}", ((high - low) // 4,))
        events += [(birth, 1, Alloc(tensor)), (death, 0, Free(tensor))]
    events.sort(key=lambda event: event[:2])
    return Plan(tuple(step for _, _, step in events))


def scattered(draw: random.Random, count: int) -> list[Rectangle]:
    """Any sizes, most lives short; some tensors are not a multiple of the alignment."""
    found = []
    for _ in range(count):
        birth = draw.randrange(count)
        life = 1 + int(draw.expovariate(0.1))
        found.append((birth, birth + life, 0, 4 * draw.randint(1, 5000)))
    return found


def tiled(
    draw: random.Random, count: int, peak: int = 1000 * ALIGNMENT
) -> list[Rectangle]:
    """A rectangle of time and bytes, cut and cut again: it packs without a hole."""
    tiles: list[Rectangle] = [(0, 200, 0, peak)]
    while len(tiles) < count:
        birth, death, low, high = tiles.pop(draw.randrange(len(tiles)))
        if draw.random() < 0.5 and death - birth > 1:
            cut = draw.randrange(birth + 1, death)
            tiles += [(birth, cut, low, high), (cut, death, low, high)]
        elif high - low > ALIGNMENT:
            cut = draw.randrange(low + ALIGNMENT, high, ALIGNMENT)
            tiles += [(birth, death, low, cut), (birth, death, cut, high)]
        else:
            tiles.append((birth, death, low, high))
    return tiles


def check(before: Plan, placed: Plan) -> None:
    """The same plan, addresses aligned, live allocations apart."""
    live: dict[Tensor, tuple[int, int]] = {}
    for old, new in zip(before.steps, placed.steps, strict=True):
        if isinstance(new, Alloc):
            assert isinstance(old, Alloc)
            assert old.tensor is new.tensor
            assert new.offset is not None
            assert new.offset % ALIGNMENT == 0
            start, end = new.offset, new.offset + new.tensor.nbytes
            for name, (low, high) in live.items():
                assert end <= low or high <= start, (new.tensor, name)
            live[new.tensor] = start, end
            continue
        assert old is new
        if isinstance(new, Free):
            del live[new.tensor]
    assert extent(placed) >= max(memory(before, workspace=True), default=0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("make", [scattered, tiled])
def test_live_allocations_never_overlap(
    make: Callable[[random.Random, int], list[Rectangle]], order: Order
) -> None:
    for seed in range(30):
        draw = random.Random(seed)
        plan = plan_of(make(draw, draw.randint(1, 60)))
        placed = place(plan, order=order)
        check(plan, placed)
        assert extent(placed) <= extent(place(plan, order="arrival"))


@pytest.mark.parametrize("order", ORDERS)
def test_a_plan_without_allocations_stays_as_it_is(order: Order) -> None:
    assert place(Plan(()), order=order).steps == ()


def test_the_first_fit_of_the_paper_has_blocks_of_one_kibibyte() -> None:
    plan = plan_of([(0, 9, 0, 4), (1, 9, 0, 1028), (2, 9, 0, 4)])
    offsets = [s.offset for s in place(plan, order="arrival").steps[:3]]  # type: ignore[union-attr]
    assert offsets == [0, 1024, 3072]


def test_every_allocation_of_a_tensor_gets_an_address_of_its_own() -> None:
    tensor, other = Tensor("again", (64,)), Tensor("other", (64,))
    once: tuple[Step, ...] = (Alloc(tensor), Free(tensor))
    plan = Plan((*once, Alloc(other), *once, Free(other), *once))
    check(plan, place(plan))
    assert extent(place(plan)) == 512


def test_placement_is_the_same_every_time() -> None:
    plan = plan_of(tiled(random.Random(3), 40))
    assert str(place(plan)) == str(place(plan))


def test_packing_ahead_meets_a_known_optimum_where_first_fit_does_not() -> None:
    """Tiles pack without a hole, but to find that packing is hard: most, not all."""
    solved = first_fit_solved = 0
    for seed in range(20):
        plan = plan_of(tiled(random.Random(seed), 20))
        peak = max(memory(plan, workspace=True))
        solved += extent(place(plan)) == peak
        first_fit_solved += extent(place(plan, order="arrival")) == peak
    print(f"\n20 tiles: best solves {solved} of 20, first fit {first_fit_solved}")
    assert solved >= 18
    assert solved > first_fit_solved


def test_a_sweep_alone_packs_a_deep_chain_at_its_peak() -> None:
    """What forward makes backward frees, last first, with gradients in between: too
    many lifetimes overlap for a search.
    """
    draw = random.Random(0)
    layers = 1500
    outputs = [Tensor(f"y{i}", (64 * draw.randint(1, 50),)) for i in range(layers)]
    steps: list[Step] = list(map(Alloc, outputs))
    gradient = Tensor("loss.dy", (64,))
    steps.append(Alloc(gradient))
    for output in reversed(outputs):
        following = Tensor(f"d{output.name}", output.shape, "gradient")
        steps += [Alloc(following), Free(gradient), Free(output)]
        gradient = following
    plan = Plan((*steps, Free(gradient)))
    sizes, events = allocations(plan)
    assert overlapping(sizes, events) is None
    assert extent(place(plan)) == max(memory(plan, workspace=True))
    assert extent(place(plan, order="arrival")) > max(memory(plan, workspace=True))


def test_a_slab_ends_the_search_but_never_costs_the_peak() -> None:
    for seed in range(10):
        plan = plan_of(tiled(random.Random(seed), 25))
        tight, peak = extent(place(plan)), max(memory(plan, workspace=True))
        slab = 2 * peak
        loose = extent(place(plan, slab))
        assert loose <= slab
        if tight == peak:
            assert loose == peak


def plans_without_cache(net_route: Plan) -> dict[str, Plan]:
    """The plans of every preset that has no cache, allocated."""
    in_place = overwrite(net_route, "gradients")
    plans = {
        "baseline": hold_all(in_place),
        "liveness": free_dead(in_place),
        "offload": free_dead(offload(in_place, "offload")),
    }
    for strategy in ("speed-centric", "memory-centric", "cost-aware"):
        again = recompute(in_place, strategy)
        plans[strategy] = free_dead(offload(again, "offload"))
        plans[f"{strategy}, on demand"] = free_dead(offload(again, "demand"))
        plans[f"{strategy}, kept"] = free_dead(again)
    return plans


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.islower() and ":" not in name]
)
def test_every_net_and_preset_packs_within_half_a_percent_of_its_peak(
    name: str,
) -> None:
    for preset, plan in plans_without_cache(route(find(name, 2))).items():
        peak = max(memory(plan, workspace=True))
        best, first = extent(place(plan)), extent(place(plan, order="arrival"))
        print(
            f"\n{name} {preset}: {best / peak:.4f}, first fit {first / peak:.4f}",
            end="",
        )
        assert peak <= best <= 1.005 * peak, preset


def test_most_random_nets_pack_within_half_a_percent_and_none_worse_than_first_fit():
    """In a small plan a hole can cost more: seed 93661 needs 1.104 of its peak."""
    plans = within = 0
    for seed in (*range(12), 90065, 90134, 93661):
        for preset, plan in plans_without_cache(route(random_net(seed))).items():
            peak = max(memory(plan, workspace=True))
            placed = place(plan)
            check(plan, placed)
            assert extent(placed) <= extent(place(plan, order="arrival")), preset
            assert extent(placed) <= 1.11 * peak, (seed, preset)
            plans += 1
            within += extent(placed) <= max(1.005 * peak, peak + ALIGNMENT)
    print(f"{within} of {plans}")
    assert within >= 0.95 * plans
