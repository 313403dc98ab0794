"""Layers that run in parts of the batch: the bits are those of the whole batch."""

from dataclasses import replace

import pytest
from small_nets import FAMILIES

import snref
from snref.layers import (
    LRN,
    Add,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    Dropout,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.net import Net
from snref.nets import find, random_net
from snref.parts import cut, groups, route_in_parts
from snref.planning.planned import plan
from snref.plans import lower_bound
from snref.scheduler import PRESETS, schedule
from snref.scheduler.in_place import overwrite
from snref.timing import roofline

from .test_contract import assert_the_same_bits, ended

BATCH = 75  # no multiple of any slice


def all_that_split(batch):
    """Every layer that can run in parts, sums in slices of 4, 16 and 32 images."""
    net = Net("all that split")
    x = net.chain(
        net.input((batch, 3, 16, 16)),
        conv1=Conv(8, 3, padding=1),
        relu1=ReLU(),
        lrn1=LRN(size=3),
        pool1=MaxPool(2),
        drop1=Dropout(0.25),
    )
    left = net.chain(x, "left.", conv=Conv(4, 3, padding=1, groups=2), relu=ReLU())
    right = net.chain(x, "right.", conv=Conv(4, 1), pool=AveragePool(3, 1, 1))
    x = net.add("concat", Concat(), left, right)
    y = net.chain(x, "up.", pool=MaxPool(2), conv=ConvTranspose(8, 2, 2))
    x = net.add("add", Add(), x, y)
    x = net.chain(x, fc1=Linear(24), relu2=ReLU(), drop2=Dropout(), fc2=Linear(10))
    net.add("softmax", Softmax(), x)
    return net


OVER = {"original": "gradients", "lean": "gradients", "reuse": "activations"}
PRESETS_OF = {"original": "superneurons", "lean": "memory-centric", "reuse": "cache"}


def all_in_parts(net, parts):
    """A plan of a net of which every layer that can runs in so many parts."""
    whole = plan(net, preset="liveness")
    split = [(group, cut(net, group, parts)) for group in groups(net, parts)]
    route = route_in_parts(net, split)
    costs = roofline.costs(route, roofline.machine("k40c"))
    setting = OVER[net.declarations]
    options = replace(PRESETS[PRESETS_OF[net.declarations]], overwrite=setting)
    if options.transfers == "cache":  # as little memory as there can be
        least = lower_bound(overwrite(route, setting))
        options = replace(options, capacity=least, slab=least)
    names = [t.name for t in {t for run in route.runs() for t in run.touched}]
    assert len(names) == len({*names})  # as files need it
    made = schedule(route, options, costs)
    return replace(whole, route=route, plan=made, costs=costs, options=options)


def check_all(net, parts, baseline):
    for declarations in OVER:
        planned = all_in_parts(net.with_options(declarations), parts)
        found = ended(planned)
        assert_the_same_bits(found, baseline, f"{net.name}, {declarations}, {parts}")


@pytest.fixture(scope="module")
def baseline():
    return ended(plan(all_that_split(BATCH), preset="baseline"))


def test_every_layer_in_parts_ends_in_the_bits_of_the_baseline(baseline):
    net = all_that_split(BATCH)
    (group,) = groups(net, 2)
    assert [node.layer.loss for node in net.nodes if node not in group] == [True]
    assert cut(net, group, 3) == (32, 32, 11)
    check_all(net, 3, baseline)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 5, 19])
def test_so_do_few_parts_and_many(parts, baseline):
    check_all(all_that_split(BATCH), parts, baseline)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_so_do_parts_of_every_family(family):
    net = FAMILIES[family](34)
    check_all(net, 2, ended(plan(net, preset="baseline")))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_so_do_parts_of_random_nets(seed):
    net = random_net(seed).with_batch(34)
    check_all(net, 2, ended(plan(net, preset="baseline")))


def test_below_the_floor_a_net_trains_in_parts_to_the_same_bits(baseline):
    net = all_that_split(BATCH)
    least = plan(net, preset="joint", effort=0.05).total_bytes
    found = plan(net, preset="joint", memory=least - 100_000, effort=0.1)
    assert found.parts and found.total_bytes <= least - 100_000
    assert_the_same_bits(ended(found), baseline, found.parts)


@pytest.mark.slow
def test_a_training_in_parts_goes_on_whole_and_evaluates_alike(tmp_path):
    net = find("digits", 32).with_options(image_gradient=False)
    low = plan(net, preset="joint").total_bytes - 20_000
    file = tmp_path / "a.npz"
    first = snref.train("digits", preset="joint", memory=low, device="cpu", save=file)
    assert first.planned.parts
    resumed = snref.train("digits", epochs=2, device="cpu", resume=file)
    whole = snref.train("digits", epochs=2, device="cpu")
    assert (resumed.digest, resumed.accuracy) == (whole.digest, whole.accuracy)
    again = snref.train("digits", preset="baseline", device="cpu")
    assert (again.digest, again.accuracy) == (first.digest, first.accuracy)
