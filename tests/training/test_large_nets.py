"""The papers' nets, each a whole iteration of real kernels, beside PyTorch.

The tolerance is PyTorch's own: float32 there and here are both compared with float64.
"""

import time

import numpy as np
import pytest
from small_nets import FAMILIES, images_for
from torch_reference import torch_gradients, worst_error

from snref.nets import find, random_net
from snref.planning.planned import plan
from snref.plans import memory
from snref.training import Session, Settings
from snref.training.parameters import initial

TIMES_TORCH = 10  # error beside that of PyTorch's float32
FLOOR = 1e-5  # of a relative error, below which nothing is compared
SEED = 3

LARGE = {
    "alexnet": 2,
    "vgg16": 1,
    "resnet50": 1,
    "inception_v4": 1,
    "densenet121": 1,
}


def gradients_of(session):
    """By the names of their parameters."""
    return {
        node.parameters[key].name: session.device.read(session.residents[dw.name])
        for node in session.planned.net.nodes
        for key, dw in node.parameter_gradients.items()
    }


def everything_held(net, data):
    """An iteration under the baseline: its gradients, and all activations."""
    session = Session(
        plan(net, preset="baseline"), data, Settings(0.01), "cpu", seed=SEED
    )
    iteration = session._training[net.batch]
    iteration._begin(data.images, data.labels, session._values())
    execution = iteration._execution
    held = {
        tensor: session.device.read(execution.buffers[tensor])
        for tensor in net.tensors("activation", "input")
    }
    iteration._end(session._values())
    return gradients_of(session), held


def check(net, preset):
    """An iteration under a preset; says how long it took, and how exact it was."""
    start = time.perf_counter()
    planned = plan(net, preset=preset)
    data = images_for(net)
    session = Session(planned, data, Settings(0.01), "cpu", seed=SEED)
    began = time.perf_counter()
    loss = session.iterate(np.arange(net.batch))
    taken = time.perf_counter() - began
    assert session.peak == max(memory(planned.plan, workspace=True))
    assert session.device.in_use == 0
    gradients = gradients_of(session)
    del session
    baseline, activations = everything_held(net, data)
    for name, gradient in gradients.items():
        assert gradient.tobytes() == baseline[name].tobytes(), name
    parameters = {
        tensor.name: array
        for tensor, array in initial(net, SEED).items()
        if tensor.kind == "parameter"
    }
    given = (net, parameters, data.images, data.labels, activations, SEED)
    exact_loss, exact = torch_gradients(*given, double=True)
    their_loss, theirs = torch_gradients(*given, double=False)
    assert gradients.keys() == exact.keys()
    ours, name = worst_error(gradients, exact)
    torchs, _ = worst_error(theirs, exact)
    peak = max(memory(planned.plan, workspace=True))
    print(
        f"\n{net.name}, batch {net.batch}, {preset}: {peak:,} bytes at most, "
        f"{taken:.1f} s an iteration with compiling, "
        f"{time.perf_counter() - start:.1f} s in all; "
        f"relative error {ours:.1e} ({name}), PyTorch's {torchs:.1e}"
    )
    assert ours <= TIMES_TORCH * torchs + FLOOR, name
    scale = abs(exact_loss)
    error, torch_error = abs(loss - exact_loss), abs(their_loss - exact_loss)
    assert error / scale <= TIMES_TORCH * torch_error / scale + FLOOR


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_net_has_pytorchs_gradients(family):
    check(FAMILIES[family](4), "superneurons")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("declarations", ["original", "lean"])
def test_random_nets_have_pytorchs_gradients(seed, declarations):
    check(random_net(seed, batch=4).with_options(declarations), "baseline")


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_net_has_the_planned_peak_and_pytorchs_gradients(name):
    check(find(name, LARGE[name]), "superneurons")
