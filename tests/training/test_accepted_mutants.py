"""Mutants of plans that ``verify`` accepts train to the bits of the baseline.

The changes are those of ``tests/plans/changes.py``: steps moved, copies and
recomputations added, tensors renamed, other algorithms. What ``verify`` accepts of them
is placed, and executed on a device that fills freed memory with NaN.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from plans.changes import CHANGES
from small_nets import FAMILIES

from snref.nets import random_net
from snref.planning.planned import plan
from snref.plans import Alloc, InvalidPlan, Plan
from snref.plans.verification import verify
from snref.scheduler.placement import place

from .test_contract import assert_the_same_bits, ended

# Kinds of which few or none leave a plan valid.
KINDS = [kind for kind in CHANGES if kind not in ("step deleted", "address changed")]
PRESETS = "liveness", "offload", "superneurons", "memory-centric", "cache"


def same_orders(changed, original):
    """Whether the convolutions sum in the same orders: else other bits are right."""
    orders = [
        {
            (run.layer, choice.part): choice.chosen.order
            for run in each.runs()
            for choice in run.choices
        }
        for each in (changed, original)
    ]
    return orders[0] == orders[1]


def accepted(planned, random, wanted):
    """Changed plans that verify accepts: several changes on top of each other."""
    original = planned.plan
    steps = (Alloc(s.tensor) if isinstance(s, Alloc) else s for s in original.steps)
    bare = Plan(tuple(steps))
    found = 0
    while found < wanted:
        changed, kinds = bare, []
        for _ in range(random.randint(1, 40)):
            kind = random.choice(KINDS)
            made = CHANGES[kind](changed, random)
            if made is None:
                continue
            try:
                verify(made, planned.route)
            except InvalidPlan:
                continue
            changed = made
            kinds.append(kind)
        if kinds and same_orders(changed, original):
            found += 1
            yield kinds, place(changed)


def run_accepted(net, presets, each, seed):
    """Train by accepted mutants of a net's plans; counts the kinds of change."""
    random = Random(seed)
    baseline = ended(plan(net, preset="baseline"))
    counts = Counter()
    for preset in presets:
        planned = plan(net, preset=preset)
        for kinds, changed in accepted(planned, random, each):
            verify(changed, planned.route)
            what = f"{net.name}, {preset}: {', '.join(kinds)}"
            got = ended(replace(planned, plan=changed))
            assert_the_same_bits(got, baseline, what)
            counts.update(kinds)
    return counts


def test_accepted_mutants_train_to_the_bits_of_the_baseline():
    counts = run_accepted(FAMILIES["digits"](2), ("superneurons",), 4, seed=0)
    assert counts


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_so_do_those_of_every_family(family):
    counts = run_accepted(FAMILIES[family](2), ("offload", "cache"), 5, seed=1)
    assert len(counts) > 4


@pytest.mark.full
def test_five_hundred_accepted_mutants_train_to_the_bits_of_the_baseline():
    nets = [make(2) for make in FAMILIES.values()]
    nets += [random_net(seed) for seed in (3, 5, 8)]
    counts = Counter()
    number = 0
    for seed, net in enumerate(nets):
        counts += run_accepted(net, PRESETS, 13, seed)
        number += 13 * len(PRESETS)
    print(number, "mutants;", counts)
    assert number >= 500
    for kind in "copy added", "recomputation added", "tensor renamed", "run moved":
        assert counts[kind] > 20, kind
