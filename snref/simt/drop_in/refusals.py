"""What the drop-in cannot do: each refusal names its rule and the user's own line."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import numba

from snref.simt import KernelError
from snref.simt.limits import LIMITS

RULES = {
    "foreign-code": "code in CUDA C, PTX or a library cannot run on a CPU: "
    "write it in Python, as @cuda.jit(device=True)",
    "foreign-memory": "memory of a GPU library or of another process cannot be "
    "shared: copy it through a NumPy array",
    "gpu-binary": "nothing is compiled for a GPU, so there are no registers and no "
    "GPU instructions: simt.show(kernel, block, *arrays) prints what runs here",
    "memory-manager": "memory is NumPy's, no other manager can take its place",
    "one-device": "there is one device, number 0",
    "launch-limits": f"CUDA's limits hold here too: {LIMITS}",
    "grid-sync": "blocks run one after another: a grid can synchronise only where it "
    "can run as one block, of at most 1024 threads that know their positions from "
    "cuda.grid and cuda.gridsize alone and have no shared arrays",
    "basic-indexing": "device arrays are indexed with integers and slices",
    "event-timing": "only recorded events made with timing=True tell a time",
}

_NOT_THE_USERS = str(Path(__file__).parent), str(Path(numba.__file__).parent)


def user_line() -> str:
    """`file.py:LINE` of the innermost frame outside the drop-in and Numba."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def refuse(what: str, rule: str) -> NoReturn:
    """Raise the KernelError of a rule, at the line of the user's call."""
    raise KernelError(f"{user_line()}: {what}: {RULES[rule]} (rule {rule})")


def refused(name: str, rule: str) -> type:
    """A class that stands in for a name of `numba.cuda` and refuses to be called.

    A class, so that `isinstance(x, name)` and `class Mine(name)` of a program that
    never gets so far remain what they were.
    """

    def __new__(cls: type, *args: Any, **options: Any) -> NoReturn:
        refuse(f"cuda.{name}", rule)

    return type(name, (), {"__new__": __new__, "rule": rule})
