"""SuperNeurons, table of strategies: extra forwards and peak of each recomputation.

Speed-centric, memory-centric, and cost-aware as the preset superneurons. AlexNet at
batch 200 with the transfers of the paper's unified tensor pool; the ResNets at batch 32
with every checkpoint copied away until it is needed, as the paper's peaks need it.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.scheduler.options import Transfers
from snref.views import PAGE, colour

NETS: dict[str, tuple[int, Transfers]] = {
    "alexnet": (200, "offload"),
    "resnet50": (32, "demand"),
    "resnet101": (32, "demand"),
    "resnet152": (32, "demand"),
}
STRATEGIES = "speed-centric", "memory-centric", "superneurons"
MIB = 2**20


def measure() -> list[dict[str, Any]]:
    """Plan each net with each strategy."""
    rows = []
    for name, (batch, transfers) in NETS.items():
        net = find(name, batch)
        for strategy in STRATEGIES:
            planned = plan(net, preset=strategy, transfers=transfers)
            step = planned.steps[planned.peak_step - 1]
            rows.append(
                {
                    "net": name,
                    "batch": batch,
                    "transfers": transfers,
                    "strategy": strategy,
                    "extra_forwards": planned.extra_forwards,
                    "peak_bytes": planned.peak_bytes,
                    "peak_step": planned.peak_step,
                    "peak_layer": step.layer,
                    "peak_phase": step.phase,
                }
            )
    return rows


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table."""
    heads = ("net", "strategy", "extra forwards", "peak MiB", "at step", "of layer")
    lines = [
        (
            f"{r['net']} b{r['batch']}, {r['transfers']}",
            r["strategy"],
            r["extra_forwards"],
            r["peak_bytes"] / MIB,
            r["peak_step"],
            f"{r['peak_layer']} {r['peak_phase']}",
        )
        for r in rows
    ]
    return Table(heads, lines).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw extra forwards and peaks as bars, a group a net."""
    figure = Figure(figsize=(PAGE, 2.8))
    panels = figure.subplots(1, 2)
    nets = [*dict.fromkeys(row["net"] for row in rows)]
    first = {row["net"]: row for row in reversed(rows)}
    labels = [f"{n}\nb{first[n]['batch']}\n{first[n]['transfers']}" for n in nets]
    heads = ("extra forwards", "peak, MiB of data tensors")
    for axes, column, head in zip(
        panels, ("extra_forwards", "peak_bytes"), heads, strict=True
    ):
        for number, strategy in enumerate(STRATEGIES):
            of_it = [row for row in rows if row["strategy"] == strategy]
            values = [row[column] / (MIB if head[0] == "p" else 1) for row in of_it]
            bars = axes.bar(
                [i + 0.28 * (number - 1) for i in range(len(nets))],
                values,
                width=0.26,
                color=colour(strategy),
                label=strategy,
            )
            shown = [f"{value:.0f}" for value in values]
            axes.bar_label(bars, shown, fontsize=6, padding=1)
        axes.set_xticks(range(len(nets)), labels)
        axes.set_ylabel(head)
        axes.set_xlabel("net, batch and --transfers")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    counts = {(row["net"], row["strategy"]): row["extra_forwards"] for row in rows}
    first, last = rows[0]["net"], rows[-1]["net"]
    nets: dict[str, list[str]] = {}
    for row in rows:
        if row["net"] not in nets.setdefault(row["transfers"], []):
            nets[row["transfers"]].append(row["net"])
    asked = [f"{', '.join(of)} with --transfers {how}" for how, of in nets.items()]
    return (
        "Recomputing a segment at once (speed-centric) or for each reader "
        "(memory-centric): cost-aware recomputation, the preset superneurons, has the "
        f"lower peak at {counts[first, 'superneurons']} instead of "
        f"{counts[first, 'memory-centric']} extra forwards for {first}, "
        f"and {counts[last, 'superneurons']} instead of "
        f"{counts[last, 'memory-centric']} for {last}. {' and '.join(asked)}, which "
        "copies each checkpoint away until it is needed."
    )


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare with the paper's table: counts, and peaks in all printed digits."""
    here = {}
    for row in rows:
        demand = ", demand" if row["transfers"] == "demand" else ""
        name = row["net"], f"{row['strategy']}{demand}"
        here[*name, "extra forwards"] = row["extra_forwards"]
        here[*name, "peak"] = row["peak_bytes"] / MIB
    return [
        number.beside(here[number.net, number.plan, number.what])
        for number in numbers(item="recomputation")
    ]
