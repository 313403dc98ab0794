"""SuperNeurons, tables 4 and 5: how deep, and with how large a batch, nets can train.

The deepest ResNet at batch 16, and the largest batch of six nets, that each planner
fits into so much memory of the device, parameters and all, and so much of the host. The
paper's GPU has 12 GB; whether these are 12 GiB or 12 x 10^9 bytes it does not say, so
both are searched. All searches together take many hours:

python -m figures capacity --measure long
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from matplotlib.figure import Figure

from snref.commands.progress import Progress
from snref.commands.tables import Cell, Table
from snref.net import Net, route
from snref.nets import find
from snref.papers import Claim, Kind, Number, numbers
from snref.planning.fit import Counting, Fit, fitted, largest, largest_of
from snref.planning.planned import JOINT, NET_OPTIONS, options_of, prepared
from snref.planning.quickest.frontier import Frontier
from snref.planning.quickest.gaps import Problem
from snref.planning.quickest.search import Limits
from snref.plans import OutOfMemory
from snref.plans.verification import verify
from snref.policies import POLICIES
from snref.scheduler import PRESETS
from snref.scheduler.in_place import overwrite
from snref.support.garbage import no_garbage_collection
from snref.timing import roofline
from snref.views import PAGE, colour

DEEPEST = "deepest resnet"
PAPER: dict[str, Number] = {  # batches, and layers at batch 16
    number.net: number
    for item in ("going wider", "going deeper")
    for number in numbers(item=item, plan="superneurons")
    if number.what in ("largest batch", "layers")
}
NEAREST = 1919  # below 1920: a ResNet of bottlenecks has 3 n + 2 layers
MEMORY = {"12 GiB": 12 * 2**30, "12 GB": 12 * 10**9}
HOST = {"128 GB": 128 * 10**9, "no limit": None}
QUICKEST = "least time"
FIRST = (
    QUICKEST,
    JOINT,
    "reuse",
    "superneurons",
    "cache",
    "vdnn-conv",
    "vdnn-all",
    "mxnet",
    "chen",
)
"""What is searched first. The others follow, those whose time grows fastest last."""
LAST = ("belady", "dtr", "memory-budget")
PLANNERS = (
    *FIRST,
    *(
        name
        for name in (*PRESETS, *POLICIES)
        if name not in (*FIRST, *LAST)
        and not (name in POLICIES and POLICIES[name].is_optimum)
    ),
    *LAST,
)

LIMIT = 2**14  # where a search ends
EFFORT = 0.01  # of the search for the quickest plan: what counts is that there is one
ROUGHLY = 0.02  # of the largest: where the host is limited, too, it is known up to that
NOT_RUN = "not run"
FRAMEWORKS = "Caffe", "MXNet", "Torch", "TensorFlow"
HIGHLIGHTED = QUICKEST, "joint", "reuse", "cache", "superneurons"


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Search for the largest nets that are not among the rows: yields a row each."""
    done = {_key(row) for row in rows}
    todo = [
        (what, memory, planner)
        for planner in PLANNERS
        for memory in MEMORY
        for what in PAPER
        if any((what, memory, host, planner) not in done for host in HOST)
    ]
    with Progress("capacity", len(todo)) as progress:
        for what, memory, planner in todo:
            progress.show(f"{what}, {memory}, {planner}")
            free, refused = _largest(what, MEMORY[memory], None, planner)
            if (what, memory, "no limit", planner) not in done:
                yield _row(what, memory, "no limit", planner, free, refused)
            limit = HOST["128 GB"]
            if free and limit and free.host_bytes > limit:
                free, refused = _largest(what, MEMORY[memory], limit, planner)
            if (what, memory, "128 GB", planner) not in done:
                yield _row(what, memory, "128 GB", planner, free, refused)


