"""What training starts from: the distributions of weights, and the first loss."""

from math import log, sqrt

import numpy as np
import pytest
from small_nets import FAMILIES, images_for

from snref.layers import (
    BatchNorm,
    Concat,
    Conv,
    ConvTranspose,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.net import Net
from snref.nets import find, lenet
from snref.planning.planned import plan
from snref.training import Session, Settings, train
from snref.training.parameters import initial

CLOSE = 0.03  # relative, of the deviation of some ten thousand numbers


def arrays(net, seed=0, init="he"):
    """The initial values by the names of their tensors."""
    return {t.name: array for t, array in initial(net, seed, init).items()}


def branches():
    """Weights before a ReLU, behind what passes it on, and before other weights."""
    net = Net("branches")
    x = net.add("plain", Conv(64, 3, padding=1), net.input((2, 32, 8, 8)))
    x = net.add("pool1", MaxPool(2), x)
    a = net.add("passed", Conv(64, 3, padding=1, groups=2), x)
    a = net.add("bn", BatchNorm(), a)
    b = net.add("other", Conv(64, 3, padding=1), x)
    x = net.add("concat", Concat(), a, b)
    x = net.add("relu", ReLU(), x)
    x = net.add("hidden", Linear(256), x)
    net.add("softmax", Softmax(), net.add("scores", Linear(100), x))
    return net


@pytest.mark.parametrize(
    ("name", "gain", "fan_in"),
    [
        ("plain", 1, 32 * 9),
        ("passed", sqrt(2), 32 * 9),
        ("other", sqrt(2), 64 * 9),
        ("hidden", 1, 128 * 16),
        ("scores", 0.1, 256),
    ],
)
def test_what_follows_decides_the_gain_of_weights(name, gain, fan_in):
    w = arrays(branches())[f"{name}.w"]
    assert w.std() * sqrt(fan_in) == pytest.approx(gain, rel=CLOSE)
    assert abs(w.mean()) < CLOSE * w.std()


def test_xavier_counts_inputs_and_outputs_and_lecun_inputs():
    w = arrays(branches(), init="xavier")["passed.w"]
    most = sqrt(6 / (32 * 9 + 32 * 9))  # of two groups
    assert w.std() == pytest.approx(most / sqrt(3), rel=CLOSE)
    assert most * (1 - CLOSE) < np.abs(w).max() <= most
    w = arrays(branches(), init="lecun")["passed.w"]
    assert w.std() == pytest.approx(sqrt(1 / (32 * 9)), rel=CLOSE)


def test_pytorchs_default_is_pytorchs():
    torch = pytest.importorskip("torch")
    ours = arrays(branches(), init="pytorch")
    torch.manual_seed(0)
    for name, theirs in {
        "passed": torch.nn.Conv2d(64, 64, 3, groups=2),
        "hidden": torch.nn.Linear(128 * 16, 256),
    }.items():
        w, b = theirs.weight.detach().numpy(), theirs.bias.detach().numpy()
        assert ours[f"{name}.w"].shape == w.shape
        assert ours[f"{name}.w"].std() == pytest.approx(w.std(), rel=CLOSE)
        assert np.abs(ours[f"{name}.w"]).max() == pytest.approx(
            np.abs(w).max(), rel=CLOSE
        )
        assert ours[f"{name}.b"].std() == pytest.approx(b.std(), rel=0.2)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_transposed_convolution_keeps_the_variance_of_its_input(stride):
    net = Net("up")
    x = net.add("up", ConvTranspose(16, 2, stride), net.input((2, 64, 16, 16)))
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    session = Session(plan(net, preset="baseline"), images_for(net), Settings(), "cpu")
    iteration, data = session._training[2], session.data
    iteration._begin(data.images, data.labels, session._values())
    y = session.device.read(iteration._execution.buffers[net.nodes[0].y])
    iteration._end(session._values())
    assert y[:, :, 1:-1, 1:-1].std() == pytest.approx(1, rel=0.1)


def test_the_rest_is_zero_but_for_the_scales_and_variances_of_normalization():
    found = arrays(branches())
    for name, array in found.items():
        ones = name.endswith((".gamma", "running_variance"))
        if array.ndim < 2 or "momentum" in name or ".d" in name:
            assert (array == ones).all(), name
    assert {name for name in found if (found[name] == 1).all()} == {
        "bn.gamma",
        "bn.running_variance",
    }


def test_weights_are_a_function_of_seed_and_initialisation():
    first, again, other = (arrays(lenet(2), seed)["fc3.w"] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert not np.array_equal(first, arrays(lenet(2), 1, "xavier")["fc3.w"])


@pytest.mark.parametrize("init", ["she", None])
def test_an_initialisation_that_is_not_there_is_refused(init):
    with pytest.raises(ValueError, match="init"):
        initial(lenet(2), 0, init)


# The first loss


def first_loss(net, seed=0):
    """The loss before any update, of random images."""
    planned = plan(net.with_options(image_gradient=False), preset="liveness")
    session = Session(planned, images_for(net), Settings(), "cpu", seed=seed)
    return session.iterate(np.arange(net.batch))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_net_begins_near_the_loss_of_guessing(family):
    for seed in range(3):
        loss = first_loss(FAMILIES[family](16), seed)
        assert loss == pytest.approx(log(10), rel=1 / 3), seed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("alexnet", 67),
        ("vgg16", 32),
        ("resnet50", 32),
        ("inception_v4", 75),
        ("densenet121", 32),
    ],
)
def test_so_does_a_net_of_the_papers(name, size):
    loss = first_loss(find(name, 4, size))
    print(f"\n{name} at {size}: {loss:.3f}, ln 1000 = {log(1000):.3f}")
    assert loss == pytest.approx(log(1000), rel=1 / 3)


def test_lenet_trains_at_a_rate_at_which_it_became_infinite():
    net = lenet(32)
    settings = Settings(0.02)
    losses = train(
        net, data="synthetic", epochs=6, settings=settings, device="cpu"
    ).losses
    assert losses[-1] < 0.5 * losses[0]
