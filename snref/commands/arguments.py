"""Arguments that several verbs share."""

import argparse
import sys
from collections.abc import Iterable
from typing import NoReturn, get_args

from snref.layers.base import Declarations
from snref.net import ForkMode, Net
from snref.planning.quickest import Overrides
from snref.plans import OutOfMemory
from snref.scheduler.options import Algorithms, Options, Overwrite
from snref.support.files import check_writable, complain
from snref.support.units import parsed, shortened
from snref.timing.costs import Costs
from snref.timing.roofline import names


class Parser(argparse.ArgumentParser):
    """An argument parser that prints errors as one line."""

    def error(self, message: str) -> NoReturn:
        complain(f"{self.prog}: {message}; see {self.prog} --help")
        sys.exit(2)


def at_least_one(text: str) -> int:
    """Parse an argument as a whole number of at least 1 (an argparse type)."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: must be a whole number >= 1"
        )
    return number


def effort(text: str) -> float:
    """Parse an argument as a number above 0, and at most 1000 (an argparse type)."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1000:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: must be a number above 0, at most 1000"
        )
    return number


def size(text: str) -> int:
    """Parse an argument as a number of bytes (an argparse type)."""
    try:
        return parsed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def output(path: str) -> str:
    """Parse an argument as a file to write, or - (an argparse type).

    A file that cannot be written is refused before the work whose result it takes.
    """
    try:
        check_writable(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def add_net(
    parser: argparse.ArgumentParser, optional: bool = False, several: bool = False
) -> None:
    """Add the arguments that say which net, or nets, and of which size."""
    from snref.nets import BATCH, NAMES

    nargs = "?" if optional else "+" if several else None
    parser.add_argument("net", metavar="NET", help=", ".join(NAMES), nargs=nargs)
    parser.add_argument(
        "--batch", type=at_least_one, metavar="N", help=f"default: {BATCH}"
    )
    parser.add_argument(
        "--input-size",
        type=at_least_one,
        metavar="S",
        help="height and width of the images; default: as in the paper's code",
    )
    parser.add_argument(
        "--declarations",
        choices=get_args(Declarations),
        help="the tensors that backward reads: as in the paper's code (original, the "
        "default); only what the mathematics needs (lean); the same, so that gradients "
        "may take the memory of activations (reuse), also where nothing is freed or "
        "computed again (static)",
    )
    parser.add_argument(
        "--fork",
        choices=get_args(ForkMode),
        help="how several layers read one output: each a copy of it (the default), or "
        "all the same tensor (the default with the other declarations)",
    )


def net_of(arguments: argparse.Namespace, name: str | None = None) -> Net:
    """Return the net that the arguments name, or one of several by its name."""
    from snref.nets import find

    net = find(name or arguments.net, arguments.batch, arguments.input_size)
    return with_options(net, arguments)


def with_options(net: Net, arguments: argparse.Namespace) -> Net:
    """Return the net under the declarations and the kind of fork that were typed.

    Raises ValueError for others than those of the preset, if it decides them.
    """
    from snref.planning.planned import NET_OPTIONS

    typed = arguments.declarations, arguments.fork
    preset = getattr(arguments, "preset", None)
    needed = NET_OPTIONS.get(preset or "", typed)
    if any(told not in (None, own) for told, own in zip(typed, needed, strict=True)):
        raise ValueError(
            f"preset {preset!r} plans with --declarations {needed[0]} and --fork "
            f"{needed[1]}: omit both"
        )
    return net.with_options(*typed)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how long things take."""
    parser.add_argument(
        "--device",
        default="virtual:k40c",
        metavar="virtual:NAME",
        help=f"the machine whose roofline models the time: {', '.join(names())}, or a "
        "file of your own that ends in .toml; default: k40c",
    )
    parser.add_argument(
        "--costs",
        metavar="FILE",
        help="measured seconds, from snref profile, instead of a model",
    )


def costs_of(arguments: argparse.Namespace) -> Costs | None:
    """Return the measured costs if the arguments name a file of them."""
    return None if arguments.costs is None else Costs.from_csv(arguments.costs)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that limit memory."""
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="all of the device's memory that the run may use: bytes, or with KB MB GB "
        "(powers of 1000), KiB MiB GiB (of 1024)",
    )
    parser.add_argument(
        "--host-memory",
        type=size,
        metavar="SIZE",
        help="the host memory that it may use for copies",
    )


