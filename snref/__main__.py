"""``snref``, the same as ``python -m snref``: the command line."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from snref import __version__
from snref.commands import VERBS
from snref.commands.arguments import Parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns its exit code.

    0 done; 1 does not fit, or failed; 2 wrong use. What was wrong is one line on
    standard error.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if "" not in sys.path:
        sys.path.append("")  # MODULE:FUNCTION may be in the working directory
    verb = next((word for word in words if not word.startswith("-")), None)
    arguments = _parser(verb).parse_args(words)
    try:
        code = _run(arguments.verb, arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read, as in "| head", has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _failed("interrupted", 1)
    return code


def _parser(verb: str | None) -> Parser:
    """The parser of all verbs, with the arguments of the one that is used."""
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
        wrong = isinstance(
            error,
            FileNotFoundError
            | IsADirectoryError
            | NotADirectoryError
            | PermissionError,
        )
        return _failed(f"{error.filename}: {error.strerror}", 2 if wrong else 1)


def _failed(message: str, code: int) -> int:
    print(f"snref: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
