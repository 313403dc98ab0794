"""Images a second of whole training iterations on the CPU device, beside PyTorch.

The same net, batch and optimizer, one thread each, taking turns in one run; the best of
several rounds. Ours runs under the preset superneurons, and checks the bytes of every
step. Nothing here is a test: a rate is a fact about a machine.

python -m figures training --measure long
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from snref.data import load
from snref.layers import Conv, Dropout, Linear, MaxPool, ReLU, Softmax
from snref.net import Net
from snref.nets import lenet
from snref.planning.planned import plan
from snref.training import Session, Settings
from snref.views import BLUE, COLUMN, GREY

BATCHES = (16, 64)
ROUNDS = 7
ITERATIONS = 5  # of a round


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row a batch and framework: LeNet on images of 28 x 28.

    All are measured in one run. So none is if there are rows.
    """
    if rows:
        return
    for batch in BATCHES:
        contestants = {"snref": ours(lenet(batch)), "PyTorch": pytorchs(lenet(batch))}
        best = dict.fromkeys(contestants, float("inf"))
        for iterate in contestants.values():
            iterate()  # compiles
        for _ in range(ROUNDS):
            for name, iterate in contestants.items():
                start = perf_counter()
                for _ in range(ITERATIONS):
                    iterate()
                best[name] = min(best[name], perf_counter() - start)
        for name, seconds in best.items():
            yield {
                "net": "lenet",
                "batch": batch,
                "framework": name,
                "images_per_second": round(batch * ITERATIONS / seconds, 1),
                "to_pytorch": round(best["PyTorch"] / seconds, 3),
                "threads": 1,
                "machine": platform.machine(),
            }


def ours(net: Net) -> Callable[[], float]:
    """An iteration of ours, on one thread, as ``snref train`` runs it."""
    net = net.with_options(image_gradient=False)
    data = load("synthetic", image_shape=net.input_shape[1:], count=net.batch)
    planned = plan(net, preset="superneurons")
    session = Session(planned, data, Settings(), "cpu", threads=1)
    indices = np.arange(net.batch)
    return lambda: session.iterate(indices)


def pytorchs(net: Net) -> Callable[[], float]:
    """The same in PyTorch, of a net that is a chain."""
    import torch

    torch.set_num_threads(1)
    data = load("synthetic", image_shape=net.input_shape[1:], count=net.batch)
    images = torch.from_numpy(data.images)
    labels = torch.from_numpy(data.labels).long()
    settings = Settings()
    model = torch.nn.Sequential(*_modules(net))
    descent = torch.optim.SGD(
        model.parameters(),
        settings.learning_rate,
        settings.momentum,
        weight_decay=settings.weight_decay,
    )
    loss_of = torch.nn.CrossEntropyLoss()

    def iterate() -> float:
        descent.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        descent.step()
        return float(loss.item())

    return iterate


def _modules(net: Net) -> list[Any]:
    from torch import nn

    modules: list[Any] = []
    for node in net.nodes:
        x, layer = node.x.shape, node.layer
        match layer:
            case Conv(filters, kernel, stride, padding):
                modules.append(nn.Conv2d(x[1], filters, kernel, stride, padding))
            case Linear(width):
                flat = int(np.prod(x[1:]))
                modules += [nn.Flatten(), nn.Linear(flat, width)]
            case ReLU():
                modules.append(nn.ReLU())
            case MaxPool(kernel, stride):
                modules.append(nn.MaxPool2d(kernel, stride))
            case Dropout(ratio):
                modules.append(nn.Dropout(ratio))
            case Softmax():
                pass  # of the loss
            case _:
                raise TypeError(f"{node.name}: {type(layer).__name__}")
    return modules


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Bars side by side, a pair a batch."""
    figure = Figure(figsize=(COLUMN, 2.2))
    axes = figure.subplots()
    batches = list(dict.fromkeys(row["batch"] for row in rows))
    names = list(dict.fromkeys(row["framework"] for row in rows))
    for number, (name, colour) in enumerate(zip(names, (BLUE, GREY), strict=True)):
        rates = [row["images_per_second"] for row in rows if row["framework"] == name]
        places = [i + 0.4 * (number - 0.5) for i in range(len(batches))]
        bars = axes.bar(places, rates, width=0.38, color=colour, label=name)
        axes.bar_label(bars, fmt="%.0f", padding=1, fontsize=6.5)
    axes.set_xticks(range(len(batches)), [f"batch {batch}" for batch in batches])
    axes.set_ylabel("images a second, one thread")
    axes.set_title(f"{rows[0]['net']}, iterations of training")
    axes.legend(loc="upper left", ncols=2)
    axes.set_ylim(top=1.2 * max(row["images_per_second"] for row in rows))
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    said = ", ".join(
        f"{row['to_pytorch']:.2f} at batch {row['batch']}"
        for row in rows
        if row["framework"] == "snref"
    )
    return (
        f"Training {rows[0]['net']} on the CPU device, one thread, with every step's "
        f"bytes checked: times PyTorch's speed in the same run, {said}."
    )