def _key(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["net"], row["memory"], row["host"], row["planner"]


def _row(
    what: str, memory: str, host: str, planner: str, found: Fit | None, refused: int
) -> dict[str, Any]:
    row = {
        "net": what,
        "memory": memory,
        "host": host,
        "planner": planner,
        "largest": 0,
        "refused": _layers(_net(what, refused)) if what == DEEPEST else refused,
        "seconds": "",
        "images_per_second": "",
        "host_gb": "",
        "overwrite": "",
        "algorithms": "",
    }
    if found is not None:
        options = found.options
        row |= {
            "largest": _layers(found.net) if what == DEEPEST else found.net.batch,
            "seconds": round(found.seconds, 4),
            "images_per_second": round(found.images_per_second, 2),
            "host_gb": round(found.host_bytes / 1e9, 3),
            "overwrite": options.overwrite,
            "algorithms": options.algorithms,
        }
    return row


def _largest(
    what: str, memory: int, host: int | None, planner: str
) -> tuple[Fit | None, int]:
    """Return the plan of the largest net that fits, and the smallest that was refused.

    The plan is None if none fits.
    """
    most = _most(what, memory, planner if planner in NET_OPTIONS else None)
    refused = [most + 1]

    def attempt(number: int) -> Fit | OutOfMemory:
        net = _net(what, number)
        try:
            if planner in (QUICKEST, JOINT):
                preset = JOINT if planner == JOINT else None
                return _quickest(prepared(net, preset), memory, host, preset)
            return fitted(
                net,
                memory,
                preset=planner if planner in PRESETS else None,
                policy=planner if planner in POLICIES else None,
                host_memory=host,
            )
        except OutOfMemory as error:
            refused.append(number)
            return error

    fixed = sum(Counting().resident(_net(what, 1)).values())
    searched = planner in (QUICKEST, JOINT)
    share = ROUGHLY if searched and host is not None else 0.0
    found = largest_of(attempt, most, memory, fixed, share)[1]
    return found, min(refused)


def _quickest(net: Net, memory: int, host: int | None, preset: str | None) -> Fit:
    """Return the quickest plan, as ``fitted`` does.

    Raises OutOfMemory that does not say how much would do: that is what takes long.
    """
    resident = Counting().resident(net)
    nbytes = memory - sum(resident.values())
    options = replace(
        options_of(preset),
        recompute="per tensor",
        transfers="per tensor",
        capacity=nbytes,
        slab=nbytes,
        host_capacity=host,
    )
    with no_garbage_collection():
        whole = route(net)
        costs = roofline.costs(whole, roofline.machine("virtual:k40c"))
        made = overwrite(whole, options.overwrite)
        problem = Problem(made, costs, options.algorithms)
        found = Frontier(problem, Limits(host=host), EFFORT).best(nbytes)
        if found is None:
            raise OutOfMemory("the host", 0, host or 0, 0)
        verify(found.plan, whole, slab=nbytes, host_capacity=host)
    return Fit(net, found.plan, options, resident, costs)


@cache
def _most(what: str, memory: int, preset: str | None) -> int:
    """Return the largest number for which the largest run fits; no plan goes beyond."""
    counting, options = Counting(), options_of(preset)

    def fits(number: int) -> bool:
        net = prepared(_net(what, number), preset)
        return counting.least(net, options) <= memory

    return largest(fits, LIMIT)


def _net(what: str, number: int) -> Net:
    if what == DEEPEST:
        return find(f"resnet:6,32,{number},6", batch=16)
    return find(what, batch=number)


def _layers(net: Net) -> int:
    """Convolutions and products in a row of a ResNet of bottlenecks."""
    return 3 * sum(map(int, net.name.partition(":")[2].split(","))) + 2


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table for each size of memory: the paper, and the planners."""
    found = {_key(row): row for row in rows}
    tables = []
    for memory in MEMORY:
        for host in HOST:
            lines: list[tuple[Cell, ...]] = [
                ("the paper", *(int(n.value) for n in PAPER.values())),
                *((f"its {who}", *_papers(who)) for who in FRAMEWORKS),
            ]
            missing = []
            for planner in PLANNERS:
                keys = [(what, memory, host, planner) for what in PAPER]
                if any(key in found for key in keys):
                    lines.append((planner, *(_cell(found.get(key)) for key in keys)))
                else:
                    missing.append(planner)
            table = Table(("planner", *PAPER), lines).text()
            tables.append(f"{memory} on the device, {host} on the host\n\n{table}")
            if missing:
                tables.append(f"{NOT_RUN}: {', '.join(missing)}")
    return "\n\n".join(
        [
            *tables,
            f"{DEEPEST}: layers, at batch 16; the others: batch; +: a number up to "
            f"{ROUGHLY:.0%} larger may fit, too; {NOT_RUN}: was not searched, or, of a "
            "depth, not within four minutes; none: nothing fits, of a depth not even "
            f"{_layers(_net(DEEPEST, 1))} layers, the least; the paper's are recalled",
            "All planners run all layers whole. superneurons is the paper's own "
            f"stages: it reaches {_over_the_papers(rows, 'superneurons')} times the "
            "paper's numbers in 12 GiB and 128 GB.",
        ]
    )


def _papers(who: str) -> Iterator[int | None]:
    """Yield what the paper says that another framework holds, as recalled."""
    said = {n.net: int(n.value) for n in numbers(plan=who)}
    for what in PAPER:
        yield said.get(what)


def _cell(row: dict[str, Any] | None) -> str:
    """Print the largest; "+" if it is not known exactly."""
    if row is None:
        return NOT_RUN
    if not row["largest"]:
        return "none"
    following = row["largest"] + (3 if row["net"] == DEEPEST else 1)
    more = "+" if row["refused"] > following else ""
    return f"{row['largest']:,}{more}"


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw for each net the planners' largest over the paper's, in 12 GiB."""
    figure = Figure(figsize=(PAGE, 3.3))
    axes = figure.subplots()
    places = {what: -number for number, what in enumerate(PAPER)}
    shown = [r for r in rows if (r["memory"], r["host"]) == ("12 GiB", "128 GB")]
    others = "the other planners"
    for name in (others, *reversed(HIGHLIGHTED)):
        points = [
            (row["largest"] / PAPER[row["net"]].value, places[row["net"]])
            for row in shown
            if name == (row["planner"] if row["planner"] in HIGHLIGHTED else others)
            and row["largest"]
        ]
        if not points:
            continue
        axes.scatter(
            [x for x, _ in points],
            [y for _, y in points],
            s=9 if name == others else 26,
            color="#b0b0b0" if name == others else colour(name),
            label=name,
            zorder=3,
        )
    axes.axvline(1, color="#555555", linewidth=0.8, zorder=1)
    axes.text(1, 0.45, " the paper", color="#555555")
    axes.set_xscale("log")
    ticks = (0.1, 0.2, 0.5, 1, 2, 4, 8)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    labels = [f"{what}\n{n.value:,.0f}" for what, n in PAPER.items()]
    axes.set_yticks([*places.values()], labels)
    axes.set_xlabel("largest batch, or number of layers, over the paper's")
    axes.set_title("12 GiB on the device, 128 GB on the host")
    figure.legend(ncols=6, loc="outside lower center")
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    said = [
        f"{ratios} times with {planner}"
        for planner in (QUICKEST, JOINT)
        if (ratios := _over_the_papers(rows, planner)) != NOT_RUN
    ]
    return (
        "The largest batch of six nets, and the deepest ResNet at batch 16, in 12 GiB, "
        f"all layers whole, over the paper's, as recalled: {', '.join(said)}. The "
        "paper's own stages, the preset superneurons, reach only "
        f"{_over_the_papers(rows, 'superneurons')} times these numbers."
    )


def _over_the_papers(rows: Sequence[dict[str, Any]], planner: str) -> str:
    """Say between which ratios to the paper's numbers a planner's largest are."""
    shown = {_key(row): row["largest"] for row in rows}
    ratios = [
        shown[key] / number.value
        for what, number in PAPER.items()
        if (key := (what, "12 GiB", "128 GB", planner)) in shown
    ]
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else NOT_RUN


def compare(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Hold the quickest plans to the paper's numbers; show our preset beside them.

    Our preset superneurons copies only outputs of convolutions, as the paper's text
    says; forks and joins stay. So it fits fewer images of a ResNet than the paper.
    """
    found = {_key(row): row["largest"] for row in rows}
    kinds: dict[str, Kind] = {
        QUICKEST: "at least",
        JOINT: "at least",
        "superneurons": "hardware",
    }
    claims = []
    for what, number in PAPER.items():
        for planner, kind in kinds.items():
            key = what, "12 GiB", "128 GB", planner
            if key in found:
                claim = number.beside(found[key])
                paper = NEAREST if what == DEEPEST else number.value
                name = f"{what}, {planner}, 12 GiB"
                claims.append(replace(claim, what=name, paper=paper, kind=kind))
    return claims
