"""``snref``, the same as ``python -m snref``: the command line.

Every command ends with an exit code, and with one line on standard error if it failed:

====  ==================================================================
0     done
1     the net does not fit, a plan is invalid, or the run failed
2     wrong use: the line says what is wrong, where, and what is allowed
====  ==================================================================

What snref refuses, it refuses with a ``raise`` statement of its own; that message is
printed as it is. Every other error was not foreseen, and is called a fault of snref.
"""

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from snref import __version__
from snref.support.files import OUTPUT, NamedOutput, complain
from snref.support.garbage import no_garbage_collection

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
COMPUTING = ("train", "profile")  # the verbs that run kernels


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, TextIOWrapper):  # escape what the encoding does not have
            stream.reconfigure(errors="backslashreplace")
    try:
        output = NamedOutput(sys.stdout or StringIO())  # None is closed, as after >&-
        with redirect_stdout(cast(TextIO, output)):
            try:
                return _run(words)
            finally:
                sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and error.filename == OUTPUT:
            _discard_output()
            if isinstance(error, BrokenPipeError):  # the reader has enough, as "| head"
                return 1
        if "--traceback" in words:
            traceback.print_exc()
        message, code = _explained(error)
        complain(f"snref: {message}")
        return code


def _run(words: Sequence[str]) -> int:
    verb = next((word for word in words if not word.startswith("-")), None)
    arguments, unknown = _parser(verb).parse_known_args(words)
    if unknown:  # said by the verb, whose --help has what there is
        from snref.commands.arguments import Parser

        named = Parser(prog=f"snref {arguments.verb}")
        named.error(f"unrecognized arguments: {' '.join(unknown)}")
    module = import_module(f"snref.commands.{arguments.verb}")
    code: int
    if arguments.verb in COMPUTING:
        from snref.commands.ready import check

        check()
        code = module.run(arguments)
    else:
        with no_garbage_collection():  # a planned net is small objects without cycles
            code = module.run(arguments)
    return code


def _parser(verb: str | None) -> "ArgumentParser":
    """Return the parser of all verbs, with the arguments of the one that is used."""
    # Imported here, where main catches Ctrl-C.
    from argparse import SUPPRESS

    from snref.commands import VERBS
    from snref.commands.arguments import Parser

    parser = Parser(
        prog="snref",
        description="Plan, verify and run the training of nets in little GPU memory.",
        epilog="example: snref plan alexnet --batch 200",
    )
    parser.add_argument("--version", action="version", version=f"snref {__version__}")
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="after an error, print the Python stack, too; allowed after VERB as well",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, does in VERBS.items():
        below = verbs.add_parser(
            name, help=does, description=does[0].upper() + does[1:]
        )
        below.add_argument("--traceback", action="store_true", help=SUPPRESS)
        if name == verb:
            module = import_module(f"snref.commands.{name}")
            below.epilog = f"example: {module.EXAMPLE}"
            module.add_arguments(below)
    return parser


def _explained(error: BaseException) -> tuple[str, int]:
    """Say in one sentence what went wrong. Returns it with the exit code."""
    from snref.plans import InvalidPlan, OutOfMemory
    from snref.support.imports import users_place

    match error:
        case KeyboardInterrupt():
            return "interrupted", 1
        case OutOfMemory():
            from snref.commands.arguments import least_that_works

            return (
                f"does not fit: {error.step} needs {error.needed} bytes, "
                f"{error.available} available; {least_that_works(error)}",
                1,
            )
        case InvalidPlan():
            return f"invalid plan: {error}", 1
        case ValueError() if _is_refusal(error):
            return str(error), 2
        case Exception() if type(error).__module__.startswith("snref."):
            return str(error), 1
        case MemoryError():
            return f"not enough memory: {error or 'a request failed'}", 1
        case OSError(filename=str(name), strerror=str(reason)):
            wrong = error.errno in WRONG_PATH
            return f"{name or repr(name)}: {reason}", 2 if wrong else 1
        case OSError(strerror=str(reason)):
            return f"the operating system refused a request: {reason}{_at(error)}", 1
        case ImportError():
            return f"{error}; 'snref doctor' says what would repair it", 1
    if place := users_place(error):
        return f"{place}: {type(error).__name__}: {error}", 2
    return (
        f"internal error: {type(error).__name__}: {error}{_at(error)}. This is a fault "
        "of snref, not of what you typed: please report it, with what "
        "'snref doctor --report' prints; --traceback shows the stack",
        1,
    )


def _is_refusal(error: Exception) -> bool:
    """Tell whether a raise statement of snref raised the error, not Python or NumPy."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(__file__).parent in Path(frame.filename).parents
    return ours and (frame.line or "").startswith("raise ")


def _at(error: BaseException) -> str:
    """Return the last place in snref that the error passed, as " (file:line)"."""
    here = Path(__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if here in Path(frame.filename).parents:
            return f" (snref/{Path(frame.filename).relative_to(here)}:{frame.lineno})"
    return ""


def _discard_output() -> None:
    """Send the rest of our output to the null device, so that exit prints no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    # "python -m" puts the working folder first on the path. Nothing there may replace
    # what snref imports. It stays, as the last, if snref itself was imported from it.
    if not sys.flags.safe_path:
        folder = sys.path.pop(0)
        if Path(folder) == Path(__file__).parents[1]:
            sys.path.append(folder)
    sys.exit(main())
