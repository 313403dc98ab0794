"""SuperNeurons, figure 13: the memory that the largest batches would demand.

The batches of the paper's table of widest nets, and Inception-v4 at batch 32, which its
introduction names: bytes with everything held, under liveness, and the least that any
plan needs, for the paper's declarations and with gradients over activations (joint).
Parameters, their gradients, momentum and input are counted in all of them.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.planning.fit import Counting
from snref.scheduler import Options
from snref.views import PAGE, colour

GIB = 2**30
JOINT = Options(overwrite="activations")
INCEPTION = "inception_v4", 32
COLUMNS = {  # column: (whose colour, title)
    "held_bytes": ("baseline", "everything held"),
    "liveness_bytes": ("liveness", "liveness"),
    "least_bytes": ("cache", "least, original declarations"),
    "joint_least_bytes": ("joint", "least, joint"),
}


def measure() -> list[dict[str, Any]]:
    """Return a row a net: bytes at the batch that the paper's system reached."""
    wide = numbers(item="going wider", plan="superneurons")
    batches = [*((number.net, int(number.value)) for number in wide), INCEPTION]
    rows = []
    for name, batch in batches:
        net = find(name, batch)
        planned = plan(net, preset="liveness", algorithms="none")
        fixed = sum(planned.resident.values())
        merged = net.with_options("reuse", "share")
        rows.append(
            {
                "net": name,
                "batch": batch,
                "layers": len(net.nodes),
                "held_bytes": planned.baseline_bytes + fixed,
                "liveness_bytes": planned.total_bytes,
                "least_bytes": Counting().least(net),
                "joint_least_bytes": Counting().least(merged, JOINT),
            }
        )
    return rows


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table, in GiB."""
    lines = [
        (r["net"], r["batch"], r["layers"], *(r[column] / GIB for column in COLUMNS))
        for r in rows
    ]
    titles = (f"{title}, GiB" for _, title in COLUMNS.values())
    return Table(("net", "batch", "layers", *titles), lines).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a group of bars a net, on a logarithmic axis."""
    figure = Figure(figsize=(PAGE, 2.8))
    axes = figure.subplots()
    for number, (column, (name, title)) in enumerate(COLUMNS.items()):
        sizes = [row[column] / GIB for row in rows]
        places = [i + 0.2 * (number - 1.5) for i in range(len(rows))]
        bars = axes.bar(places, sizes, width=0.19, color=colour(name), label=title)
        shown = [f"{size:.3g}" for size in sizes]
        white = {"facecolor": "white", "edgecolor": "none", "pad": 0.3}
        axes.bar_label(bars, shown, padding=1.5, fontsize=5.5, bbox=white)
    axes.axhline(12, color="#555555", linewidth=0.8, linestyle="--", zorder=0)
    beside = len(rows) - 0.45  # the last bars are lower
    axes.text(beside, 13.3, "12 GiB", color="#555555", ha="left")
    axes.set_xlim(-0.55, len(rows) + 0.25)
    axes.set_yscale("log")
    axes.set_ylim(0.4, 300)
    axes.set_yticks((1, 10, 100), ("1", "10", "100"))
    labels = [f"{row['net']}\nb{row['batch']}" for row in rows]
    axes.set_xticks(range(len(rows)), labels)
    axes.set_ylabel("GiB in all")
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    most = max(rows, key=lambda row: row["held_bytes"])
    least = max(row["least_bytes"] for row in rows)
    return (
        "At the largest batches of the paper, as recalled, nets need up to "
        f"{most['held_bytes'] / GIB:.0f} GiB with everything held ({most['net']}), and "
        f"no more than {least / GIB:.1f} GiB with all savings of SuperNeurons."
    )


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare with what the introduction says of Inception-v4.

    The paper counts the two layers that read images, for training and for tests, too.
    """
    (row,) = (r for r in rows if (r["net"], r["batch"]) == INCEPTION)
    here = {"basic layers": row["layers"] + 2, "memory": row["held_bytes"] / 1e9}
    return [number.beside(here[number.what]) for number in numbers(item="intro")]
