"""How near the certified bound the quickest plans are, in less and less memory.

Seven nets in ten slabs each, from the lower bound (the tensors of the largest run) to
what liveness needs; on a virtual K40c and H200; with the declarations of the paper's
code and with lean ones. What a plan takes longer than the bound is split by its causes
(``snref/planning/distance.py``). This takes some hours:

python -m figures quickest --measure long
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.progress import Progress
from snref.commands.sweep import evenly
from snref.commands.tables import Cell, Table
from snref.layers.base import Declarations
from snref.net import ForkMode, Net, route
from snref.nets import find
from snref.planning.bound import bound
from snref.planning.distance import distance
from snref.planning.quickest.frontier import Frontier
from snref.planning.quickest.gaps import Problem
from snref.planning.quickest.search import Limits
from snref.plans import extent, lower_bound
from snref.plans.verification import verify
from snref.scheduler import PRESETS, schedule
from snref.scheduler.in_place import overwrite
from snref.support.garbage import no_garbage_collection
from snref.timing import roofline
from snref.views import PAGE

NETS = {
    "alexnet": 200,
    "vgg16": 64,
    "unet": 4,
    "resnet50": 128,
    "gpt2": 16,
    "inception_v4": 32,
    "densenet121": 64,
}
DECLARATIONS: dict[Declarations, ForkMode] = {
    "original": "copy",
    "lean": "share",
}  # and how outputs fork
MACHINES = "k40c", "h200"
SLABS = 10
EFFORTS = 0.1, 1.0  # the second where the first does not come near enough
SHARE = 0.3  # of the slab of liveness; from here up ...
NEAR, BELOW = 1.05, 1.10  # ... at most so many times the bound, and below it
TOLD = "machine", "declarations", "net", "share", "times_bound"
CAUSES = "recomputation", "waiting", "placement", "algorithms", "unavoidable"


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Plan for the slabs that are not among the rows: yields a row each."""
    done = {_key(row) for row in rows}
    todo = [
        (machine, declarations, net)
        for machine in MACHINES
        for declarations in DECLARATIONS
        for net in NETS
        if any((machine, declarations, net, n) not in done for n in range(SLABS))
    ]
    with Progress("quickest", len(todo)) as progress:
        for machine, declarations, name in todo:
            progress.show(f"{name}, {declarations}, {machine}")
            net = find(name, NETS[name]).with_options(
                declarations, DECLARATIONS[declarations]
            )
            for row in _rows(net, name, machine, declarations):
                if _key(row) not in done:
                    yield row


def _key(row: dict[str, Any]) -> tuple[str, str, str, int]:
    return row["machine"], row["declarations"], row["net"], row["slab"]


def _rows(
    net: Net, name: str, machine: str, declarations: Declarations
) -> Iterator[dict[str, Any]]:
    whole = route(net)
    costs = roofline.costs(whole, roofline.machine(f"virtual:{machine}"))
    liveness = extent(schedule(whole, PRESETS["liveness"]))
    problem = Problem(overwrite(whole, "gradients"), costs, "exact")
    least = lower_bound(overwrite(whole, "gradients"))
    with no_garbage_collection():
        frontiers = {e: Frontier(problem, Limits(), e) for e in EFFORTS}
    for number, nbytes in enumerate(evenly(least, liveness, SLABS)):
        start = time.process_time()
        proven = 0.0
        for effort in EFFORTS:
            with no_garbage_collection():
                point = frontiers[effort].best(nbytes)
            assert point is not None, "the lower bound has a plan"
            proven = proven or bound(problem, nbytes, point.seconds)
            if point.seconds <= proven * _aim(nbytes / liveness):
                break
        assert point is not None, "there is an effort"
        verify(point.plan, whole, capacity=nbytes, slab=nbytes)
        found = distance(point.plan, problem, nbytes, proven)
        yield {
            "machine": machine,
            "declarations": declarations,
            "net": name,
            "batch": net.batch,
            "slab": number,
            "bytes": nbytes,
            "share": round(nbytes / liveness, 3),
            "seconds": round(point.seconds, 6),
            "bound": round(proven, 6),
            "times_bound": round(point.seconds / proven, 4),
            **{cause: round(getattr(found, cause), 6) for cause in CAUSES},
            "effort": effort,
            "cpu_seconds": round(time.process_time() - start, 2),
        }


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return times the bound by net and slab, and the causes of each miss."""
    tables = []
    for machine in MACHINES:
        for declarations, fork in DECLARATIONS.items():
            lines: list[tuple[Cell, ...]] = []
            for net, batch in NETS.items():
                cells = {
                    row["slab"]: f"{row['times_bound']:.3f}{'*' * _misses(row)}"
                    for row in rows
                    if _key(row)[:3] == (machine, declarations, net)
                }
                found = (cells.get(number, "not run") for number in range(SLABS))
                lines.append((f"{net} b{batch}", *found))
            heads = (str(number) for number in range(SLABS))
            table = Table(("net, slab", *heads), lines).text()
            if not any(_key(row)[:2] == (machine, declarations) for row in rows):
                table = "not run"
            tables.append(f"{machine}, {declarations}, fork {fork}\n\n{table}")
    misses = [
        (
            *(row[key] for key in TOLD),
            *(row[cause] / row["bound"] for cause in CAUSES),
        )
        for row in rows
        if _misses(row)
    ]
    columns = (*(key.replace("_", " ") for key in TOLD), *CAUSES)
    tables.append(
        f"Times the bound in slab 0, the lower bound, to {SLABS - 1}, what liveness "
        f"needs.\n* more than {NEAR}, or {BELOW} below a share of {SHARE} of that; "
        "causes as shares of the bound, which the unavoidable ones are part of:"
    )
    tables.append(Table(columns, misses).text() if misses else "none")
    return "\n\n".join(tables)


def _misses(row: dict[str, Any]) -> bool:
    return bool(row["times_bound"] > _aim(row["share"]))


def _aim(share: float) -> float:
    """Return how many times the bound a plan may take at most."""
    return NEAR if share >= SHARE else BELOW


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw times the bound against the share of what liveness needs."""
    measured = [m for m in MACHINES if any(row["machine"] == m for row in rows)]
    figure = Figure(figsize=(PAGE, 0.6 + 1.9 * len(measured)))
    panels = figure.subplots(len(measured), 2, sharex=True, sharey=True, squeeze=False)
    for across, machine in zip(panels, measured, strict=True):
        for axes, declarations in zip(across, DECLARATIONS, strict=True):
            for net in NETS:
                of_it = [r for r in rows if _key(r)[:3] == (machine, declarations, net)]
                shares = [row["share"] for row in of_it]
                times = [row["times_bound"] for row in of_it]
                axes.plot(shares, times, marker="o", label=net)
            axes.step(
                [0, SHARE, 1],
                [BELOW, BELOW, NEAR],
                where="pre",
                color="#999999",
                linestyle="--",
                linewidth=1,
            )
            axes.set_title(f"virtual {machine}, {declarations}")
    axes = panels[0, 0]
    axes.set_yscale("log")
    ticks = (1, 1.2, 1.5, 2, 3, 5)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    for axes in panels[-1]:
        axes.set_xlabel("slab, as a share of what liveness needs")
    for axes in panels[:, 0]:
        axes.set_ylabel("seconds (model) over the bound")
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(NETS))
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    near = sum(not _misses(row) for row in rows)
    return (
        f"Modelled seconds of the quickest plan over the certified bound, in "
        f"{SLABS} slabs of each net: {near} of {len(rows)} are within {NEAR} of it, or "
        f"{BELOW} below a share of {SHARE} (dashed)."
    )
