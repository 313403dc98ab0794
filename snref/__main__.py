"""``snref``, the same as ``python -m snref``: the command line."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from snref import __version__

if TYPE_CHECKING:
    from argparse import ArgumentParser

WRONG_PATH = {
    errno.ENOENT,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns its exit code.

    0 done; 1 does not fit, or failed; 2 wrong use. What was wrong is one line on
    standard error.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if "" not in sys.path:
        sys.path.append("")  # MODULE:FUNCTION may be in the working directory
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, TextIOWrapper):  # a name it cannot say, it spells
            stream.reconfigure(errors="backslashreplace")
    verb = next((word for word in words if not word.startswith("-")), None)
    try:
        arguments = _parser(verb).parse_args(words)
        return _run(arguments.verb, arguments)
    except BrokenPipeError:  # whoever read, as in "| head", has enough
        _discard_output()
        return 1
    except KeyboardInterrupt:
        return _failed("interrupted", 1)


def _parser(verb: str | None) -> "ArgumentParser":
    """The parser of all verbs, with the arguments of the one that is used."""
    # Imported here, where main catches Ctrl-C.
    from snref.commands import VERBS
    from snref.commands.arguments import Parser

    parser = Parser(
        prog="snref",
        description="Plan, verify and run the training of nets in little GPU memory.",
        epilog="example: snref plan alexnet --batch 200",
    )
    parser.add_argument("--version", action="version", version=f"snref {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, does in VERBS.items():
        below = verbs.add_parser(
            name, help=does, description=does[0].upper() + does[1:]
        )
        if name == verb:
            module = import_module(f"snref.commands.{name}")
            below.epilog = f"example: {module.EXAMPLE}"
            module.add_arguments(below)
    return parser


def _run(verb: str, arguments: object) -> int:
    from snref.plans import InvalidPlan, OutOfMemory

    try:
        code: int = import_module(f"snref.commands.{verb}").run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except OutOfMemory as error:
        option = "--host-memory" if error.step == "the host" else "--memory"
        return _failed(
            f"does not fit: {error.step} needs {error.needed} bytes, "
            f"{error.available} available; "
            f"the least {option} that works is {error.least}",
            1,
        )
    except InvalidPlan as error:
        return _failed(f"invalid plan: {error}", 1)
    except ValueError as error:
        return _failed(str(error), 2)
    except OSError as error:
        if error.filename is None:  # of what is printed
            _discard_output()
        place = "standard output" if error.filename is None else error.filename
        wrong = error.errno in WRONG_PATH
        return _failed(f"{place or repr(place)}: {error.strerror}", 2 if wrong else 1)


def _discard_output() -> None:
    """Nobody takes the output: it goes nowhere, and leaving says no more of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(message: str, code: int) -> int:
    print(f"snref: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
