"""SuperNeurons, table 3: bytes copied in an iteration, without and with the cache.

AlexNet on a device of 12 GiB: the unified tensor pool copies the output of every
convolution away and back, whether memory is short or not; the tensor cache only what
does not fit. Both with cost-aware recomputation.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.net import Net
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.plans import OutOfMemory
from snref.views import COLUMN, look

NET = "alexnet"
BATCHES = 256, 384, 512, 640, 896, 1024, 1280, 1536, 1792, 2048, 2304, 2560, 2816
PRESETS = "superneurons", "cache"
TITLES = {"superneurons": "pool, without cache", "cache": "with cache"}
MEMORY = 12 << 30
GB = 10**9


def measure() -> list[dict[str, Any]]:
    """Plan each batch with and without the cache."""
    rows = []
    for batch in BATCHES:
        net = find(NET, batch)
        columns = {f"{preset}_bytes": _copied(net, preset) for preset in PRESETS}
        rows.append({"net": NET, "batch": batch, "memory_bytes": MEMORY, **columns})
    return rows


def _copied(net: Net, preset: str) -> int | str:
    """Return the bytes that a plan copies; nothing if there is no plan."""
    try:
        made = plan(net, preset=preset, memory=MEMORY)
    except OutOfMemory:
        return ""
    return made.offload_bytes + made.prefetch_bytes


def _gigabytes(row: dict[str, Any], preset: str) -> float | None:
    nbytes = row[f"{preset}_bytes"]
    return None if nbytes == "" else nbytes / GB


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table, in GB of 10^9 bytes as the paper's."""
    lines = [(row["batch"], *(_gigabytes(row, p) for p in PRESETS)) for row in rows]
    return Table(("batch", *(f"GB {TITLES[p]}" for p in PRESETS)), lines).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a curve for each of the two."""
    figure = Figure(figsize=(COLUMN, 2.4))
    axes = figure.subplots()
    for preset in PRESETS:
        fits = [row for row in rows if _gigabytes(row, preset) is not None]
        copied = [_gigabytes(row, preset) or 0.0 for row in fits]
        batches = [row["batch"] for row in fits]
        axes.plot(batches, copied, label=TITLES[preset], **look(preset))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=-0.2)
    axes.set_xlabel("batch")
    axes.set_ylabel("GB copied in an iteration")
    axes.set_title(f"{rows[0]['net']}, {rows[0]['memory_bytes'] >> 30} GiB")
    axes.legend(loc="upper left")
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    idle = [row["batch"] for row in rows if row["cache_bytes"] == 0]
    last = rows[-1]
    pool = [row for row in rows if row["superneurons_bytes"] != ""][-1]
    return (
        f"Copies of {last['net']} in {last['memory_bytes'] >> 30} GiB: with the tensor "
        f"cache, none up to batch {max(idle, default=0)}, and "
        f"{_gigabytes(last, 'cache') or 0:.2f} GB at batch {last['batch']}; the pool "
        f"alone copies {_gigabytes(pool, 'superneurons') or 0:.2f} GB at batch "
        f"{pool['batch']}, and does not fit the next one."
    )


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Compare with the paper's table, whose set of copies is not known."""
    found = {row["batch"]: row for row in rows}
    return [
        number.beside(found[number.batch][f"{number.plan}_bytes"] / GB)
        for number in numbers(item="transfers")
    ]
