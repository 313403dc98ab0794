"""Which steps wait for which, and where copies lie on the host: without a device."""

import random

import pytest
from small_nets import FAMILIES

from snref.device.host import place_on_host
from snref.device.order import Order, ordered, stream_of
from snref.nets import random_net
from snref.planning.planned import plan
from snref.plans import Alloc, Offload, Prefetch, Run, Tensor, host_memory, lower_bound


def before(steps, order):
    """Return the positions that are over before each step begins, as sets.

    By its definition: what is earlier in the same stream, what is waited for, and what
    was over before those.
    """
    over, latest = [], {}
    for position, step in enumerate(steps):
        mine = set()
        for earlier in (*order.waits[position], latest.get(stream_of(step))):
            if earlier is not None:
                mine |= over[earlier] | {earlier}
        over.append(mine)
        if isinstance(step, (Run, Offload, Prefetch)):
            latest[stream_of(step)] = position
    return over


def conflicts(steps, pieces):
    """Yield the pairs of positions that use the same bytes, one of them writing."""
    places, used = {}, []
    for position, step in enumerate(steps):
        match step:
            case Alloc(tensor, offset):
                places[tensor] = offset, offset + tensor.aligned_bytes
                continue
            case Run():
                writes = {*step.writes, *step.workspaces}
                mine = [("slab", *places[t], t in writes) for t in step.touched]
            case Offload(tensor) | Prefetch(tensor):
                out = isinstance(step, Offload)
                mine = [("slab", *places[tensor], not out)]
                mine += [("host", a, a + n, out) for a, n in pieces[step]]
            case _:
                continue
        for earlier, theirs in used:
            if any(
                a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and (a[3] or b[3])
                for a in mine
                for b in theirs
            ):
                yield earlier, position
        used.append((position, mine))


def small_plans():
    """Yield plans with copies, of small and of random nets."""
    nets = [make(2) for make in FAMILIES.values()] + [random_net(i) for i in range(6)]
    for net in nets:
        for preset in ("offload", "superneurons"):
            yield plan(net, preset=preset).plan
        free = plan(net, preset="cache")
        least = sum(free.resident.values()) + lower_bound(free.plan)
        yield plan(net, preset="cache", memory=least).plan


PLANS = tuple(small_plans())


def test_no_step_runs_beside_one_that_uses_the_same_bytes():
    pairs = 0
    for made in PLANS:
        pieces = place_on_host(made.steps).pieces
        over = before(made.steps, ordered(made.steps, pieces))
        for earlier, later in conflicts(made.steps, pieces):
            assert earlier in over[later], (made.steps[earlier], made.steps[later])
            pairs += 1
    assert pairs > 1000


def test_a_copy_waits_for_all_that_was_computed_before_it():
    for made in PLANS:
        over = before(made.steps, ordered(made.steps, place_on_host(made.steps).pieces))
        runs = set()
        for position, step in enumerate(made.steps):
            if isinstance(step, Run):
                runs.add(position)
            elif isinstance(step, (Offload, Prefetch)):
                assert runs <= over[position]


def test_no_wait_is_implied_by_the_others():
    waits = 0
    for made in PLANS:
        order = ordered(made.steps, place_on_host(made.steps).pieces)
        full = before(made.steps, order)
        for position, given in enumerate(order.waits):
            for wait in given:
                fewer = list(order.waits)
                fewer[position] = tuple(w for w in given if w != wait)
                assert before(made.steps, Order(tuple(fewer), ())) != full
                waits += 1
    assert waits > 100


def test_whoever_computes_after_a_plan_waits_for_its_copies():
    for made in PLANS:
        order = ordered(made.steps, place_on_host(made.steps).pieces)
        over = before(made.steps, order)
        runs = [i for i, step in enumerate(made.steps) if isinstance(step, Run)]
        known = over[runs[-1]].union(*(over[i] | {i} for i in order.last))
        copies = {
            i for i, s in enumerate(made.steps) if isinstance(s, (Offload, Prefetch))
        }
        assert copies <= known


@pytest.mark.parametrize("made", PLANS[::3])
def test_the_host_holds_what_the_plan_says_and_no_two_values_in_the_same_bytes(made):
    placed = place_on_host(made.steps)
    assert list(placed.in_use) == host_memory(made)
    held = {}
    for step in made.steps:
        if isinstance(step, Offload):
            held[step.tensor] = placed.pieces[step]
        if isinstance(step, Prefetch):
            assert placed.pieces[step] == held[step.tensor]
    for step, pieces in placed.pieces.items():
        assert sum(n for _, n in pieces) == step.tensor.nbytes
        assert all(a >= 0 and a + n <= placed.nbytes for a, n in pieces)


def test_bytes_of_the_host_are_used_again_in_pieces():
    draw = random.Random(0)
    sizes = [draw.randrange(1, 40) for _ in range(60)]
    tensors = [Tensor(f"t{i}", (n,)) for i, n in enumerate(sizes)]
    steps, there = [], []
    for tensor in tensors:
        steps.append(Offload(tensor))
        there.append(tensor)
        while len(there) > draw.randrange(1, 8):
            steps.append(Prefetch(there.pop(draw.randrange(len(there)))))
    steps += map(Prefetch, there)
    placed = place_on_host(steps)
    assert any(len(pieces) > 1 for pieces in placed.pieces.values())
    alive = {}
    for step in steps:
        if isinstance(step, Offload):
            for other in alive.values():
                for a, n in placed.pieces[step]:
                    assert all(a + n <= b or b + m <= a for b, m in other)
            alive[step.tensor] = placed.pieces[step]
        else:
            assert alive.pop(step.tensor) == placed.pieces[step]
    tops = [a + n for pieces in placed.pieces.values() for a, n in pieces]
    assert max(tops) == placed.nbytes == max(placed.in_use)
