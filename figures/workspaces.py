"""SuperNeurons, figure 12: workspaces granted to each convolution's step of AlexNet.

Beside the workspace of the fastest algorithm: batch 100 and 300 in a pool of 3 GB, and
batch 300 in one of 5 GB (GB as in the authors' code: 1000 x 2^20 bytes). Preset cache,
all algorithms allowed; parameters lie outside the pool. The speed is modelled on a
virtual K40c.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.planning.reports import PlannedNet
from snref.plans import Run
from snref.views import BLUE, GREY, PAGE

NET = "alexnet"
SETTINGS = (100, 3), (300, 3), (300, 5)  # batch, GB of the pool
GB = 1000 * 2**20
ENDLESS = 1 << 62
MIB = 2**20


def measure() -> list[dict[str, Any]]:
    """Plan each setting. Returns a row for each step of a convolution."""
    rows = []
    for batch, size in SETTINGS:
        net = find(NET, batch)
        fastest = plan(net, preset="liveness", algorithms="fastest", memory=ENDLESS)
        fixed = sum(fastest.resident.values())
        made = plan(net, preset="cache", algorithms="fastest", memory=fixed + size * GB)
        wanted = _workspaces(fastest)
        for (layer, phase), granted in _workspaces(made).items():
            rows.append(
                {
                    "net": NET,
                    "batch": batch,
                    "pool_gb": size,
                    "layer": layer,
                    "phase": phase,
                    "granted_bytes": granted,
                    "fastest_bytes": wanted[layer, phase],
                    "modelled_images_per_second": round(
                        batch / made.timeline.seconds, 2
                    ),
                }
            )
    return rows


def _workspaces(planned: PlannedNet) -> dict[tuple[str, str], int]:
    """Return the bytes of workspace of each convolution's run."""
    return {
        (step.layer, step.phase): sum(w.nbytes for w in step.workspaces)
        for step in planned.plan.steps
        if isinstance(step, Run) and step.choices
    }


def _settings(rows: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    return [*dict.fromkeys((row["batch"], row["pool_gb"]) for row in rows)]


def _of(rows: Sequence[dict[str, Any]], setting: tuple[int, int]) -> list[Any]:
    return [row for row in rows if (row["batch"], row["pool_gb"]) == setting]


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table: MiB granted of MiB that the fastest algorithms take."""
    settings = _settings(rows)
    steps = [(row["layer"], row["phase"]) for row in _of(rows, settings[0])]
    lines = []
    for number, step in enumerate(steps):
        cells = []
        for setting in settings:
            row = _of(rows, setting)[number]
            granted, wanted = row["granted_bytes"] / MIB, row["fastest_bytes"] / MIB
            cells.append(f"{granted:.0f} of {wanted:.0f}")
        lines.append((*step, *cells))
    heads = (f"batch {batch}, {size} GB" for batch, size in settings)
    table = Table(("layer", "phase", *heads), lines).text()
    return f"MiB of workspace granted, and of the fastest algorithm\n\n{table}"


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a panel for each setting: bars of what is granted before what is wanted."""
    settings = _settings(rows)
    figure = Figure(figsize=(PAGE, 2.6))
    panels = figure.subplots(1, len(settings), sharey=True)
    for axes, setting in zip(panels, settings, strict=True):
        of_it = _of(rows, setting)
        steps = [f"{row['layer']} {row['phase'][0].upper()}" for row in of_it]
        for column, colour, wide, title in (
            ("fastest_bytes", GREY, 0.8, "the fastest algorithm's"),
            ("granted_bytes", BLUE, 0.45, "granted"),
        ):
            sizes = [row[column] / MIB for row in of_it]
            axes.bar(steps, sizes, width=wide, color=colour, label=title)
        speed = of_it[0]["modelled_images_per_second"]
        axes.set_title(
            f"batch {setting[0]}, {setting[1]} GB: {speed:.0f} images/s (model)",
            fontsize=7,
        )
        axes.tick_params("x", rotation=90)
    panels[0].set_ylabel("MiB of workspace")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    said = []
    for batch, size in _settings(rows):
        of_it = _of(rows, (batch, size))
        full = sum(row["granted_bytes"] == row["fastest_bytes"] for row in of_it)
        speed = of_it[0]["modelled_images_per_second"]
        where = f"at batch {batch} in {size} GB ({speed:.0f} images/s)"
        said.append(f"{full} of {len(of_it)} {where}")
    return (
        f"Steps of {rows[0]['net']}'s convolutions that get all the workspace of the "
        f"fastest algorithm: {', '.join(said)}; the speed is a model of a K40c."
    )


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Show the modelled speeds beside those of the paper's machine."""
    speeds = {
        (batch, f"{size} GB"): _of(rows, (batch, size))[0]["modelled_images_per_second"]
        for batch, size in _settings(rows)
    }
    return [
        number.beside(speeds[number.batch, number.plan])
        for number in numbers(item="workspaces")
    ]
