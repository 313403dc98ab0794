"""``snref export``: a net as JSON, for a planner in any language."""

import argparse
import json

from snref import schemas
from snref.commands import arguments as shared
from snref.costs import Costs
from snref.device import virtual
from snref.files import write
from snref.garbage import no_garbage_collection
from snref.net import route

EXAMPLE = "snref export alexnet --batch 200 --out graph.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser, optional=True)
    shared.add_machine(parser)
    parser.add_argument(
        "--out", metavar="FILE", default="-", help="default: -, standard output"
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="instead of a net, the JSON Schemas of graphs and plans",
    )


def run(arguments: argparse.Namespace) -> int:
    with no_garbage_collection():
        document: schemas.Schema
        if arguments.schema:
            document = {"graph": schemas.GRAPH, "plan": schemas.PLAN}
        elif arguments.net is None:
            raise ValueError("export needs a NET, or --schema")
        else:
            document = _graph(arguments)
        write(arguments.out, json.dumps(document, indent=1) + "\n")
    return 0


def _graph(arguments: argparse.Namespace) -> schemas.Schema:
    net = shared.net_of(arguments)
    if arguments.costs is not None:
        return schemas.graph_to_json(net, Costs.from_csv(arguments.costs))
    machine = virtual.machine(arguments.device)
    return schemas.graph_to_json(net, virtual.costs(route(net), machine), machine)
