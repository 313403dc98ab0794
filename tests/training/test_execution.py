"""The executor does what a plan says, on every device there is, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from small_nets import FAMILIES, images_for

from snref.planning.planned import plan
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
    memory,
)
from snref.scheduler import PRESETS
from snref.training import Session, Settings, open_device
from snref.training.execution import execute

ROOM = 1024  # bytes of the tensors below, which are 256 numbers each
X, Y, Z = (Tensor(name, (256,)) for name in "xyz")
W = Tensor("w", (256,), "parameter")


def add(y, a, b):
    """y = a + b."""
    return Run("add", "forward", (Launch("joins.add", (y,), (a, b), view="flat"),))


def copy(y, x):
    return Run("copy", "forward", (Launch("joins.copy", (y,), (x,), view="flat"),))


@pytest.fixture
def numbers():
    return np.random.default_rng(0).standard_normal(256, np.float32)


def test_a_plan_with_a_trip_to_the_host_computes_what_it_says(device, numbers):
    there = open_device(device, 2 * ROOM, host=ROOM)
    w = there.resident(numbers)
    out = there.resident(np.zeros(256, np.float32))
    result = Tensor("result", (256,), "parameter")
    steps = (
        Alloc(X, 0),
        copy(X, W),
        Offload(X),
        Free(X),
        Alloc(Y, 0),  # where x was
        add(Y, W, W),
        Alloc(X, ROOM),
        Prefetch(X),
        add(result, X, Y),
        Free(X),
        Free(Y),
    )
    trace = execute(Plan(steps), there, {W: w, result: out})
    assert np.array_equal(there.read(out), numbers + (numbers + numbers))
    assert trace.nbytes == tuple(memory(Plan(steps), workspace=True))
    assert trace.peak == 2 * ROOM and there.in_use == 0
    assert len(trace.seconds) == len(steps)
    assert all(a <= b for a, b in zip(trace.seconds, trace.seconds[1:], strict=False))


def test_scalars_may_be_names(device, numbers):
    there = open_device(device, 0)
    w, v, dw = (there.resident(numbers * factor) for factor in (1, 0, 2))
    tensors = [Tensor(name, W.shape, W.kind) for name in ("w", "v", "dw")]
    launch = Launch(
        "sgd.update",
        tuple(tensors[:2]),
        tuple(tensors[2:]),
        ("rate", 0.0, 0.0),
        view="flat",
        updates=True,
    )
    step = Plan((Run("w", "update", (launch,)),))
    residents = dict(zip(tensors, (w, v, dw), strict=True))
    execute(step, there, residents, {"rate": 0.25})
    assert np.array_equal(there.read(w), numbers - np.float32(0.25) * (2 * numbers))
    with pytest.raises(KeyError, match="rate"):
        execute(step, there, residents)


def test_an_address_outside_the_slab_is_an_error(device):
    there = open_device(device, 2 * ROOM)
    for offset in (-256, ROOM + 256, 2 * ROOM):
        with pytest.raises(ValueError, match=f"x: 1024 bytes at {offset} do not fit"):
            execute(Plan((Alloc(X, offset),)), there, {})
    assert there.in_use == 0


def test_a_plan_that_is_not_placed_is_an_error(device):
    with pytest.raises(ValueError, match="x has no address yet"):
        execute(Plan((Alloc(X),)), open_device(device, ROOM), {})


def test_what_is_not_allocated_is_not_found(device, numbers):
    there = open_device(device, ROOM)
    with pytest.raises(KeyError):
        execute(Plan((copy(X, W),)), there, {W: there.resident(numbers)})


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("family", ["digits", "resnet"])
def test_a_device_counts_the_bytes_that_were_planned_and_loses_none(
    device, family, preset
):
    planned = plan(FAMILIES[family](2), preset=preset)
    session = Session(planned, images_for(planned.net), Settings(), device)
    for _ in range(2):
        session.iterate(np.arange(2))
    assert session.peak == max(memory(planned.plan, workspace=True))
    assert session.device.in_use == 0
    assert session.device.resident_bytes == sum(planned.resident.values())


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gpu_and_the_cpu_agree(device, family):
    net = FAMILIES[family](2)
    planned = plan(net, preset="superneurons")

    def state(device):
        session = Session(planned, images_for(net), Settings(0.001), device)
        session.iterate(np.arange(2))
        return session.losses, session.state()

    (losses, here), (expected, there) = state(device), state("cpu")
    assert losses == pytest.approx(expected, rel=1e-4)
    for key, array in here.items():
        np.testing.assert_allclose(array, there[key], rtol=1e-3, atol=1e-4, err_msg=key)


def test_no_plan_of_a_training_needs_more_of_the_host_than_it_may(device):
    net = FAMILIES["lenet"](8)
    planned = plan(net, preset="offload")
    most = planned.host_bytes
    assert most > 0
    limited = plan(net, preset="offload", host_memory=most)
    data = images_for(net, batches=2, held_out=13)
    smaller = replace(data, images=data.images[:13], labels=data.labels[:13])
    session = Session(limited, smaller, Settings(), device)
    session.run(1)
    assert session.device.host == most  # batches of 5 need no more
    with pytest.raises(OutOfMemory):
        plan(net, preset="offload", host_memory=most - 1)
