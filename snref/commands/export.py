"""``snref export``: write a net as JSON, for a planner in any language."""

import argparse
import json
from typing import get_args

from snref.commands import arguments as shared
from snref.net import route
from snref.planning import exchange
from snref.planning.splitting import check_parts, split
from snref.scheduler.options import Options, Overwrite
from snref.support.files import write
from snref.timing import roofline
from snref.timing.costs import Costs

EXAMPLE = "snref export alexnet --batch 200 --out graph.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser, optional=True)
    shared.add_machine(parser)
    shared.add_parts(parser, "default: no parts")
    parser.add_argument(
        "--overwrite",
        choices=get_args(Overwrite),
        help="with --parts: what a plan may write over, which decides what is split; "
        "default: gradients",
    )
    parser.add_argument(
        "--out",
        type=shared.output,
        metavar="FILE",
        default="-",
        help="default: -, standard output",
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="write the JSON Schemas of graphs and plans instead of a net",
    )


def run(arguments: argparse.Namespace) -> int:
    document: exchange.Schema
    if arguments.schema:
        document = {"graph": exchange.GRAPH, "plan": exchange.PLAN}
    elif arguments.net is None:
        raise ValueError("export needs a NET, or --schema")
    else:
        document = _graph(arguments)
    write(arguments.out, json.dumps(document, indent=1) + "\n")
    return 0


def _graph(arguments: argparse.Namespace) -> exchange.Schema:
    net, parts = shared.net_of(arguments), arguments.parts
    if parts is None and arguments.overwrite is not None:
        raise ValueError("--overwrite decides what --parts splits: omit it, or add K")
    made = None
    if parts is not None and parts > 1:
        check_parts(parts, net, arguments.costs)
        made = split(net, parts, arguments.overwrite or Options().overwrite)
    if arguments.costs is not None:
        return exchange.graph_to_json(net, Costs.from_csv(arguments.costs))
    machine = roofline.machine(arguments.device)
    costs = roofline.costs(made.route if made else route(net), machine)
    return exchange.graph_to_json(net, costs, machine, made)