def add_parts(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add the argument that splits the batch."""
    parser.add_argument(
        "--parts",
        type=at_least_one,
        metavar="K",
        help="run the largest layers on K parts of the batch, one after the other, "
        f"with the same bits, or whole with 1; {otherwise}",
    )


def add_policies(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the arguments that say which planners are compared, and on which terms."""
    from snref.policies import POLICIES

    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="A,B,...",
        help=f"planners to compare: {', '.join(POLICIES)}, all of these (all), "
        f"names of presets, your own MODULE:FUNCTION; default: {default}",
    )
    parser.add_argument(
        "--plan",
        action="append",
        default=[],
        metavar="plan.json",
        help="compare a plan in JSON, too; may be given several times",
    )
    parser.add_argument(
        "--common",
        action="store_true",
        help="give all planners the same overwrite and algorithms: gradients and "
        "exact, or what is typed",
    )
    for name, does in {
        "overwrite": "write outputs over inputs",
        "algorithms": "algorithms of convolutions",
    }.items():
        allowed = get_args(Overwrite if name == "overwrite" else Algorithms)
        parser.add_argument(
            f"--{name}", choices=allowed, help=f"{does}, for all planners alike"
        )


def common(arguments: argparse.Namespace) -> Overrides:
    """Return the options that hold for all planners."""
    given: Overrides = {}
    if arguments.common:
        given = {"overwrite": Options().overwrite, "algorithms": Options().algorithms}
    if arguments.overwrite is not None:
        given["overwrite"] = arguments.overwrite
    if arguments.algorithms is not None:
        given["algorithms"] = arguments.algorithms
    return given


VARIED = "* another rank than on the machine as it is"


def add_vary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vary",
        action="store_true",
        help="plan for the machine with 0.75 and 1.25 of its link, and of its memory's "
        "bandwidth, too, and mark the ranks that change",
    )


def check_vary(arguments: argparse.Namespace) -> None:
    if arguments.vary and arguments.costs is not None:
        raise ValueError("--vary changes a machine's model: omit --costs")


def idle(names: Iterable[str], memory: int | None) -> str:
    """Say which policies do nothing because memory has no limit; "" if none."""
    from snref.policies import POLICIES

    found = [name for name in names if name in POLICIES and POLICIES[name].idles]
    if memory is not None or not found:
        return ""
    return (
        "Without --memory, nothing is copied or computed again by those that do so "
        f"only where memory is short: {', '.join(found)}."
    )


def add_tables(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the arguments that write a table to files."""
    for form in "JSON", "CSV", "LaTeX":
        parser.add_argument(
            f"--{form.lower()}",
            type=output,
            metavar="FILE",
            help=f"write {of} as {form}; - is standard output",
        )


def least_that_works(error: OutOfMemory) -> str:
    """Say how much memory would do, by the name of its option."""
    option = "--host-memory" if error.step == "the host" else "--memory"
    said = f"the least {option} that works is {error.least}"
    if error.host is None and error.least_without_host_limit is not None:
        said = f"with enough memory of the host, {said}"
    elif error.host is not None and error.least != error.least_without_host_limit:
        said = (
            f"the least {option} found with --host-memory {error.host} is "
            f"{error.least}, and with enough of it {error.least_without_host_limit}"
        )
    if error.joint is not None:
        said += f"; with --preset joint, {error.joint} is enough"
    return said
