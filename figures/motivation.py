"""SuperNeurons, figure 2: what nets need with everything held, and what workspaces buy.

AlexNet at batch 200, the others at 32: data tensors, parameters with gradient and
momentum, and the largest workspace of the fastest algorithms. The speed-up that these
bring is modelled on a virtual K40c, in memory without limit.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.nets import find
from snref.planning import plan
from snref.views import BLUE, GREY, ORANGE, PAGE, VERMILION

NETS = {
    "alexnet": 200,
    "vgg16": 32,
    "resnet50": 32,
    "resnet101": 32,
    "resnet152": 32,
    "inception_v4": 32,
}
ENDLESS = 1 << 62  # bytes
GIB = 2**30
PARTS = {
    "data_bytes": ("data tensors", BLUE),
    "parameter_bytes": ("parameters, gradients, momentum", GREY),
    "workspace_bytes": ("largest workspace", ORANGE),
}


def measure() -> list[dict[str, Any]]:
    """Plan each net without and with workspaces, in memory without limit."""
    rows = []
    for name, batch in NETS.items():
        net = find(name, batch)
        slow, fast = (
            plan(net, preset="liveness", algorithms=algorithms, memory=ENDLESS)
            for algorithms in ("none", "fastest")
        )
        resident = fast.resident
        rows.append(
            {
                "net": name,
                "batch": batch,
                "data_bytes": fast.baseline_bytes,
                "parameter_bytes": sum(resident.values()) - resident["input"],
                "workspace_bytes": fast.workspace_peak_bytes,
                "modelled_seconds_none": round(slow.timeline.seconds, 6),
                "modelled_seconds_fastest": round(fast.timeline.seconds, 6),
                "speed_up": round(slow.timeline.seconds / fast.timeline.seconds, 3),
            }
        )
    return rows


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    heads = ("net", "batch", *(f"{title}, GiB" for title, _ in PARTS.values()))
    lines = [
        (
            row["net"],
            row["batch"],
            *(row[part] / GIB for part in PARTS),
            f"{row['speed_up']:.2f}",
        )
        for row in rows
    ]
    return Table((*heads, "modelled speed-up"), lines).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw memory as bars, and the speed-up beside them."""
    figure = Figure(figsize=(PAGE, 2.6))
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1), sharey=True)
    labels = [f"{row['net']} b{row['batch']}" for row in rows]
    ends = [0.0 for _ in rows]
    for part, (title, colour) in PARTS.items():
        sizes = [row[part] / GIB for row in rows]
        left.barh(labels, sizes, left=ends, color=colour, label=title, height=0.65)
        ends = [end + size for end, size in zip(ends, sizes, strict=True)]
    left.axvline(12, color="#555555", linewidth=0.8, linestyle="--")
    left.text(12, -0.75, "12 GiB", ha="center", color="#555555", fontsize=6.5)
    left.set_xlabel("GiB with everything held")
    left.invert_yaxis()
    speeds = [row["speed_up"] for row in rows]
    bars = right.barh(labels, speeds, color=VERMILION, height=0.65)
    right.bar_label(bars, [f"{s:.2f}" for s in speeds], padding=2, fontsize=6.5)
    right.set_xlim(0, 1.15 * max(speeds))
    right.axvline(1, color="#555555", linewidth=0.8)
    right.set_xlabel("speed-up (model, virtual K40c)")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=3
    )
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    most = max(rows, key=lambda row: row["data_bytes"])
    low, high = (f(row["speed_up"] for row in rows) for f in (min, max))
    return (
        f"With everything held, {most['net']} at batch {most['batch']} needs "
        f"{most['data_bytes'] / GIB:.1f} GiB of data tensors; the fastest "
        "convolutions, which need workspaces, would make the nets "
        f"{low:.2f} to {high:.2f} times as quick (a model)."
    )
