"""The least memory of nets whose largest layers run in 1 to 16 parts of the batch.

For each number of parts: the bytes below which there is no plan, and the modelled time
of the quickest plan in them, on a virtual K40c. Once as ``joint`` plans, where the slab
holds the gradients of parameters, too; and once under lean declarations, where these
are resident and the slab holds data tensors alone. Where more parts bring nothing, the
run that limits is named.

python -m figures splitting --measure long
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from snref.commands.progress import Progress
from snref.commands.tables import Table
from snref.layers.base import Declarations
from snref.net import Net, route
from snref.nets import find
from snref.planning.planned import plan
from snref.planning.reports import resident
from snref.planning.splitting import InParts, NothingToSplit, split
from snref.plans import Plan, Run
from snref.scheduler.in_place import overwrite
from snref.views import BLUE, GREEN, GREY, PAGE, PURPLE, VERMILION

NETS = {"alexnet": 200, "vgg16": 64, "resnet50": 32, "gpt2": 8, "unet": 8}
COLOURS = dict(zip(NETS, (VERMILION, BLUE, GREEN, PURPLE, GREY), strict=True))
LINES: dict[Declarations, Literal["-", "--"]] = {"reuse": "-", "lean": "--"}
TITLES = {"reuse": "joint (declarations reuse)", "lean": "declarations lean"}
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
EFFORT = 0.1  # of the search; that of snref plan is 1, which finds quicker plans
SEARCHED = f"effort {EFFORT:g} where snref plan takes 1, so its plans may be quicker"
MIB = 2**20


@dataclass(frozen=True)
class Least:
    """The least that a net needs in so many parts."""

    parts: tuple[InParts, ...]
    run: Run  # that needs it

    @property
    def nbytes(self) -> int:
        return sum(tensor.aligned_bytes for tensor in self.run.working_set)


def least(net: Net, count: int) -> Least:
    """Return the least memory of a net in so many parts; whole if they bring none."""
    parts: tuple[InParts, ...] = ()
    whole: Plan = route(net)
    if count > 1:
        try:
            made = split(net, count, "activations")
            whole, parts = made.route, made.parts
        except NothingToSplit:
            pass
    runs = overwrite(whole, "activations").runs()
    return Least(parts, max(runs, key=lambda run: sum(_sizes(run))))


def _sizes(run: Run) -> list[int]:
    return [tensor.aligned_bytes for tensor in run.working_set]


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Plan what is not among the rows; yields a row for each number of parts."""
    done = {(row["net"], row["declarations"], row["parts"]) for row in rows}
    todo = [
        (name, declarations, count)
        for name in NETS
        for declarations in LINES
        for count in COUNTS
        if count <= NETS[name] and (name, declarations, count) not in done
    ]
    with Progress("splitting", len(todo)) as progress:
        for name, declarations, count in todo:
            progress.show(f"{name} {declarations} {count}")
            net = find(name, NETS[name]).with_options(declarations)
            found = least(net, count)
            memory = sum(resident(net).values()) + found.nbytes
            planned = plan(
                net,
                memory=memory,
                overwrite="activations",
                parts=count if found.parts else None,
                effort=EFFORT,
            )
            yield {
                "net": name,
                "batch": net.batch,
                "declarations": declarations,
                "parts": count,
                "split": "; ".join(map(str, found.parts)) or "nothing",
                "slab_mib": round(found.nbytes / MIB, 3),
                "data_mib": round(planned.peak_bytes / MIB, 3),
                "total_mib": round(planned.total_bytes / MIB, 3),
                "seconds": round(planned.timeline.seconds, 4),
                "extra_forwards": planned.extra_forwards,
                "copied_out_mib": round(planned.offload_bytes / MIB, 1),
                "limit": f"{found.run.layer} {found.run.phase}",
            }


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    heads = (name.replace("_", " ").replace("mib", "MiB") for name in rows[0])
    lines = [{**row, "declarations": TITLES[row["declarations"]]} for row in rows]
    table = Table([*heads], [tuple(line.values()) for line in lines]).text()
    return f"{table}\n\nseconds: modelled, of a short search, {SEARCHED}"


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the least memory over the number of parts, and the seconds that it costs."""
    figure = Figure(figsize=(PAGE, 2.6))
    left, right = figure.subplots(1, 2)
    for name in dict.fromkeys(row["net"] for row in rows):
        for declarations, line in LINES.items():
            own = [
                row
                for row in rows
                if (row["net"], row["declarations"]) == (name, declarations)
            ]
            if not own:
                continue
            counts = [row["parts"] for row in own]
            for axes, column in (left, "slab_mib"), (right, "seconds"):
                axes.plot(
                    counts,
                    [row[column] for row in own],
                    line,
                    marker=".",
                    color=COLOURS[name],
                )
    for axes, what, ticks in (
        (left, "least slab, MiB", (40, 100, 200, 400, 1000, 2000)),
        (right, "modelled seconds in that slab", (0.6, 1, 2, 4, 6)),
    ):
        axes.set_yscale("log")
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("parts of the batch")
        axes.set_ylabel(what)
    batches = {row["net"]: row["batch"] for row in rows}
    handles = [
        Line2D([], [], color=COLOURS[name], marker=".", label=f"{name} b{batch}")
        for name, batch in batches.items()
    ]
    handles += [
        Line2D([], [], color="#000000", linestyle=line, label=TITLES[declarations])
        for declarations, line in LINES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    said = []
    for name in dict.fromkeys(row["net"] for row in rows):
        own = [r for r in rows if r["net"] == name and r["declarations"] == "lean"]
        low = min(own, key=lambda row: (row["slab_mib"], row["parts"]))
        whole = own[0]["slab_mib"]
        if low["slab_mib"] < whole:
            said.append(
                f"{name} from {whole:.0f} to {low['slab_mib']:.0f} MiB in "
                f"{low['parts']} parts"
            )
        else:
            said.append(f"{name} not at all ({low['limit']})")
    return (
        "How far parts of the batch lower the least memory for data tensors, under "
        f"lean declarations with gradients over activations: {', '.join(said)}. "
        f"The seconds are of a short search ({SEARCHED})."
    )
