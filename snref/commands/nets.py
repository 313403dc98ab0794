"""``snref nets``: list the networks that come with snref."""

import argparse

import snref
from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.nets import NAMES, find
from snref.planning.reports import COUNTS, resident

EXAMPLE = "snref nets --batch 1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch", type=shared.at_least_one, default=32, metavar="N", help="default: 32"
    )
    shared.add_tables(parser, "the table")


def run(arguments: argparse.Namespace) -> int:
    columns = ("net", "input", "layers", "parameters", "data tensors: bytes")
    rows = []
    for name in NAMES:
        if not name.isupper() and ":" not in name:
            net = find(name, arguments.batch)
            data = net.tensors("activation", "gradient")
            rows.append(
                (
                    name,
                    " x ".join(map(str, net.input_shape)),
                    len(net.nodes),
                    resident(net)["parameter"] // 4,
                    sum(tensor.nbytes for tensor in data),
                )
            )
    table = Table(columns, rows)
    others = ", ".join(name for name in NAMES if ":" in name)
    text = f"{table.text()}\n\nand {others}, with nothing in place"
    report = {
        "schema": "snref.nets/1",
        "snref_version": snref.__version__,
        "counts": f"{COUNTS}, none in place",
        "unit": "bytes",
        "nets": [
            {
                "net": name,
                "input": shape,
                "layers": layers,
                "parameters": parameters,
                "data_bytes": nbytes,
            }
            for name, shape, layers, parameters, nbytes in rows
        ],
    }
    put(arguments, text, table, report)
    return 0
