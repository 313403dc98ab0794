"""The largest batch that each planner fits into so much memory of the device.

ResNet-50 in 2 to 12 GiB, parameters and all; the host's memory has no limit. The six
nets of the paper's table, with all planners, are in the figure ``capacity``.

python -m figures wider --net densenet121
"""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from snref.commands.progress import Progress
from snref.commands.tables import Cell, Table
from snref.net import Net
from snref.nets import find
from snref.planning.fit import (
    LEAST_TIME,
    Counting,
    Fit,
    fitted,
    largest,
    largest_of,
)
from snref.planning.planned import PRESET_NAMES, options_of, prepared
from snref.plans import OutOfMemory
from snref.policies import POLICIES
from snref.views import COLUMN, look

NET = "resnet50"
GIBS = 2, 4, 8, 12
PLANNERS = (
    "baseline",
    "liveness",
    "superneurons",
    "cache",
    "mxnet",
    "vdnn-all",
    "chen",
    "reuse",
    LEAST_TIME,
    "joint",
)
EFFORT = 0.01  # of the search for the quickest plan: what counts is that it fits
LIMIT = 2**14  # where the search for a batch ends
OR_MORE = f"{LIMIT} or more"


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Search for the batches that are not among the rows: yields a row each."""
    yield from _search(NET, rows)


def measure_net(name: str, batch: int | None) -> list[dict[str, Any]]:
    """Return the rows of another net; its batch is what is looked for."""
    return [*_search(name, [])]


def _search(name: str, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    done = {(row["planner"], row["memory_gib"]) for row in rows}
    todo = [(p, size) for p in PLANNERS for size in GIBS if (p, size) not in done]
    with Progress("wider", len(todo)) as progress:
        for planner, size in todo:
            progress.show(f"{name}, {planner}, {size} GiB")
            fit = _largest(name, planner, size << 30)
            yield {
                "net": name,
                "planner": planner,
                "memory_gib": size,
                "batch": fit.net.batch if fit else 0,
                "modelled_images_per_second": (
                    round(fit.images_per_second, 2) if fit else ""
                ),
            }


def _largest(name: str, planner: str, memory: int) -> Fit | None:
    """Return the plan of the largest batch that fits; None if no batch does."""
    counting = Counting()
    preset = planner if planner in PRESET_NAMES else None
    policy = planner if planner in POLICIES else None
    options = options_of(preset)

    def net(batch: int) -> Net:
        return prepared(find(name, batch), preset)

    def attempt(batch: int) -> Fit | OutOfMemory:
        try:
            return fitted(
                net(batch), memory, preset=preset, policy=policy, effort=EFFORT
            )
        except OutOfMemory as error:
            return error

    most = largest(lambda batch: counting.least(net(batch), options) <= memory, LIMIT)
    fixed = sum(counting.resident(net(1)).values())
    return largest_of(attempt, most, memory, fixed)[1]


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row a planner and a column a size of memory."""
    sizes = [*dict.fromkeys(row["memory_gib"] for row in rows)]
    found = {(row["planner"], row["memory_gib"]): _batch(row) for row in rows}
    planners = dict.fromkeys(row["planner"] for row in rows)
    lines: list[tuple[Cell, ...]] = [
        (planner, *(found.get((planner, size)) for size in sizes))
        for planner in planners
    ]
    heads = (f"{size} GiB" for size in sizes)
    table = Table(("planner", *heads), lines).text()
    end = f"\n\n{OR_MORE}: the search ends there" if _ends(rows) else ""
    return f"largest batch of {rows[0]['net']}\n\n{table}{end}"


def _batch(row: dict[str, Any]) -> int | str:
    return OR_MORE if row["batch"] >= LIMIT else int(row["batch"])


def _ends(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether a planner's largest batch is beyond the search."""
    return any(row["batch"] >= LIMIT for row in rows)


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the largest batch over the memory, a curve a planner."""
    figure = Figure(figsize=(COLUMN, 2.9))
    axes = figure.subplots()
    for planner in dict.fromkeys(row["planner"] for row in rows):
        of_it = [row for row in rows if row["planner"] == planner and row["batch"]]
        axes.plot(
            [row["memory_gib"] for row in of_it],
            [row["batch"] for row in of_it],
            label=planner,
            **look(planner),
        )
    axes.set_xlim(left=0)
    axes.set_yscale("log")  # or the low curves lie on each other
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if _ends(rows):
        axes.axhline(LIMIT, color="#555555", linewidth=0.8, zorder=1)
        axes.text(0, 1.1 * LIMIT, f" {OR_MORE}", va="bottom", color="#555555")
    axes.set_xlabel("GiB of device memory, parameters and all")
    axes.set_ylabel("largest batch")
    axes.set_title(rows[0]["net"])
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    size = max(row["memory_gib"] for row in rows)
    batches = {row["planner"]: _batch(row) for row in rows if row["memory_gib"] == size}
    said = ", ".join(f"{batch} by {planner}" for planner, batch in batches.items())
    end = f" The search ends at {LIMIT}." if _ends(rows) else ""
    return f"The largest batch of {rows[0]['net']} in {size} GiB: {said}.{end}"
