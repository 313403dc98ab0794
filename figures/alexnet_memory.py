"""SuperNeurons, figure 10: AlexNet's memory over the 46 steps of an iteration.

Batch 200; data tensors only, MiB = 2^20 bytes. Liveness, then the unified tensor pool,
then cost-aware recomputation, each on top of the last; both papers in one plan, with
gradients in the memory of activations (Shirahata et al. 2016).
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from figures.claims import Claim
from snref import nets
from snref.commands.compare import PAPER, PEAK
from snref.planning import plan

BATCH = 200
MIB = 2**20
SHOWN = {  # preset: how the paper calls it
    "baseline": "baseline: everything held",
    "liveness": "liveness",
    "offload": "offload: + unified tensor pool",
    "superneurons": "superneurons: + cost-aware recomputation",
    "joint": "joint: + gradients over activations",
}


def measure() -> list[dict[str, Any]]:
    """Plan AlexNet with each preset. Returns the memory at every step, in MiB."""
    net = nets.alexnet(batch=BATCH)
    curves = {name: plan(net, preset=name).steps for name in SHOWN}
    return [
        {
            "step": number,
            "layer": steps[0].layer,
            "phase": steps[0].phase,
            **{
                f"{name}_mib": round(step.nbytes / MIB, 4)
                for name, step in zip(curves, steps, strict=True)
            },
        }
        for number, steps in enumerate(zip(*curves.values(), strict=True), 1)
    ]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a curve for each preset, with its peak marked."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    steps = [row["step"] for row in rows]
    places = {"offload": (-5, 4), "joint": (7, -14)}
    colours = ("#9aa0a6", "#3f6fb5", "#e07b39", "#2f8f5b", "#8a4fa3")
    for (name, label), colour in zip(SHOWN.items(), colours, strict=True):
        curve = [row[f"{name}_mib"] for row in rows]
        peak = max(curve)
        at = steps[curve.index(peak)]
        axes.step(steps, curve, where="mid", color=colour, label=label, linewidth=1.8)
        axes.plot([at], [peak], "o", color=colour, markersize=5)
        axes.annotate(
            f"{peak:.0f}",
            (at, peak),
            textcoords="offset points",
            xytext=places.get(name, (7, 3)),
            ha="right" if name == "offload" else "left",
            color=colour,
            fontsize=10,
            fontweight="bold",
        )
    backward = sum(row["phase"] == "forward" for row in rows) + 0.5
    axes.axvline(backward, color="#cccccc", linewidth=1, zorder=0)
    grey = {"color": "#777777", "fontsize": 9}
    axes.text(backward - 0.4, 2380, "forward", ha="right", **grey)
    axes.text(backward + 0.4, 2380, "backward", ha="left", **grey)
    axes.set_xlim(0.5, len(rows) + 0.5)
    axes.set_ylim(0, 2500)
    axes.set_xlabel("step of the iteration")
    axes.set_ylabel("MiB of activations and gradients")
    axes.set_title(f"AlexNet, batch {BATCH}", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(0.02, 0.86),
        fontsize=9,
        labelspacing=0.2,
    )
    return figure


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare with the peaks that the paper prints."""
    peaks = {name: max(row[f"{name}_mib"] for row in rows) for name in SHOWN}
    return [
        Claim(
            f"AlexNet b{BATCH}, {name}, MiB",
            number,
            peaks[name],
            "exact" if explained else "unexplained",
            digits=len(str(number).partition(".")[2]),
        )
        for name, what, number, explained in PAPER["alexnet", BATCH]
        if what == PEAK and name in peaks
    ]
