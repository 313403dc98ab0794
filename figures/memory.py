"""SuperNeurons, figure 10: memory and live tensors over the steps of an iteration.

AlexNet, batch 200; data tensors only. Liveness, then the unified tensor pool, then
cost-aware recomputation, each on top of the last; and both papers in one plan, with
gradients in the memory of activations (Shirahata et al. 2016).

python -m figures memory --net resnet50 --batch 32
"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.planning.reports import RouteStep
from snref.views import COLUMN, colour

NET, BATCH = "alexnet", 200
MIB = 2**20
SHOWN = {  # preset: what it adds
    "baseline": "everything held",
    "liveness": "each freed after its last use",
    "offload": "+ unified tensor pool",
    "superneurons": "+ recomputation",
    "joint": "+ gradients over activations",
}


def measure() -> list[dict[str, Any]]:
    """Plan AlexNet with each preset."""
    return measure_net(NET, BATCH)


def measure_net(name: str, batch: int | None) -> list[dict[str, Any]]:
    """Plan a net with each preset. Returns bytes and tensors at every step.

    Where layers share an output instead of reading copies of it, as under joint, the
    steps of forks are empty.
    """
    net = find(name, batch)
    curves = {preset: plan(net, preset=preset).steps for preset in SHOWN}
    found = {
        preset: {(step.layer, step.phase): step for step in steps}
        for preset, steps in curves.items()
    }
    return [
        {
            "net": name,
            "batch": net.batch,
            "step": number,
            "layer": step.layer,
            "phase": step.phase,
            **_columns({p: found[p].get((step.layer, step.phase)) for p in SHOWN}),
        }
        for number, step in enumerate(curves["baseline"], 1)
    ]


def _columns(steps: Mapping[str, RouteStep | None]) -> dict[str, int | str]:
    columns: dict[str, int | str] = {}
    for preset, step in steps.items():
        columns[f"{preset}_bytes"] = step.nbytes if step else ""
        columns[f"{preset}_tensors"] = step.tensors if step else ""
    return columns


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a curve for each preset with its peak marked, and the live tensors below."""
    figure = Figure(figsize=(COLUMN, 3.9))
    above, below = figure.subplots(2, sharex=True, height_ratios=(2.4, 1))
    for preset, label in SHOWN.items():
        points = [r for r in rows if r[f"{preset}_bytes"] != ""]
        steps = [row["step"] for row in points]
        curve = [row[f"{preset}_bytes"] / MIB for row in points]
        style = {"color": colour(preset), "where": "mid"}
        above.step(steps, curve, label=f"{preset}: {label}", **style)
        peak = max(curve)
        at = steps[curve.index(peak)]
        above.plot([at], [peak], "o", color=colour(preset), clip_on=False)
        above.annotate(
            f"{peak:,.0f}" if peak >= 100 else f"{peak:#.3g}".rstrip("."),
            (at, peak),
            textcoords="offset points",
            xytext=(4, 2.5) if at < 0.9 * len(rows) else (0, 3.5),
            ha="left" if at < 0.9 * len(rows) else "center",
            color=colour(preset),
            fontweight="bold",
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )
        below.step(steps, [row[f"{preset}_tensors"] for row in points], **style)
    middle = sum(row["phase"] == "forward" for row in rows) + 0.5
    for axes in (above, below):
        axes.axvline(middle, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.set_ylim(bottom=0)
    above.set_ylim(top=1.12 * above.get_ylim()[1])
    top = above.get_ylim()[1]
    above.text(middle, top, "forward ", ha="right", va="top", color="#666666")
    above.text(middle, top, " backward", ha="left", va="top", color="#666666")
    above.set_xlim(0.5, len(rows) + 0.5)
    above.set_ylabel("MiB of data tensors")
    above.set_title(f"{rows[0]['net']}, batch {rows[0]['batch']}")
    below.set_ylabel("live tensors")
    below.set_xlabel("step of the iteration")
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center")
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    values = [_peak(rows, preset) for preset in SHOWN]
    peaks = ", ".join(f"{v:,.3f}" if v >= 0.1 else f"{v:.3g}" for v in values)
    return (
        f"Data tensors of {rows[0]['net']}, batch {rows[0]['batch']}, over the "
        f"{len(rows)} steps of an iteration, MiB = 2^20 bytes: each stage on top of "
        f"the last has its peak at {peaks} MiB."
    )


def _peak(rows: Sequence[dict[str, Any]], preset: str) -> float:
    """Return the peak in MiB."""
    column = f"{preset}_bytes"
    return max(float(row[column]) for row in rows if row[column] != "") / MIB


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare with the numbers that the paper prints."""
    tensors = max(row["baseline_tensors"] for row in rows)
    counts = {"data tensors": tensors, "steps": len(rows)}
    return [
        number.beside(_peak(rows, number.plan) if number.plan else counts[number.what])
        for number in numbers(item="step-wise memory")
    ]
