"""SuperNeurons, figure 11: speed without the tensor cache, over that with it.

AlexNet at batch 128, the others at 32, on a virtual K40c with 12 GiB: the seconds are
a model. Without the cache, outputs of convolutions are copied although all would fit.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.views import COLUMN, colour

NETS = {
    "alexnet": 128,
    "vgg16": 32,
    "inception_v4": 32,
    "resnet50": 32,
    "resnet101": 32,
    "resnet152": 32,
}
PRESETS = {"superneurons": "without cache", "cache": "with cache"}
MEMORY = 12 << 30


def measure() -> list[dict[str, Any]]:
    """Plan each net with and without the cache."""
    rows = []
    for name, batch in NETS.items():
        net = find(name, batch)
        made = {preset: plan(net, preset=preset, memory=MEMORY) for preset in PRESETS}
        rows.append(
            {
                "net": name,
                "batch": batch,
                **{
                    f"modelled_seconds_{preset}": round(planned.timeline.seconds, 6)
                    for preset, planned in made.items()
                },
                **{
                    f"waiting_{preset}": round(planned.timeline.stall_seconds, 6)
                    for preset, planned in made.items()
                },
                "speed_without": round(
                    made["cache"].timeline.seconds
                    / made["superneurons"].timeline.seconds,
                    4,
                ),
            }
        )
    return rows


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    heads = (name.replace("_", " ") for name in rows[0])
    return Table([*heads], [tuple(row.values()) for row in rows]).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a pair of bars a net."""
    figure = Figure(figsize=(COLUMN, 2.5))
    axes = figure.subplots()
    labels = [f"{row['net']}\nb{row['batch']}" for row in rows]
    speeds = {"superneurons": [r["speed_without"] for r in rows], "cache": [1.0] * 6}
    for number, (preset, title) in enumerate(PRESETS.items()):
        bars = axes.bar(
            [i + 0.4 * (number - 0.5) for i in range(len(rows))],
            speeds[preset][: len(rows)],
            width=0.38,
            color=colour(preset),
            label=title,
        )
        if preset == "superneurons":
            shown = [f"{speed:.2f}" for speed in speeds[preset]]
            axes.bar_label(bars, shown, padding=1, fontsize=6)
    axes.set_xticks(range(len(rows)), labels, fontsize=6, rotation=35)
    axes.set_ylabel("speed, normalised (model)")
    axes.set_title("virtual K40c, 12 GiB")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    worst = min(rows, key=lambda row: row["speed_without"])
    lost = 100 * (1 - worst["speed_without"])
    return (
        "Modelled speed without the tensor cache over that with it, where everything "
        f"fits 12 GiB: {worst['net']} loses most, {lost:.1f} %."
    )


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Show the largest loss beside that of the paper's machine."""
    lost = 1 - min(row["speed_without"] for row in rows)
    return [number.beside(lost) for number in numbers(item="speed of the cache")]
