"""Shirahata et al., MLSP 2016: what gradients over activations save, over the batch.

The preset reuse beside Caffe, which the paper changed. Counted of Caffe: the input; for
each layer but ReLU and dropout, which work in place, its output and a gradient as
large; parameters, their gradients and, where it says so, momentum. Its side blobs, as
masks and indices of max pooling, are left out. Counted of reuse: everything on the
device, with the addresses of a plan.

Two rules: by size, as the preset has it (the patent of July 2016); and dw first in all
layers, into one region (the patent of November 2016). The paper's net, batch and rule
of counting are not known, so its 44.7 % is a band in the picture, and no target.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.layers import Dropout, Linear, ReLU
from snref.layers.base import Node
from snref.net import Net
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.planning.fit import largest
from snref.views import PAGE, colour

NETS = {"vgg16": 224, "vgg19": 224, "alexnet": 227}  # and the size of an image
BATCHES = (16, 32, 64, 100, 128, 256)
CUSTOMARY = {"vgg16": 32, "alexnet": 256}  # batches whose numbers stand beside claims
BY_SIZE, DW_FIRST = "by size", "dw first"
MOMENTUM, PLAIN = "momentum", "no momentum"
MEMORY = 12 * 2**30
MIB = 2**20
BAND = 0.5  # percent, either side of 44.7: as wide as a line that can be seen


class DwFirst(Linear):
    """A fully connected layer that has a dw though w is larger than x."""

    def descends_at_once(self, node: Node) -> bool:
        return False


def measure() -> list[dict[str, Any]]:
    """Return a row for each net, rule, optimizer and batch."""
    return [
        _row(name, batch, rule, optimizer, most)
        for name in NETS
        for rule in (BY_SIZE, DW_FIRST)
        for optimizer in (MOMENTUM, PLAIN)
        for most in [_most(name, rule, optimizer)]
        for batch in BATCHES
    ]


def _row(
    name: str, batch: int, rule: str, optimizer: str, most: tuple[int, int]
) -> dict[str, Any]:
    theirs, ours = _caffe(name, batch, optimizer), _reuse(name, batch, rule, optimizer)
    return {
        "net": name,
        "rule": rule,
        "optimizer": optimizer,
        "batch": batch,
        "caffe_bytes": theirs,
        "reuse_bytes": ours,
        "saved_percent": round(100 * (1 - ours / theirs), 2),
        "caffe_largest": most[0],
        "reuse_largest": most[1],
    }


def _caffe(name: str, batch: int, optimizer: str) -> int:
    """Return the bytes of Caffe's blobs, as they are counted here."""
    net = find(name, batch, NETS[name])
    kept = [n.y.nbytes for n in net.nodes if not isinstance(n.layer, ReLU | Dropout)]
    images = sum(tensor.nbytes for tensor in net.tensors("input"))
    parameters = sum(tensor.nbytes for tensor in net.tensors("parameter"))
    return images + 2 * sum(kept) + (2 + (optimizer == MOMENTUM)) * parameters


def _reuse(name: str, batch: int, rule: str, optimizer: str) -> int:
    """Return the bytes of a plan of reuse, in all."""
    net = find(name, batch, NETS[name])
    planned = plan(_with_dw(net) if rule == DW_FIRST else net, preset="reuse")
    momentum = planned.resident["momentum"]
    return planned.total_bytes - (0 if optimizer == MOMENTUM else momentum)


def _with_dw(net: Net) -> Net:
    """Return a chain of layers whose fully connected ones all have a dw."""
    made = Net(net.name)
    x = made.input(net.input_shape)
    for node in net.nodes:
        layer = node.layer
        if isinstance(layer, Linear):
            layer = DwFirst(layer.outputs, layer.bias)
        x = made.add(node.name, layer, x)
    return made


