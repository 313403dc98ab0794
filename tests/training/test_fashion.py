"""LeNet on Fashion-MNIST: the accuracy of ``snref train``, and of PyTorch beside it.

Both start from the same weights and see the same batches. They differ only in rounding,
whose effect grows with every iteration, so that means over seeds are compared.
"""

import argparse
from pathlib import Path

import numpy as np
import pytest

from snref.commands import train as verb
from snref.data import load
from snref.nets import lenet
from snref.training import Settings, train
from snref.training.parameters import initial

FASHION = Path("/usr/share/datasets/fashion-mnist")
EPOCHS = 2
BATCH = 32  # the command's default
SEEDS = range(5)


def test_these_are_the_defaults_of_the_command():
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    parsed = parser.parse_args(["lenet"])
    assert verb._settings(parsed, None) == (Settings(), verb.EPOCHS)
    assert verb.built("lenet").batch == BATCH
    assert (parsed.seed, parsed.init, parsed.algorithms) == (None, None, None)


def ours(seed, data):
    """Return the accuracy after two epochs with the defaults of the command."""
    trained = train(
        "lenet", data=data, epochs=EPOCHS, seed=seed, device="cpu", memory="9MB"
    )
    return trained.accuracy


def theirs(seed, data):
    """Return the accuracy of the same net in PyTorch, from the same weights."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    net = lenet(BATCH)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )
    weights = [a for t, a in initial(net, seed).items() if t.kind == "parameter"]
    with torch.no_grad():
        for parameter, array in zip(model.parameters(), weights, strict=True):
            assert parameter.shape == array.shape
            parameter.copy_(torch.from_numpy(array))
    settings = Settings()
    descent = torch.optim.SGD(
        model.parameters(),
        settings.learning_rate,
        settings.momentum,
        weight_decay=settings.weight_decay,
    )
    images = torch.from_numpy(data.images)
    labels = torch.from_numpy(data.labels.astype(np.int64))
    for epoch in range(EPOCHS):
        for indices in data.batches(BATCH, seed, epoch):
            descent.zero_grad()
            nn.functional.cross_entropy(
                model(images[indices]), labels[indices]
            ).backward()
            descent.step()
    with torch.no_grad():
        found = model(torch.from_numpy(data.test_images)).argmax(1).numpy()
    return float((found == data.test_labels).mean())


@pytest.mark.full
@pytest.mark.skipif(not FASHION.is_dir(), reason="dataset-fashion-mnist not installed")
def test_the_mean_of_five_seeds_is_within_half_a_point_of_pytorchs():
    data = load(FASHION)
    left, right = (np.array([f(s, data) for s in SEEDS]) for f in (ours, theirs))
    print(
        f"\nours {np.round(100 * left, 2)}, mean {100 * left.mean():.2f} %; "
        f"PyTorch {np.round(100 * right, 2)}, mean {100 * right.mean():.2f} %"
    )
    assert abs(left.mean() - right.mean()) <= 0.005
    assert left.min() >= 0.86
