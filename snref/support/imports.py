"""Functions of the reader's own, named MODULE:FUNCTION: found, and blamed."""

import importlib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snref.plans import InvalidPlan, OutOfMemory

OURS = Path(__file__).parents[1], Path(importlib.__file__).parent


def imported(name: str, what: str) -> Callable[..., Any]:
    """The function "module:function"; ``what`` it is, for messages.

    Raises ValueError if there is no such module or function, or the module fails.

    >>> imported("math:sqrt", "policy")(9)
    3.0
    >>> imported("math:sqr", "policy")
    Traceback (most recent call last):
    ValueError: policy 'math:sqr': there is no function 'sqr' in it
    """
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"{what} {name!r}: it must be MODULE:FUNCTION")
    with blamed(name, what):
        try:
            found: Any = getattr(importlib.import_module(module), function, None)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module is there, but what it imports is not
            raise _Missing(f"there is no module {module!r}") from None
        if not callable(found):
            raise _Missing(f"there is no function {function!r} in it")
        made: Callable[..., Any] = found
    return made


class _Missing(Exception):
    """What was named is not there."""


@contextmanager
def blamed(name: str, what: str) -> Iterator[None]:
    """What goes wrong in code that is not ours is a ValueError that says where in it.

    OutOfMemory and InvalidPlan pass: they are answers.
    """
    try:
        yield
    except (OutOfMemory, InvalidPlan):
        raise
    except _Missing as missing:
        raise ValueError(f"{what} {name!r}: {missing}") from None
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if not _is_ours(f.filename)]
        at = f"{theirs[-1].filename}:{theirs[-1].lineno}: " if theirs else ""
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{what} {name!r}: {at}{kind}{error}") from error


def _is_ours(filename: str) -> bool:
    """Whether a frame is of snref or of Python's import: not where the fault is."""
    return filename.startswith("<") or any(
        there in Path(filename).parents for there in OURS
    )
