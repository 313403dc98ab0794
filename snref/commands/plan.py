"""``snref plan``: plan a net without running it."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast, get_args, get_type_hints

from snref import planning
from snref.commands import arguments as shared
from snref.commands.progress import elapsed
from snref.commands.tables import Table, put
from snref.planning.bound import needs_scipy
from snref.planning.quickest import Overrides
from snref.plans import Plan, lines
from snref.policies import POLICIES
from snref.scheduler.options import Strategy

STRATEGIES = {
    "off": None,
    **{name.partition("-")[0]: name for name in get_args(Strategy)},
}
EXAMPLE = "snref plan alexnet --batch 200 --preset superneurons --json -"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--preset",
        choices=planning.PRESET_NAMES,
        help="default: superneurons; with --memory the plan of least modelled time",
    )
    which.add_argument(
        "--policy",
        metavar="NAME",
        help=f"another planner: {', '.join(POLICIES)}, or your own MODULE:FUNCTION",
    )
    add_overrides(parser)
    shared.add_memory(parser)
    parser.add_argument(
        "--effort",
        type=shared.effort,
        metavar="X",
        help="with --memory alone: how long to look for a quicker plan; default: 1",
    )
    shared.add_parts(
        parser,
        "default: with --memory, and without --preset or with joint, as few parts as "
        "fit, if no plan of whole layers does",
    )
    parser.add_argument(
        "--bound",
        action="store_true",
        help="print how far the plan is, at most, from the quickest one there can be "
        "(needs SciPy: pip install 'snref[optimal]')",
    )
    shared.add_machine(parser)
    parser.add_argument(
        "--steps",
        action="store_true",
        help="print the steps of the plan, too, and write them with --json",
    )
    shared.add_tables(parser, "memory by step (in JSON: every number)")


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add the options that override those of the preset."""
    allowed = get_type_hints(Overrides)
    parser.add_argument(
        "--recompute",
        choices=list(STRATEGIES),
        help="recompute cheap layers in backward: for speed, for memory, or by cost",
    )
    for name, does in {
        "transfers": "copies to the host: none; prefetched (offload); back at first "
        "need (demand); by an LRU cache",
        "overwrite": "write outputs over inputs: never; over gradients, as the paper's "
        "code; over activations, too (least with --declarations reuse)",
        "algorithms": "of convolutions: without workspace (none); any of the same bits "
        "(exact); any (fastest)",
    }.items():
        parser.add_argument(f"--{name}", choices=get_args(allowed[name]), help=does)


def overrides(arguments: argparse.Namespace) -> Overrides:
    """Return the options that were given."""
    given: dict[str, Any] = {
        name: value
        for name in ("transfers", "overwrite", "algorithms")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.recompute is not None:
        given["recompute"] = STRATEGIES[arguments.recompute]
    return cast(Overrides, given)


def _numbered(plan: Plan) -> Iterator[str]:
    """Yield the plan's lines with the step numbers that the summary uses."""
    number = 0
    for line in lines(plan):
        counts = line.startswith(("forward ", "backward "))
        number += counts
        yield f"{number if counts else '':>5}  {line}"


def _searches(arguments: argparse.Namespace) -> bool:
    """Whether the quickest plan is searched for, tensor by tensor."""
    return (
        arguments.memory is not None
        and arguments.preset is None
        and arguments.policy is None
        and arguments.recompute in (None, "off")
        and arguments.transfers in (None, "none")
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.bound:
        needs_scipy()
    if arguments.effort is not None and not _searches(arguments):
        raise ValueError(
            "--effort is for the search of --memory alone: without --preset, --policy, "
            "--recompute and --transfers"
        )
    with elapsed("plan"):
        planned = planning.plan(
            shared.net_of(arguments),
            preset=arguments.preset,
            policy=arguments.policy,
            memory=arguments.memory,
            host_memory=arguments.host_memory,
            device=arguments.device,
            costs=shared.costs_of(arguments),
            effort=arguments.effort or 1.0,
            parts=arguments.parts,
            **overrides(arguments),
        )
        text = planned.summary()
        if arguments.bound:
            text += "\n" + planned.compared()
    planner = arguments.policy or arguments.preset
    if planner and (idle := shared.idle([planner], arguments.memory)):
        text += f"\n  {idle}"
    if arguments.steps:
        text = "\n".join([text, "", *_numbered(planned.plan)])
    rows = [
        (number, step.layer, step.phase, step.nbytes, step.tensors)
        for number, step in enumerate(planned.steps, 1)
    ]
    table = Table(("step", "layer", "phase", "bytes", "tensors"), rows)
    report = planned.to_json(arguments.steps) if arguments.json else {}
    if report and arguments.bound:
        report["modelled"]["bound_seconds"] = planned.bound_seconds
        report["modelled"]["above_bound"] = {
            "seconds": planned.distance.seconds,
            **asdict(planned.distance),
        }
    put(arguments, text, table, report)
    return 0
