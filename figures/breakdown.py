"""SuperNeurons, figures 7 and 8: shares of time and memory by type of layer.

Bytes of data tensors, each counted for the layer that defines it, and modelled seconds
of forward and backward on a virtual K40c, without workspaces.

python -m figures breakdown --net densenet121 --batch 32
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Cell, Table
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.plans import Alloc
from snref.views import (
    BLUE,
    GREEN,
    GREY,
    INDIGO,
    ORANGE,
    PAGE,
    PURPLE,
    SKY,
    VERMILION,
    WINE,
)

NETS = {
    "alexnet": 200,
    "vgg16": 32,
    "resnet50": 32,
    "resnet101": 32,
    "inception_v4": 32,
}
COLOURS = {
    "Conv": BLUE,
    "Linear": SKY,
    "ReLU": VERMILION,
    "LRN": ORANGE,
    "BatchNorm": WINE,
    "MaxPool": GREEN,
    "AveragePool": GREEN,
    "Add": PURPLE,
    "Concat": PURPLE,
    "Fork": INDIGO,
}
PAPERS = {  # how the paper calls types: POOL+ACT+BN+LRN and DROPOUT+SOFTMAX+FC
    "POOL": ("MaxPool", "AveragePool"),
    "ACT": ("ReLU",),
    "BN": ("BatchNorm",),
    "LRN": ("LRN",),
    "DROPOUT": ("Dropout",),
    "SOFTMAX": ("Softmax",),
    "FC": ("Linear",),
}


def measure() -> list[dict[str, Any]]:
    """Return the rows of all nets."""
    return [row for name, batch in NETS.items() for row in measure_net(name, batch)]


def measure_net(name: str, batch: int | None) -> list[dict[str, Any]]:
    """Return a row for each type of layer of a net."""
    net = find(name, batch)
    planned = plan(net, preset="baseline", algorithms="none")
    types = {node.name: type(node.layer).__name__ for node in net.nodes}
    owners = {
        tensor.name: node.name
        for node in net.nodes
        for tensor in (*node.ys, *node.dxs, *node.scratch.values())
        if tensor is not None
    }
    nbytes: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for step in planned.plan.steps:
        if isinstance(step, Alloc) and step.tensor.is_data:
            nbytes[types[owners[step.tensor.name]]] += step.tensor.nbytes
    for run in planned.plan.runs():
        if run.phase != "update":
            seconds[types[run.layer]] += planned.costs.seconds(run)
    return [
        {
            "net": name,
            "batch": net.batch,
            "type": kind,
            "bytes": nbytes[kind],
            "modelled_seconds": round(seconds[kind], 6),
        }
        for kind in dict.fromkeys(types.values())
    ]


def _shares(rows: Sequence[dict[str, Any]], column: str) -> dict[str, dict[str, float]]:
    """Return for each net the percentage of each type."""
    totals: dict[str, float] = defaultdict(float)
    for row in rows:
        totals[row["net"]] += row[column]
    found: dict[str, dict[str, float]] = {net: {} for net in totals}
    for row in rows:
        found[row["net"]][row["type"]] = 100 * row[column] / totals[row["net"]]
    return found


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return both tables of shares."""
    tables = []
    for column, title in (
        ("bytes", "% of the bytes of data tensors"),
        ("modelled_seconds", "% of the modelled seconds, virtual K40c"),
    ):
        shares = _shares(rows, column)
        kinds = dict.fromkeys(row["type"] for row in rows)
        lines: list[tuple[Cell, ...]] = [
            (kind, *(f"{of_net.get(kind, 0):.1f}" for of_net in shares.values()))
            for kind in kinds
        ]
        tables.append(f"{title}\n\n{Table(('type', *shares), lines).text()}")
    return "\n\n".join(tables)


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw two bars a net, of memory and of time, divided by type of layer."""
    figure = Figure(figsize=(PAGE, 1.0 + 0.42 * len({row["net"] for row in rows})))
    panels = figure.subplots(1, 2, sharey=True)
    heads = ("% of data tensors", "% of seconds (model, virtual K40c)")
    for axes, column, head in zip(
        panels, ("bytes", "modelled_seconds"), heads, strict=True
    ):
        shares = _shares(rows, column)
        names = [f"{row['net']} b{row['batch']}" for row in rows]
        ends = dict.fromkeys(dict.fromkeys(names), 0.0)
        for row, name in zip(rows, names, strict=True):
            share = shares[row["net"]][row["type"]]
            axes.barh(
                name,
                share,
                left=ends[name],
                height=0.7,
                color=COLOURS.get(row["type"], GREY),
                edgecolor="white",
                linewidth=0.4,
            )
            if share > 8:
                axes.text(
                    ends[name] + share / 2,
                    name,
                    f"{share:.0f}",
                    ha="center",
                    va="center",
                    color="white",
                    fontsize=6.5,
                )
            ends[name] += share
        axes.set_xlabel(head)
        axes.set_xlim(0, 100)
    panels[0].invert_yaxis()
    present = dict.fromkeys(row["type"] for row in rows)
    by_colour: dict[str, list[str]] = {}
    for kind in present:
        by_colour.setdefault(COLOURS.get(kind, GREY), []).append(kind)
    handles = [
        panels[0].barh(0, 0, color=colour, label=_joined(kinds))
        for colour, kinds in by_colour.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6)
    return figure


def _joined(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) if len(kinds) < 4 else "others"


def caption(rows: Sequence[dict[str, Any]]) -> str:
    cheap = _of_types(_shares(rows, "bytes"), "POOL+ACT+BN+LRN")
    short = _of_types(_shares(rows, "modelled_seconds"), "POOL+ACT+BN+LRN")
    return (
        f"Pooling, ReLU, batch norm and LRN hold {_span(cheap)} % of the data tensors "
        f"and take {_span(short)} % of the modelled seconds: so they are computed "
        "again, and not copied."
    )


def _span(shares: dict[str, float]) -> str:
    """Say from where to where percentages are."""
    ends = (f"{end:.0f}" for end in (min(shares.values()), max(shares.values())))
    return " to ".join(dict.fromkeys(ends))


def _of_types(shares: dict[str, dict[str, float]], types: str) -> dict[str, float]:
    """Return for each net the percentage of types, in the paper's names with "+"."""
    wanted = [kind for name in types.split("+") for kind in PAPERS[name]]
    return {
        net: sum(of_net.get(kind, 0) for kind in wanted)
        for net, of_net in shares.items()
    }


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare with the paper's shares, of each net."""
    columns = {"share of memory": "bytes", "share of time": "modelled_seconds"}
    claims = []
    for number in numbers(item="shares by layer type"):
        found = _of_types(_shares(rows, columns[number.what]), number.plan)
        for net, share in found.items():
            claim = number.beside(share)
            claims.append(replace(claim, what=f"{net} {claim.what}"))
    return claims