def _most(name: str, rule: str, optimizer: str) -> tuple[int, int]:
    """Return the largest batches in 12 GiB: Caffe's, and that of reuse."""
    return (
        largest(lambda n: _caffe(name, n, optimizer) <= MEMORY, 2**14),
        largest(lambda n: _reuse(name, n, rule, optimizer) <= MEMORY, 2**14),
    )


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the percentages, a column a batch, and the batches that 12 GiB hold."""
    lines = []
    for name, rule, optimizer in _curves(rows):
        points = _curve(rows, name, rule, optimizer)
        theirs, ours = points[0]["caffe_largest"], points[0]["reuse_largest"]
        saved = (row["saved_percent"] for row in points)
        lines.append((name, rule, optimizer, *saved, theirs, ours, ours / theirs))
    heads = ("net", "rule", "counting", *(f"% at {batch}" for batch in BATCHES))
    fits = "Caffe in 12 GiB", "reuse", "times"
    return Table((*heads, *fits), lines).text()


def _curves(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    keys = ((row["net"], row["rule"], row["optimizer"]) for row in rows)
    return [*dict.fromkeys(keys)]


def _curve(
    rows: Sequence[dict[str, Any]], name: str, rule: str, optimizer: str
) -> list[dict[str, Any]]:
    key = name, rule, optimizer
    return [r for r in rows if (r["net"], r["rule"], r["optimizer"]) == key]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw for each net what is saved over the batch, and the papers' numbers."""
    figure = Figure(figsize=(PAGE, 2.5))
    panels = figure.subplots(1, len(NETS), sharey=True)
    colours = {BY_SIZE: colour("reuse"), DW_FIRST: colour("offload")}
    (vgg,), (alexnet,) = numbers(item="abstract", unit="%"), numbers(item="press")
    for axes, name in zip(panels, NETS, strict=True):
        for _, rule, optimizer in (c for c in _curves(rows) if c[0] == name):
            points = _curve(rows, name, rule, optimizer)
            axes.plot(
                [row["batch"] for row in points],
                [row["saved_percent"] for row in points],
                "o",
                linestyle="-" if optimizer == MOMENTUM else ":",
                color=colours[rule],
                label=f"{rule}, {optimizer}",
            )
        low, high, said = vgg.value - BAND, vgg.value + BAND, f"VGG: {vgg.value} %"
        under = high  # the words stand where no curve is
        if name == alexnet.net:
            low, high, said = alexnet.value, 50, f"over {alexnet.value:.0f} %"
            under = low
        axes.axhspan(low, high, color="#e6e6e6", zorder=0)
        axes.text(BATCHES[0], under + 0.4, said, va="bottom", color="#666666")
        axes.set_xscale("log", base=2)
        labels = ["" if batch == 100 else str(batch) for batch in BATCHES]
        axes.set_xticks(BATCHES, labels)  # 100 is too near 128
        axes.minorticks_off()
        axes.set_title(f"{name}, {NETS[name]} pixels")
        axes.set_xlabel("batch")
    panels[0].set_ylim(15, 52)
    panels[0].set_ylabel("% of Caffe's bytes saved")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    def spread(name: str, rule: str) -> str:
        saved = [row["saved_percent"] for row in _curve(rows, name, rule, MOMENTUM)]
        return f"{min(saved):.1f} to {max(saved):.1f} %"

    return (
        "Of Caffe's bytes, momentum counted, reuse saves "
        f"{spread('vgg16', BY_SIZE)} on VGG-16 and {spread('alexnet', BY_SIZE)} on "
        f"AlexNet; with dw first in all layers {spread('vgg16', DW_FIRST)} and "
        f"{spread('alexnet', DW_FIRST)}. Which batch and rule of counting give the "
        "paper's 44.7 % it does not say."
    )


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare by the rule by size with momentum, at a batch of the time."""
    claims = []
    for number in numbers(paper="reuse"):
        batch = CUSTOMARY[number.net]
        points = _curve(rows, number.net, BY_SIZE, MOMENTUM)
        (row,) = (row for row in points if row["batch"] == batch)
        times = row["reuse_largest"] / row["caffe_largest"]
        claims.append(number.beside(row["saved_percent"] if number.unit else times))
    return claims
