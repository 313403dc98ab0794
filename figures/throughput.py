"""SuperNeurons, figure 14: images a second over the batch, beside other planners.

Six nets in 12 GiB, on a virtual K40c and a virtual TITAN Xp: the seconds are a model.
The planners follow the rules of the systems that the paper compares with (``snref/
policies``), with the same kernels for all: what differs is memory, not the code. The
plans of least time are searched for with little effort, so another may be quicker.

python -m figures throughput --measure long
"""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.progress import Progress
from snref.commands.tables import Cell, Table
from snref.nets import find
from snref.planning.fit import LEAST_TIME, fitted
from snref.planning.planned import PRESET_NAMES
from snref.plans import OutOfMemory
from snref.views import PAGE, look

BATCHES = {
    "alexnet": (128, 256, 512, 1024, 1536, 2048),
    "vgg16": (16, 32, 64, 96, 160, 224),
    "inception_v4": (8, 16, 32, 64, 128, 240),
    "resnet50": (16, 32, 64, 128, 256, 384),
    "resnet101": (16, 32, 64, 128, 192, 256),
    "resnet152": (8, 16, 32, 64, 128, 176),
}
MACHINES = {"k40c": "K40c", "titanxp": "TITAN Xp"}
PLANNERS = ("caffe", "mxnet", "tensorflow", "vdnn-dyn", "cache", LEAST_TIME, "joint")
MEMORY = 12 << 30
EFFORT = 0.01  # of the search for the plan of least time


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Plan what is not among the rows: yields a row each."""
    done = {_key(row) for row in rows}
    todo = [
        (planner, net, machine, batch)
        for planner in PLANNERS
        for net, batches in BATCHES.items()
        for machine in MACHINES
        for batch in batches
        if (planner, net, machine, batch) not in done
    ]
    with Progress("throughput", len(todo)) as progress:
        for planner, net, machine, batch in todo:
            progress.show(f"{net} b{batch}, {planner}, {machine}")
            yield {
                "planner": planner,
                "net": net,
                "machine": machine,
                "batch": batch,
                "modelled_images_per_second": _speed(planner, net, machine, batch),
            }


def _key(row: dict[str, Any]) -> tuple[str, str, str, int]:
    return row["planner"], row["net"], row["machine"], row["batch"]


def _speed(planner: str, net: str, machine: str, batch: int) -> float | str:
    """Return the modelled images a second; nothing if there is no plan."""
    ours = planner == LEAST_TIME or planner in PRESET_NAMES
    try:
        fit = fitted(
            find(net, batch),
            MEMORY,
            preset=planner if planner in PRESET_NAMES else None,
            policy=None if ours else planner,
            effort=EFFORT,
            device=f"virtual:{machine}",
        )
    except OutOfMemory:
        return ""
    return round(fit.images_per_second, 2)


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the best batch of each planner, and its speed, by net and machine."""
    tables = []
    for machine, title in MACHINES.items():
        lines: list[tuple[Cell, ...]] = []
        for planner in PLANNERS:
            cells = []
            for net in BATCHES:
                fits = [r for r in _of(rows, planner, net, machine) if r[1] != ""]
                largest, speed = fits[-1] if fits else (0, 0.0)
                cells.append(f"{speed:.0f} at {largest}" if fits else "none fits")
            lines.append((planner, *cells))
        tables.append(
            f"images/s (a model) at the largest of the batches that fits, {title}\n\n"
            + Table(("planner", *BATCHES), lines).text()
        )
    return "\n\n".join(tables)


def _of(
    rows: Sequence[dict[str, Any]], planner: str, net: str, machine: str
) -> list[tuple[int, Any]]:
    return [
        (row["batch"], row["modelled_images_per_second"])
        for row in rows
        if _key(row)[:3] == (planner, net, machine)
    ]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a panel for each net and machine, with a curve for each planner."""
    figure = Figure(figsize=(PAGE, 8.2))
    panels = figure.subplots(len(BATCHES), len(MACHINES), squeeze=False)
    for across, net in zip(panels, BATCHES, strict=True):
        for axes, (machine, title) in zip(across, MACHINES.items(), strict=True):
            for planner in PLANNERS:
                fits = [p for p in _of(rows, planner, net, machine) if p[1] != ""]
                axes.plot(
                    [batch for batch, _ in fits],
                    [speed for _, speed in fits],
                    label=planner,
                    **look(planner),
                )
            axes.set_title(f"{net}, virtual {title}")
            speeds = [r for p in PLANNERS for _, r in _of(rows, p, net, machine)]
            axes.set_ylim(0, 1.12 * max(speed for speed in speeds if speed != ""))
            axes.set_xlim(left=0, right=1.04 * BATCHES[net][-1])
    for axes in panels[-1]:
        axes.set_xlabel("batch")
    for axes in panels[:, 0]:
        axes.set_ylabel("images/s (model)")
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(PLANNERS))
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    net, batch = "resnet50", BATCHES["resnet50"][-1]
    speeds = {
        planner: dict(_of(rows, planner, net, "k40c")).get(batch, "")
        for planner in PLANNERS
    }
    fit = [f"{name} ({speed:.0f})" for name, speed in speeds.items() if speed != ""]
    return (
        "Images a second over the batch in 12 GiB, a model of a K40c and a TITAN Xp; a "
        f"curve ends where its planner finds no plan. At batch {batch} of {net} there "
        f"are plans of {', '.join(fit) or 'none'} on the K40c."
    )
