"""Predicted peaks and seconds beside measured ones, on the CPU device.

Small nets train under several presets. The bytes in use are those that the device
counted; the seconds predicted are the timeline's with the costs of ``snref profile``,
and those measured are CPU time of one thread. The CPU device copies at once where the
timeline overlaps: so plans that copy take longer than predicted.

python -m figures measured --measure long
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from snref.commands.profile import measured
from snref.commands.progress import Progress
from snref.commands.tables import Table
from snref.data import load
from snref.net import Net
from snref.nets import find
from snref.planning.planned import plan, prepared
from snref.plans import memory
from snref.training import Session, Settings
from snref.views import PAGE, look

NETS = {"digits": 64, "lenet": 64, "resnet:1,1,1,1": 2}
PRESETS = "baseline", "liveness", "superneurons", "cache", "joint"
SIDES = "predicted", "measured"
ITERATIONS = 4
MIB = 2**20


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Train each net under each preset: yields a row each.

    The costs of a net are profiled in the run that trains it.
    """
    done = {(row["net"], row["preset"]) for row in rows}
    todo = [(n, p) for n in NETS for p in PRESETS if (n, p) not in done]
    with Progress("measured", len(todo)) as progress:
        for name, preset in todo:
            progress.show(f"{name}, {preset}")
            net = find(name, NETS[name]).with_options(image_gradient=False)
            yield _row(prepared(net, preset), name, preset)


def _row(net: Net, name: str, preset: str) -> dict[str, Any]:
    costs = measured(net, "cpu", repeats=3)
    planned = plan(net, preset=preset, costs=costs)
    data = load("synthetic", image_shape=net.input_shape[1:], count=net.batch)
    session = Session(planned, data, Settings(), "cpu", threads=1)
    indices = np.arange(net.batch)
    session.iterate(indices)  # compiles
    best = float("inf")
    for _ in range(ITERATIONS):
        start = time.process_time()
        session.iterate(indices)
        best = min(best, time.process_time() - start)
    return {
        "net": name,
        "batch": net.batch,
        "preset": preset,
        "predicted_bytes": max(memory(planned.plan, workspace=True)),
        "measured_bytes": session.peak,
        "predicted_seconds": round(planned.timeline.seconds, 6),
        "measured_seconds": round(best, 6),
        "copied_bytes": planned.offload_bytes + planned.prefetch_bytes,
    }


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    heads = (*(name.replace("_", " ") for name in rows[0]), "measured to predicted")
    lines = [
        (*row.values(), row["measured_seconds"] / row["predicted_seconds"])
        for row in rows
    ]
    return Table(heads, lines).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw measured over predicted: bytes, which are equal, and seconds."""
    figure = Figure(figsize=(PAGE, 3.0))
    panels = figure.subplots(1, 2)
    for axes, what, unit, title in zip(
        panels,
        ("bytes", "seconds"),
        (MIB, 1e-3),
        ("peak in the slab, MiB", "iteration, ms of one thread"),
        strict=True,
    ):
        for preset in PRESETS:
            of_it = [row for row in rows if row["preset"] == preset]
            axes.plot(
                [row[f"predicted_{what}"] / unit for row in of_it],
                [row[f"measured_{what}"] / unit for row in of_it],
                **{**look(preset), "linestyle": "none"},
                markerfacecolor="none",
                markersize=5,
                label=preset,
            )
        values = [row[f"{side}_{what}"] / unit for row in rows for side in SIDES]
        ends = [0.25 * min(values), 1.6 * max(values)]
        axes.plot(ends, ends, color="#999999", linewidth=0.8, zorder=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"predicted {title}")
        axes.set_ylabel("measured")
        for row in rows:
            if row["preset"] == PRESETS[0]:
                place = row[f"predicted_{what}"] / unit, row[f"measured_{what}"] / unit
                axes.annotate(
                    f"{row['net']} b{row['batch']}",
                    place,
                    textcoords="offset points",
                    xytext=(-6, 4),
                    ha="right",
                )
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(PRESETS))
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    equal = sum(row["predicted_bytes"] == row["measured_bytes"] for row in rows)
    ratios = sorted(row["measured_seconds"] / row["predicted_seconds"] for row in rows)
    return (
        f"On the CPU device, {equal} of {len(rows)} peaks are those predicted, to the "
        f"byte; iterations take {ratios[0]:.2f} to {ratios[-1]:.2f} times the seconds "
        "that the timeline predicts from profiled costs."
    )
