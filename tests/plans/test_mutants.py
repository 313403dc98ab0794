"""verify: accepts what is valid, objects to every fault, agrees with a second judge."""

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import get_args

import pytest

from snref.layers.base import Declarations
from snref.plans import Alloc, InvalidPlan, Plan
from snref.plans.verification import verify

from . import symbolic
from .changes import CHANGES
from .faults import MUTATIONS, NEED_ROUTE
from .scheduled import OVER_ACTIVATIONS, WAYS, a_route, a_route_in_parts


def accept_plans_of(seeds: Iterable[int]) -> None:
    for seed in seeds:
        for declarations in get_args(Declarations):
            route, costs = a_route(seed, declarations)
            for name, plan_by in (*WAYS.items(), *OVER_ACTIVATIONS.items()):
                where = f"random:{seed}, {declarations}, {name}"
                plan = plan_by(route, costs)
                try:
                    verify(plan, route)
                    verify(plan)
                except InvalidPlan as error:
                    raise AssertionError(f"{where}: {error}") from error
                assert symbolic.objection(plan, route) is None, where


def test_both_judges_accept_every_plan_of_the_scheduler() -> None:
    accept_plans_of(range(3))


@pytest.mark.slow
def test_both_judges_accept_every_plan_of_fifty_nets() -> None:
    accept_plans_of(range(4, 54))


# Faults that are put into plans


def a_plan(seed: int) -> tuple[str, Plan, Plan]:
    """A plan for a random net, each seed's made in another way: (name, route, plan)."""
    name = [*WAYS][seed % len(WAYS)]
    route, costs = a_route(seed, "lean" if seed % 2 else "original")
    return f"random:{seed}, {name}", route, WAYS[name](route, costs)


def survivors(route: Plan, plan: Plan, counts: Counter[str]) -> Iterator[str]:
    """The mutants of a plan that verify accepts, with the route or without."""
    for kind, mutate in MUTATIONS.items():
        for index, changed in mutate(plan):
            counts[kind] += 1
            for given in (route,) if kind in NEED_ROUTE else (route, None):
                try:
                    verify(changed, given)
                except InvalidPlan:
                    continue
                yield f"{kind} at steps[{index}], route {'un' * (not given)}known"


