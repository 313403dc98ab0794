"""``snref plan``: plan a net without running it."""

import argparse
from collections.abc import Iterator
from typing import Any, cast, get_args, get_type_hints

from snref import planning
from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.planning.quickest import Overrides
from snref.plans import Plan, lines
from snref.scheduler import PRESETS, Options
from snref.support.garbage import no_garbage_collection

EXAMPLE = "snref plan alexnet --batch 200 --preset superneurons --json -"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--preset",
        choices=list(PRESETS),
        help="default: superneurons; with --memory the plan of least modelled time",
    )
    which.add_argument(
        "--policy", metavar="MODULE:FUNCTION", help="another planner than this one"
    )
    add_overrides(parser)
    shared.add_memory(parser)
    shared.add_machine(parser)
    parser.add_argument(
        "--steps", action="store_true", help="print the plan, with --json also there"
    )
    shared.add_tables(parser, "memory by step (in JSON: every number)")


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Single options, over those of the preset."""
    allowed = get_type_hints(Options)
    parser.add_argument(
        "--recompute",
        choices=list(shared.STRATEGIES),
        help="compute forward tensors again: for speed, for memory, or by their cost",
    )
    for name, does in {
        "transfers": "copies to the host: none; ahead; at first need; an LRU cache",
        "overwrite": "outputs over inputs: never, or where the paper's code does",
        "algorithms": "of convolutions: without workspace; the same bits; any",
    }.items():
        parser.add_argument(f"--{name}", choices=get_args(allowed[name]), help=does)


def overrides(arguments: argparse.Namespace) -> Overrides:
    """The options that were given."""
    given: dict[str, Any] = {
        name: value
        for name in ("transfers", "overwrite", "algorithms")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.recompute is not None:
        given["recompute"] = shared.STRATEGIES[arguments.recompute]
    return cast(Overrides, given)


def _numbered(plan: Plan) -> Iterator[str]:
    """The plan as text, with the numbers of the steps that the summary counts."""
    number = 0
    for line in lines(plan):
        counts = line.startswith(("forward ", "backward "))
        number += counts
        yield f"{number if counts else '':>5}  {line}"


def run(arguments: argparse.Namespace) -> int:
    with no_garbage_collection():
        planned = planning.plan(
            shared.net_of(arguments),
            preset=arguments.preset,
            policy=arguments.policy,
            memory=arguments.memory,
            host_memory=arguments.host_memory,
            device=arguments.device,
            costs=shared.costs_of(arguments),
            **overrides(arguments),
        )
        text = planned.summary()
        if arguments.steps:
            text = "\n".join([text, "", *_numbered(planned.plan)])
        rows = [
            (number, step.layer, step.phase, step.nbytes, step.tensors)
            for number, step in enumerate(planned.steps, 1)
        ]
        table = Table(("step", "layer", "phase", "bytes", "tensors"), rows)
        report = planned.to_json(arguments.steps) if arguments.json else {}
        put(arguments, text, table, report)
    return 0
