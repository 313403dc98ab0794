"""Plans as text: a chain and a fork, under every kind of preset.

A golden plan is a text file. After a change that is meant, look at the difference and
run ``python -m tests.scheduler.test_golden_plans`` to write the files anew.
"""

from pathlib import Path

import pytest

from snref.layers import LRN, Add, Conv, Linear, MaxPool, ReLU, Softmax
from snref.net import Net, route
from snref.scheduler import PRESETS, Options, schedule

GOLDEN = Path(__file__).parents[1] / "golden"


def chain() -> Net:
    """Two convolutions with their cheap layers."""
    net = Net("chain")
    x = net.input((2, 3, 8, 8))
    x = net.add("conv1", Conv(4, 3, padding=1), x)
    x = net.add("relu1", ReLU(), x)
    x = net.add("lrn1", LRN(), x)
    x = net.add("pool1", MaxPool(2), x)
    x = net.add("conv2", Conv(8, 3, padding=1), x)
    x = net.add("relu2", ReLU(), x)
    x = net.add("fc", Linear(10), x)
    net.add("softmax", Softmax(), x)
    return net


def fork() -> Net:
    """A residual block."""
    net = Net("fork")
    x = net.input((2, 3, 8, 8))
    x = net.add("conv1", Conv(4, 3, padding=1), x)
    x = net.add("relu1", ReLU(), x)
    y = net.add("conv2", Conv(4, 3, padding=1), x)
    y = net.add("relu2", ReLU(), y)
    x = net.add("add", Add(), y, x)
    x = net.add("fc", Linear(10), x)
    net.add("softmax", Softmax(), x)
    return net


PLANS = {
    f"{net.__name__}_{preset}": (net, options)
    for net, tight in ((chain, 6144), (fork, 6144))
    for preset, options in {
        "liveness": PRESETS["liveness"],
        "superneurons": PRESETS["superneurons"],
        "cache": Options(capacity=tight, slab=tight),
    }.items()
}


def text(name: str) -> str:
    net, options = PLANS[name]
    return f"{schedule(route(net()), options)}\n"


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_reads_as_it_did(name: str):
    assert text(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for name in PLANS:
        (GOLDEN / f"{name}.txt").write_text(text(name), encoding="utf-8", newline="\n")