def kill_mutants(seeds: Iterable[int]) -> Counter[str]:
    """Check that verify objects to every mutant of a plan a seed."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        name, route, plan = a_plan(seed)
        verify(plan, route)
        for survivor in survivors(route, plan, counts):
            raise AssertionError(f"{name}: {survivor}")
    for kind in MUTATIONS:
        print(f"{counts[kind]:7} {kind}")
    return counts


def test_no_mutant_survives() -> None:
    counts = kill_mutants((3, 12, 14))
    assert all(counts[kind] for kind in MUTATIONS)


@pytest.mark.slow
def test_no_mutant_of_fifteen_plans_survives() -> None:
    counts = kill_mutants(range(15))
    assert min(counts[kind] for kind in MUTATIONS) > 20
    assert counts.total() > 20_000


def test_no_mutant_of_a_plan_that_overwrites_activations_survives() -> None:
    assert kill_overwritten(14, "memory-centric") > 500


@pytest.mark.slow
def test_no_mutant_of_plans_that_overwrite_activations_survives() -> None:
    kinds = [*OVER_ACTIVATIONS]
    counts = [kill_overwritten(seed, kinds[seed % 4]) for seed in range(16)]
    assert sum(counts) > 5_000


def test_no_mutant_of_a_static_plan_survives() -> None:
    assert kill_overwritten(14, "baseline", "static") > 200


@pytest.mark.slow
def test_no_mutant_of_static_plans_survives() -> None:
    counts = [kill_overwritten(seed, "baseline", "static") for seed in range(5)]
    assert sum(counts) > 7_000


def kill_overwritten(seed: int, way: str, declarations: Declarations = "reuse") -> int:
    """Check that verify objects to every mutant of a plan with gradients over x."""
    route, costs = a_route(seed, declarations)
    plan = OVER_ACTIVATIONS[way](route, costs)
    written = {t for run in plan.runs() for t in run.writes if run.phase == "backward"}
    assert any(tensor.kind == "activation" for tensor in written)
    counts: Counter[str] = Counter()
    for survivor in survivors(route, plan, counts):
        raise AssertionError(f"random:{seed}, {way}: {survivor}")
    return counts.total()


# Plans of which layers run in parts of the batch

PARTED = {"original": WAYS, "lean": WAYS, "reuse": OVER_ACTIVATIONS}


def accept_parts(seeds: Iterable[int], count: int) -> None:
    for seed in seeds:
        for declarations, ways in PARTED.items():
            route, costs = a_route_in_parts(seed, declarations, count)
            names = [*ways]
            for name in names[seed % 2 :: 2]:
                where = f"random:{seed}, {declarations}, {name}, {count} parts"
                plan = ways[name](route, costs)
                verify(plan, route)
                assert symbolic.objection(plan, route) is None, where


def test_both_judges_accept_plans_of_layers_in_parts() -> None:
    accept_parts([1], 2)


@pytest.mark.slow
def test_both_judges_accept_plans_of_layers_in_parts_of_many_nets() -> None:
    accept_parts((3, 8, 9, 12), 2)
    accept_parts((1,), 4)


def kill_parts(seed: int, declarations: Declarations, way: str) -> int:
    """Check that verify objects to every mutant of a plan of layers in parts."""
    route, costs = a_route_in_parts(seed, declarations, 2)
    assert any("[2]" in run.layer for run in route.runs())
    counts: Counter[str] = Counter()
    for survivor in survivors(route, PARTED[declarations][way](route, costs), counts):
        raise AssertionError(f"random:{seed}, {declarations}, {way}: {survivor}")
    return counts.total()


def test_no_mutant_of_a_plan_of_layers_in_parts_survives() -> None:
    assert kill_parts(1, "reuse", "memory-centric") > 200


@pytest.mark.slow
def test_no_mutant_of_plans_of_layers_in_parts_survives() -> None:
    kinds = [(d, way) for d, ways in PARTED.items() for way in [*ways][::3]]
    counts = [
        kill_parts(seed, *kinds[seed % len(kinds)]) for seed in (0, 1, 3, 8, 9, 12)
    ]
    counts.append(kill_parts(1, "reuse", "cache, least"))
    assert sum(counts) > 9_000


# Random changes, which may leave a plan valid: two judges


def judge_changes(seeds: Iterable[int], each: int) -> Counter[tuple[str, str]]:
    """Check that the second judge accepts what verify accepts, of random changes.

    Counts by kind of change and verdict; "strict" is what verify alone objects to.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        name, route, plan = a_plan(seed)
        if seed % 2:  # without addresses, where more changes leave a plan valid
            steps = (Alloc(s.tensor) if isinstance(s, Alloc) else s for s in plan.steps)
            plan = Plan(tuple(steps))
        random = Random(seed)
        for kind, change in CHANGES.items():
            for number in range(each):
                changed = change(plan, random)
                if changed is None:
                    continue
                objection = symbolic.objection(changed, route)
                try:
                    verify(changed, route)
                except InvalidPlan:
                    counts[kind, "refused" if objection else "strict"] += 1
                else:
                    assert objection is None, f"{name}, {kind} {number}: {objection}"
                    counts[kind, "accepted"] += 1
    verdicts = "accepted", "refused", "strict"
    for kind in CHANGES:
        numbers = (f"{counts[kind, verdict]:6} {verdict}" for verdict in verdicts)
        print(f"{kind:20}", *numbers)
    return counts


def total(counts: Counter[tuple[str, str]], verdict: str) -> int:
    return sum(number for (_, what), number in counts.items() if what == verdict)


def test_a_second_judge_accepts_what_verify_accepts() -> None:
    counts = judge_changes((1, 6, 11, 13), each=6)
    assert total(counts, "accepted") > 20 and total(counts, "refused") > 100


@pytest.mark.full
def test_no_false_accept_in_twenty_thousand_changes() -> None:
    counts = judge_changes(range(200), each=8)
    assert counts.total() > 20_000
    assert total(counts, "accepted") > 2_000 and total(counts, "refused") > 10_000
    for kind in CHANGES:
        assert counts[kind, "refused"] > 100, kind


# The second judge itself


def test_the_second_judge_finds_what_computes_something_else() -> None:
    """Faults after which parameters, momenta or states end with other values."""
    _, route, plan = a_plan(3)
    for kind in (
        "Alloc deleted",
        "Prefetch deleted",
        "Offload too early",
        "recomputation dropped",
        "run missing",
        "parameter read after its update",
    ):
        for index, changed in MUTATIONS[kind](plan):
            assert symbolic.objection(changed, route), f"{kind} at steps[{index}]"
