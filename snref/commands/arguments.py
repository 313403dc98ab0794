"""Arguments that several verbs share."""

import argparse
import sys
from typing import NoReturn, get_args

from snref.layers.base import Declarations
from snref.net import ForkMode, Net
from snref.support.units import parsed, shortened
from snref.timing.costs import Costs

STRATEGIES = {
    "off": None,
    "speed": "speed-centric",
    "memory": "memory-centric",
    "cost": "cost-aware",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        message = " ".join(message.split())
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)


def at_least_one(text: str) -> int:
    """The type of a count."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: must be a whole number >= 1"
        )
    return number


def size(text: str) -> int:
    """The type of a number of bytes."""
    try:
        return parsed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_net(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Which net, of which sizes."""
    from snref.nets import NAMES

    parser.add_argument(
        "net", metavar="NET", help=", ".join(NAMES), nargs="?" if optional else None
    )
    parser.add_argument(
        "--batch", type=at_least_one, default=32, metavar="N", help="default: 32"
    )
    parser.add_argument(
        "--input-size",
        type=at_least_one,
        metavar="S",
        help="height and width of the images; default: the original's of this net",
    )
    parser.add_argument(
        "--declarations",
        choices=get_args(Declarations),
        help="what backward reads: as the paper's code (default), or what it needs",
    )
    parser.add_argument(
        "--fork",
        choices=get_args(ForkMode),
        help="a value that several layers read; default: copy, under lean share",
    )


def net_of(arguments: argparse.Namespace) -> Net:
    """The net that the arguments say."""
    from snref.nets import find

    net = find(arguments.net, arguments.batch, arguments.input_size)
    return net.with_options(arguments.declarations, arguments.fork)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """How long things take."""
    parser.add_argument(
        "--device",
        default="virtual:k40c",
        metavar="virtual:NAME",
        help="whose roofline models the time: a100, h200, k40c (default), t4, titanxp, "
        "or a file of your own that ends in .toml",
    )
    parser.add_argument(
        "--costs", metavar="FILE", help="measured seconds (CSV), instead of a model"
    )


def costs_of(arguments: argparse.Namespace) -> Costs | None:
    """The measured costs that the arguments say, if they do."""
    return None if arguments.costs is None else Costs.from_csv(arguments.costs)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """How much memory there is."""
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="all of the device's memory that the run may use: bytes, or with KB MB GB "
        "(powers of 1000), KiB MiB GiB (of 1024)",
    )
    parser.add_argument(
        "--host-memory", type=size, metavar="SIZE", help="the same, of the host"
    )


def add_tables(parser: argparse.ArgumentParser, of: str) -> None:
    """In which forms to write a table."""
    for form in "JSON", "CSV", "LaTeX":
        parser.add_argument(
            f"--{form.lower()}",
            metavar="FILE",
            help=f"write {of} as {form}; - is standard output",
        )
