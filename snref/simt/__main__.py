"""`python -m snref.simt program.py`: run a CUDA program on the CPU, unchanged."""

import argparse
import bdb
import faulthandler
import os
import runpy
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import numba
from numba.core import config
from numba.core.errors import NumbaError

from . import KernelError
from .crash import point_to_check_mode
from .replaced import WHY_NOT, numba_cuda_is_there

USAGE = (
    "python -m snref.simt [--check | --debug] (program.py | -m module) [arguments ...]"
)


def main(arguments: list[str]) -> int:
    """Run the program or module with its arguments; its exit code (2: wrong use)."""
    parser = argparse.ArgumentParser(
        prog="python -m snref.simt",
        usage=USAGE,
        description="Run an unchanged Numba CUDA program on the CPU, compiled.",
        epilog="example: python -m snref.simt -m pytest tests. As on a GPU, a wrong "
        "index may end the process: --check finds it.",
        allow_abbrev=False,
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--check",
        dest="mode",
        action="store_const",
        const="check",
        default="compile",
        help="slower, but races, wrong indices and reads of shared and local arrays "
        "before anything was written there are errors",
    )
    mode.add_argument(
        "--debug",
        dest="mode",
        action="store_const",
        const="debug",
        help="much slower: kernels run as Python, thread by thread, and breakpoint() "
        "in a kernel starts the debugger",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("program", help="a file, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    if not arguments:
        parser.error("give a program, or -m and a module")
    options = parser.parse_args(arguments)
    for given in {"--check", "--debug"} & set(options.arguments):
        if options.mode == "compile":
            print(
                f"snref.simt: {given} is given to the program: write it before the "
                "program's name if it is meant for the kernels",
                file=sys.stderr,
            )
    if numba_cuda_is_there():
        parser.error(WHY_NOT)
    if config.ENABLE_CUDASIM:
        parser.error("NUMBA_ENABLE_CUDASIM is set: unset it, this takes its place")
    if not options.module and not Path(options.program).exists():
        parser.error(f"no such file: {options.program}")

    from .drop_in import installed  # needs Numba's own numba.cuda

    sys.argv = [options.program, *options.arguments]
    folder = os.getcwd() if options.module else os.path.dirname(options.program)
    sys.path[0] = os.path.abspath(folder)
    with suppress(OSError, AttributeError):  # where errors go to no file
        faulthandler.enable()  # says where, if a wrong index ends the process
    if options.mode == "compile":
        point_to_check_mode()
    with installed(options.mode):
        try:
            if options.module:
                runpy.run_module(options.program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(options.program, run_name="__main__")
        except bdb.BdbQuit:  # the user left the debugger
            return 1
        except Exception as error:
            _print_traceback(error)
            return 1
    return 0


def _print_traceback(error: Exception) -> None:
    """Print the program's traceback, without the frames that started it.

    Of an error in the program itself, or in a kernel, no frame of `simt` or Numba is
    shown.
    """
    summary = traceback.TracebackException.from_exception(error)
    others = [__file__, runpy.__file__, "<frozen runpy>"]
    libraries = str(Path(__file__).parent), str(Path(numba.__file__).parent)
    of_the_user = not summary.stack[-1].filename.startswith(libraries)
    if of_the_user or isinstance(error, KernelError | NumbaError):
        others += libraries
    kept = [f for f in summary.stack if not f.filename.startswith(tuple(others))]
    summary.stack = traceback.StackSummary.from_list(kept)
    print("".join(summary.format()), end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
