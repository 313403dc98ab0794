"""``snref sweep``: what less and less memory costs, planner by planner."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import snref
from snref.commands import arguments as shared
from snref.commands.compare import marked, seconds_of
from snref.commands.progress import Progress
from snref.commands.tables import Table, put
from snref.net import Net
from snref.planning.candidates import (
    LEAST_TIME,
    SAVINGS,
    Answer,
    Candidate,
    candidates,
    from_file,
    moved,
    variations,
)
from snref.planning.planned import plan
from snref.planning.quickest import Overrides
from snref.planning.reports import PlannedNet
from snref.plans import OutOfMemory, extent, lower_bound
from snref.policies import NotApplicable
from snref.support.files import complain, replacing
from snref.support.units import mebibytes, parsed, shortened
from snref.views import PAGE, look, styled

EXAMPLE = "snref sweep lenet --policy chen,cache,least-time --memory 10MB:20MB:3"
DEFAULT = "liveness", "superneurons", "cache", "least-time"
POINTS, MOST_POINTS = 10, 1000
PICTURES = (".png", ".pdf", ".svg")
COLUMNS = (
    "memory",
    "plan",
    "seconds",
    "times no limit",
    "waiting",
    "extra forwards",
    "total MiB",
    "copied out MiB",
    "host MiB",
    *SAVINGS,
    "why not",
)
MIB = 2**20
ENDLESS = 1 << 62  # bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    shared.add_policies(parser, ", ".join(DEFAULT))
    parser.add_argument(
        "--memory",
        type=budgets,
        metavar="LO:HI:N",
        help="N sizes of the device's memory from LO to HI, evenly apart; default: "
        f"{POINTS} from the least that has a plan to what liveness needs",
    )
    parser.add_argument(
        "--host-memory",
        type=shared.size,
        metavar="SIZE",
        help="the host memory that a plan may use for copies",
    )
    shared.add_vary(parser)
    shared.add_machine(parser)
    shared.add_tables(parser, "the table")
    parser.add_argument(
        "--out",
        type=picture,
        metavar="FILE",
        help=f"draw seconds against memory: {', '.join(PICTURES)}",
    )


def budgets(text: str) -> list[int]:
    """Parse LO:HI:N as sizes (an argparse type).

    >>> budgets("1KB:2KB:3")
    [1000, 1500, 2000]
    """
    try:
        low, high, count = text.split(":")
        sizes, number = (parsed(low), parsed(high)), int(count)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: must be LO:HI:N, two sizes and a number, "
            "such as 1GiB:2GiB:10"
        ) from None
    if not 2 <= number <= MOST_POINTS or sizes[0] >= sizes[1]:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: LO must be below HI, and N from 2 to {MOST_POINTS}"
        )
    return evenly(*sizes, number)


def evenly(low: int, high: int, count: int) -> list[int]:
    """So many whole numbers from low to high, both included."""
    return [low + (high - low) * i // (count - 1) for i in range(count)]


def picture(path: str) -> str:
    """Parse an argument as a picture to write (an argparse type)."""
    if Path(path).suffix.lower() not in PICTURES:
        raise argparse.ArgumentTypeError(
            f"{shortened(path)}: must end in {', '.join(PICTURES)}"
        )
    return shared.output(path)


def run(arguments: argparse.Namespace) -> int:
    shared.check_vary(arguments)
    net = shared.net_of(arguments)
    asked = candidates(arguments.policy or DEFAULT)
    asked |= {path: from_file(path, net) for path in arguments.plan}
    sizes = arguments.memory or _from_least_to_liveness(net)
    common = shared.common(arguments)
    limits = {
        "host_memory": arguments.host_memory,
        "device": arguments.device,
        "costs": shared.costs_of(arguments),
        **common,
    }
    best = plan(net, memory=ENDLESS, **limits).timeline.seconds
    machines = dict(variations(arguments.device)) if arguments.vary else {}
    points: list[_Point] = []
    with Progress("sweep", len(sizes) * len(asked)) as progress:
        for memory in sizes:
            for each in asked.values():
                progress.show(f"{each.name} in {mebibytes(memory)} MiB")
                answer = each.answer(net, memory=memory, **limits)
                point = _Point(net, memory, each, answer, common)
                points.append(point)
                for name, machine in machines.items():
                    other = each.answer(net, machine, memory=memory, **limits)
                    point.varied[name] = seconds_of(other)
    if all(isinstance(point.answer, NotApplicable) for point in points):
        raise ValueError(str(points[0].answer))
    _mark(points)
    table = Table((*COLUMNS, *machines), [point.row(best) for point in points])
    folded, terms = table.folded(SAVINGS)
    if not any(point.row(best)[-1 - len(machines)] for point in points):
        folded, _ = folded.folded(COLUMNS[-1:])
    text = (
        f"{_title(net)}; seconds: modelled; times no limit: over {best:.4g} s, "
        f"everything kept\n{terms}\n\n{folded.text()}"
    )
    if machines:
        text += f"\n\n{shared.VARIED}"
    put(arguments, text, table, _report(net, points, best))
    fits = any(point.seconds is not None for point in points)
    if not fits:
        complain("snref: nothing fits" + ("; no picture" if arguments.out else ""))
    elif arguments.out is not None:
        _draw(arguments.out, net, points, [*asked])
    return 0 if fits else 1


def _mark(points: Sequence["_Point"]) -> None:
    """Find in each size of memory the planners whose rank another machine changes."""
    for memory in {point.memory for point in points}:
        here = [point for point in points if point.memory == memory]
        seconds = {point.name: point.seconds for point in here}
        for machine in here[0].varied:
            changed = moved(seconds, {p.name: p.varied[machine] for p in here})
            for point in here:
                if point.name in changed:
                    point.marks.add(machine)


def _from_least_to_liveness(net: Net) -> list[int]:
    freed = plan(net, preset="liveness")
    low = freed.total_bytes - extent(freed.plan) + lower_bound(freed.plan)
    return evenly(low, max(freed.total_bytes, low + 1), POINTS)


class _Point:
    """What a planner answers for a size of memory.

    varied  the seconds on other machines, by the variation
    marks   those of them on which the planner has another rank
    """

    def __init__(
        self,
        net: Net,
        memory: int,
        planner: Candidate,
        answer: Answer,
        common: Overrides,
    ) -> None:
        self.memory, self.name, self.answer = memory, planner.name, answer
        self.savings = planner.savings(net, answer, **common)
        self.varied: dict[str, float | None] = {}
        self.marks: set[str] = set()

    @property
    def seconds(self) -> float | None:
        return seconds_of(self.answer)

    def row(self, best: float) -> tuple[Any, ...]:
        made, terms = self.answer, self.savings.values()
        varied = (marked(s, name in self.marks) for name, s in self.varied.items())
        if not isinstance(made, PlannedNet):
            nothing = (None for _ in COLUMNS[2 : -len(SAVINGS) - 1])
            return (self.memory, self.name, *nothing, *terms, _why(made), *varied)
        seconds = made.timeline.seconds
        return (
            self.memory,
            self.name,
            seconds,
            seconds / best if best else None,
            made.timeline.stall_seconds,
            made.extra_forwards,
            made.total_bytes / MIB,
            made.offload_bytes / MIB,
            made.host_bytes / MIB,
            *terms,
            None,
            *varied,
        )


def _why(answer: Answer) -> str:
    if isinstance(answer, OutOfMemory):
        return f"does not fit: {shared.least_that_works(answer)}"
    return str(answer)


def _title(net: Net) -> str:
    return f"{net.name}, input {' x '.join(map(str, net.input_shape))}"


def _report(net: Net, points: Sequence[_Point], best: float) -> dict[str, Any]:
    def entry(point: _Point) -> dict[str, Any]:
        made = point.answer
        found = {"memory_bytes": point.memory, "plan": point.name} | point.savings
        if point.varied:
            found["seconds_on_other_machines"] = point.varied
        if isinstance(made, PlannedNet):
            whole = made.to_json()
            names = ("total_bytes", "extra_forwards", "offload_bytes", "host_bytes")
            found |= {name: whole[name] for name in (*names, "modelled")}
            return found | {"fits": True}
        return found | {"fits": False, "why": _why(made)}

    return {
        "schema": "snref.sweep/1",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "unit": "bytes",
        "seconds_without_limit": best,
        "points": [entry(point) for point in points],
    }


def _lines(
    points: Sequence[_Point], names: Sequence[str]
) -> Iterator[tuple[str, list[int], list[float]]]:
    """Yield for each planner the sizes in which it has a plan, and the seconds."""
    for name in names:
        of_it = [p for p in points if p.name == name and p.seconds is not None]
        sizes = [point.memory for point in of_it]
        yield name, sizes, [point.seconds or 0.0 for point in of_it]


def _draw(path: str, net: Net, points: Sequence[_Point], names: Sequence[str]) -> None:
    # Imported here: no other command needs it, and it takes a second.
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(PAGE, 3.2))
        axes = figure.subplots()
        for name, sizes, seconds in _lines(points, names):
            wide = 2.0 if name == LEAST_TIME else 1.2
            mib = [size / MIB for size in sizes]
            axes.plot(mib, seconds, linewidth=wide, label=name, **look(name))
        axes.set_xlabel("MiB of device memory, parameters and all")
        axes.set_ylabel("modelled seconds of an iteration")
        axes.set_title(_title(net))
        figure.legend(loc="outside right upper")
        with replacing(Path(path)) as file:
            figure.savefig(file, format=Path(path).suffix[1:].lower())
