"""How much slower nets train whose tensors get half of the memory of the baseline.

The slab is half of the bytes of all activations and gradients; parameters, their
gradients, momentum and the batch lie beside it. The quickest plan in it stands beside
the quickest plan without a limit, on a virtual K40c, and so does the certified bound:
where that is above 1.05 times the seconds without a limit, no plan can be below.

python -m figures half_baseline --measure long
"""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.progress import Progress
from snref.commands.tables import Table
from snref.nets import find
from snref.planning.planned import plan

NETS = {
    "alexnet": 200,
    "vgg16": 64,
    "resnet50": 128,
    "resnet101": 64,
    "inception_v4": 32,
}
ENDLESS = 1 << 62  # bytes
MOST = 1.05  # times the seconds without a limit
MIB = 2**20


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Plan the nets that are not among the rows: yields a row each."""
    todo = [net for net in NETS if net not in {row["net"] for row in rows}]
    with Progress("half_baseline", len(todo)) as progress:
        for name in todo:
            progress.show(name)
            net = find(name, NETS[name])
            baseline = plan(net, preset="baseline")
            resident = sum(baseline.resident.values())
            slab = baseline.baseline_bytes // 2
            free = plan(net, memory=ENDLESS)
            half = plan(net, memory=resident + slab)
            yield {
                "net": name,
                "batch": net.batch,
                "slab_mib": round(slab / MIB, 3),
                "seconds": round(half.timeline.seconds, 6),
                "seconds_without_limit": round(free.timeline.seconds, 6),
                "ratio": round(half.timeline.seconds / free.timeline.seconds, 4),
                "bound_ratio": round(half.bound_seconds / free.timeline.seconds, 4),
                "extra_forwards": half.extra_forwards,
                "copied_out_mib": round(half.offload_bytes / MIB, 1),
                "waiting": round(half.timeline.stall_seconds, 6),
            }


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    heads = (name.replace("_", " ").replace("mib", "MiB") for name in rows[0])
    return Table([*heads], [tuple(row.values()) for row in rows]).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a bar a net: seconds over those without a limit."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    labels = [f"{row['net']} b{row['batch']}" for row in rows]
    axes.barh(labels, [row["ratio"] for row in rows], color="#2f8f5b", height=0.5)
    axes.axvline(MOST, color="#999999", linestyle="--", linewidth=1)
    axes.set_xlim(0.9, max(1.1, *(row["ratio"] + 0.02 for row in rows)))
    axes.set_xlabel(
        "seconds in half of the baseline's memory, over those without limit"
    )
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure
