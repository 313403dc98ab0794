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
from snref.views import COLUMN, VERMILION, colour

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
    table = Table([*heads], [tuple(row.values()) for row in rows]).text()
    return f"modelled seconds of an iteration on a virtual K40c\n\n{table}"


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw seconds over those without a limit, and the bound of any plan."""
    figure = Figure(figsize=(COLUMN, 2.2))
    axes = figure.subplots()
    places = [*range(len(rows))]
    axes.plot(
        [row["ratio"] for row in rows],
        places,
        "o",
        color=colour("least time"),
        label="least time",
    )
    axes.plot(
        [row["bound_ratio"] for row in rows],
        places,
        "|",
        color=VERMILION,
        markersize=9,
        label="certified bound",
    )
    axes.axvline(MOST, color="#999999", linestyle="--", linewidth=0.8)
    axes.set_yticks(places, [f"{row['net']} b{row['batch']}" for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("seconds (model) over those without limit")
    axes.set_title("in half of the baseline's memory")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    near = [row["net"] for row in rows if row["ratio"] <= MOST]
    worst = max(rows, key=lambda row: row["ratio"])
    return (
        f"In half of the baseline's memory, {len(near)} of {len(rows)} nets take at "
        f"most {MOST} times the modelled seconds that they take without limit; "
        f"{worst['net']} takes {worst['ratio']:.3f}, where no plan can take less than "
        f"{worst['bound_ratio']:.3f}."
    )
