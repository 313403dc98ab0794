"""``snref compare``: all presets side by side, and the paper's numbers beside ours."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import snref
from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.net import Net
from snref.planning.planned import plan
from snref.planning.reports import COUNTS, PlannedNet
from snref.plans import OutOfMemory, extent
from snref.scheduler import PRESETS
from snref.scheduler.placement import place
from snref.support.units import mebibytes

EXAMPLE = "snref compare alexnet --batch 200"
DEMAND = ("speed-centric", "memory-centric", "superneurons")
MIB = 2**20

COLUMNS = (
    "plan",
    "peak MiB",
    "at step",
    "extent MiB",
    "first fit MiB",
    "extra forwards",
    "copied out MiB",
    "host MiB",
    "seconds",
    "waiting",
)


PEAK, FORWARDS = "peak MiB", "extra forwards"
DEMAND_PEAKS = (  # both ResNets have the same: they come from the first layers
    ("speed-centric, demand", PEAK, 455.125, True),
    ("memory-centric, demand", PEAK, 401, False),
    ("superneurons, demand", PEAK, 401, False),
)
# Numbers of the SuperNeurons paper, recalled without its text at hand, by net and
# batch: the plan, what is counted, the number, and whether the paper's nets and rules,
# derived by hand, explain all its digits. The others are shown; nothing is fitted.
PAPER: Mapping[tuple[str, int], Sequence[tuple[str, str, float, bool]]] = {
    ("alexnet", 200): (
        ("baseline", PEAK, 2189.437, True),
        ("liveness", PEAK, 1489.355, True),
        ("offload", PEAK, 1132.155, False),
        ("speed-centric", PEAK, 993.018, True),
        ("memory-centric", PEAK, 886.23, True),
        ("superneurons", PEAK, 886.23, True),  # in its table of strategies
        ("superneurons", PEAK, 886.385, False),  # in its figure by step
        ("speed-centric", FORWARDS, 14, True),
        ("memory-centric", FORWARDS, 23, True),
        ("superneurons", FORWARDS, 17, True),
    ),
    ("resnet50", 32): (
        *DEMAND_PEAKS,
        ("speed-centric, demand", FORWARDS, 84, True),
        ("memory-centric, demand", FORWARDS, 118, True),
        ("superneurons, demand", FORWARDS, 85, True),
    ),
    ("resnet101", 32): (
        *DEMAND_PEAKS,
        ("speed-centric, demand", FORWARDS, 169, True),
        ("memory-centric, demand", FORWARDS, 237, True),
        ("superneurons, demand", FORWARDS, 170, True),
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="compare a planner of your own, too; may be given several times",
    )
    shared.add_memory(parser)
    shared.add_machine(parser)
    shared.add_tables(parser, "the table")


def run(arguments: argparse.Namespace) -> int:
    net = shared.net_of(arguments)
    plans = dict(_plans(arguments, net))
    table = Table(COLUMNS, [_row(name, made) for name, made in plans.items()])
    paper = _paper(arguments, net, plans)
    shape = " x ".join(map(str, net.input_shape))
    text = (
        f"{net.name}, input {shape}, declarations {net.declarations}, "
        f"fork {net.forks}; peak: {COUNTS}; seconds: modelled\n\n{table.text()}"
    )
    if paper:
        columns = "plan", "what", "paper", "here", "verdict"
        verdicts = ("not explained, not fitted", "all digits agree")
        rows = [
            (name, what, str(number), here, verdicts[explained])
            for name, what, number, here, explained in paper
        ]
        text += "\n\nThe paper's numbers, recalled without its text at hand:\n\n"
        text += Table(columns, rows).text()
    report = {
        "schema": "snref.comparison/1",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "counts": COUNTS,
        "unit": "bytes",
        "plans": {name: _entry(made) for name, made in plans.items()},
        "paper": [
            dict(zip(("plan", "what", "paper", "here", "explained"), row, strict=True))
            for row in paper
        ],
    }
    put(arguments, text, table, report)
    return 0


def _plans(
    arguments: argparse.Namespace, net: Net
) -> Iterator[tuple[str, PlannedNet | OutOfMemory]]:
    """Yield the plans of all presets, of those on demand, and of what else is asked."""
    costs = shared.costs_of(arguments)
    asked: dict[str, dict[str, Any]] = {name: {"preset": name} for name in PRESETS}
    for name in DEMAND:
        asked[f"{name}, demand"] = {"preset": name, "transfers": "demand"}
    for policy in arguments.policy:
        asked[policy] = {"policy": policy}
    if arguments.memory is not None:
        asked["least time"] = {}
    for name, given in asked.items():
        try:
            yield (
                name,
                plan(
                    net,
                    memory=arguments.memory,
                    host_memory=arguments.host_memory,
                    device=arguments.device,
                    costs=costs,
                    **given,
                ),
            )
        except OutOfMemory as error:
            yield name, error


def _row(name: str, made: PlannedNet | OutOfMemory) -> tuple[Any, ...]:
    """Return a row of the table."""
    if isinstance(made, OutOfMemory):
        least = f"does not fit: least {mebibytes(made.least)} MiB"
        return (name, None, least, *(None for _ in COLUMNS[3:]))
    step = made.steps[made.peak_step - 1]
    return (
        name,
        made.peak_bytes / MIB,
        f"{made.peak_step} {step.layer} {step.phase}",
        extent(made.plan) / MIB,
        extent(place(made.plan, None, "arrival")) / MIB,
        made.extra_forwards,
        made.offload_bytes / MIB,
        made.host_bytes / MIB,
        made.timeline.seconds,
        made.timeline.stall_seconds,
    )


def _entry(made: PlannedNet | OutOfMemory) -> dict[str, Any]:
    """Return a plan's entry of the JSON."""
    if isinstance(made, OutOfMemory):
        return {
            "fits": False,
            "step": made.step,
            "needed_bytes": made.needed,
            "available_bytes": made.available,
            "least_bytes": made.least,
        }
    first_fit = extent(place(made.plan, None, "arrival"))
    return {"fits": True, "first_fit_extent_bytes": first_fit, **made.to_json()}


def _paper(
    arguments: argparse.Namespace,
    net: Net,
    plans: Mapping[str, PlannedNet | OutOfMemory],
) -> list[tuple[str, str, float, float, bool]]:
    """Return the paper's numbers of this very net, each with ours."""
    as_original = (net.declarations, net.forks) == ("original", "copy")
    limits = {arguments.memory, arguments.host_memory}
    if not as_original or arguments.input_size not in (None, 227) or limits != {None}:
        return []
    beside = []
    for name, what, number, explained in PAPER.get((arguments.net, net.batch), ()):
        made = plans[name]
        assert isinstance(made, PlannedNet), "without limits, everything fits"
        here = made.peak_bytes / MIB if what == PEAK else made.extra_forwards
        beside.append((name, what, number, here, explained))
    return beside
