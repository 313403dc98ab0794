"""SuperNeurons, table 2: the memory pool against one allocation for each tensor.

The allocations and releases of an iteration, as the plan has them (preset
superneurons), are played on the paper's pool, and on the allocator of the device:
cuMemAlloc and cuMemFree if there is a GPU, else malloc and free of the host, which say
little of a GPU. Beside them the modelled seconds of an iteration on a virtual K40c.

python -m figures pool --measure long
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from snref.commands.tables import Table
from snref.device.present import find_gpu
from snref.nets import find
from snref.papers import Claim, numbers
from snref.planning import plan
from snref.plans import Alloc, Free, Plan
from snref.scheduler.slab import Pool
from snref.views import BLUE, COLUMN, GREY

NETS = {"alexnet": 128, "resnet50": 16}
ROUNDS = 20
GPU = "cuMemAlloc"


class Allocator(NamedTuple):
    """What allocates for each tensor anew.

    allocate  returns an address for so many bytes
    """

    name: str
    allocate: Callable[[int], Any]
    free: Callable[[Any], Any]


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row a net. All are measured in one run. So none is if there are rows."""
    if rows:
        return
    allocator = _allocator()
    for name, batch in NETS.items():
        net = find(name, batch)
        planned = plan(net, preset="superneurons")
        trace = _trace(planned.plan)
        yield {
            "net": name,
            "batch": batch,
            "allocations": sum(begins for _, _, begins in trace),
            "peak_bytes": max(_in_use(trace)),
            "pool_extent_bytes": _play(trace, Pool(None)),
            "allocator": allocator.name,
            "pool_seconds": _best(trace, Pool(None)),
            "allocator_seconds": _best(trace, allocator),
            "modelled_seconds": round(planned.timeline.seconds, 6),
        }


def _trace(made: Plan) -> list[tuple[int, int, bool]]:
    """Return the events of a plan: tensor, bytes, whether it is allocated."""
    numbers: dict[str, int] = {}
    return [
        (
            numbers.setdefault(step.tensor.name, len(numbers)),
            step.tensor.nbytes,
            isinstance(step, Alloc),
        )
        for step in made.steps
        if isinstance(step, Alloc | Free)
    ]


def _in_use(trace: Sequence[tuple[int, int, bool]]) -> Iterator[int]:
    """Yield the bytes in use after each event."""
    nbytes = 0
    for _, size, begins in trace:
        nbytes += size if begins else -size
        yield nbytes


def _play(trace: Sequence[tuple[int, int, bool]], where: Pool | Allocator) -> int:
    """Allocate and free as the trace says. Returns the highest address in use."""
    places: dict[int, Any] = {}
    highest = 0
    for number, nbytes, begins in trace:
        if begins:
            place: Any = where.allocate(nbytes)
            places[number] = place
            highest = max(highest, place + nbytes)
        else:
            where.free(places.pop(number))
    return highest


def _best(trace: Sequence[tuple[int, int, bool]], where: Pool | Allocator) -> float:
    """Return the least seconds of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = perf_counter()
        _play(trace, where)
        best = min(best, perf_counter() - start)
    return round(best, 7)


def _allocator() -> Allocator:
    """Return the allocator of the GPU, or of the host if there is none."""
    if find_gpu().works:
        from cuda.bindings import driver

        from snref.device.cuda import GPU as Device
        from snref.device.cuda import _call

        Device(0)  # makes its context the current one
        return Allocator(
            GPU,
            lambda nbytes: int(_call(driver.cuMemAlloc, nbytes)),
            lambda address: _call(driver.cuMemFree, address),
        )
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    return Allocator("malloc of the host", library.malloc, library.free)


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    heads = (name.replace("_", " ") for name in rows[0])
    return Table([*heads], [tuple(row.values()) for row in rows]).text()


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw for each net the microseconds of an iteration's allocations."""
    figure = Figure(figsize=(COLUMN, 2.2))
    axes = figure.subplots()
    labels = [f"{r['net']} b{r['batch']}\n{r['allocations']} tensors" for r in rows]
    names = {"allocator_seconds": rows[0]["allocator"], "pool_seconds": "pool"}
    for number, (column, colour) in enumerate(zip(names, (GREY, BLUE), strict=True)):
        spent = [1e6 * row[column] for row in rows]
        places = [i + 0.4 * (number - 0.5) for i in range(len(rows))]
        bars = axes.bar(places, spent, width=0.38, color=colour, label=names[column])
        axes.bar_label(bars, fmt="%.0f", padding=1, fontsize=6.5)
    axes.set_xticks(range(len(rows)), labels)
    axes.set_ylabel("µs an iteration, on the host")
    axes.legend(loc="upper left")
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    said = "; ".join(
        f"{row['net']} b{row['batch']}: {row['allocations']} allocations, "
        f"{1e6 * row['allocator_seconds']:.0f} µs by {row['allocator']}, "
        f"{1e6 * row['pool_seconds']:.0f} µs by the pool, which needs "
        f"{100 * (row['pool_extent_bytes'] / row['peak_bytes'] - 1):.1f} % more bytes "
        "than are in use"
        for row in rows
    )
    return f"An iteration's allocations one by one, and from the pool; {said}."


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Show what the pool gains beside the paper's machine, if there was a GPU.

    The seconds of the iteration are the model's, those of the allocations measured.
    """
    found = {row["net"]: row for row in rows if row["allocator"] == GPU}
    claims = []
    for number in numbers(item="pool"):
        if row := found.get(number.net):
            each = row["modelled_seconds"] + row["allocator_seconds"]
            pool = row["modelled_seconds"] + row["pool_seconds"]
            lost = 100 * row["allocator_seconds"] / each
            here = lost if number.plan == "cudaMalloc" else each / pool
            claims.append(number.beside(here))
    return claims
