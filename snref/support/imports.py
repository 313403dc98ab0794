"""Import what users name as MODULE:FUNCTION, and say where it fails."""

import importlib
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snref.plans import InvalidPlan, OutOfMemory

LIBRARIES = {
    Path(__file__).parents[1],
    *map(Path, (*sysconfig.get_paths().values(), *site.getsitepackages())),
}


def imported(name: str, what: str) -> Callable[..., Any]:
    """Return the function "module:function"; ``what`` names its use in messages.

    The module may stand in the working folder. Raises ValueError if the module or the
    function does not exist, or if importing the module fails.

    >>> imported("math:sqrt", "policy")(9)
    3.0
    >>> imported("errno:sqrt", "policy")
    Traceback (most recent call last):
    ValueError: policy 'errno:sqrt': module 'errno' (built-in) has no function 'sqrt'
    """
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"{what} {name!r}: it must be MODULE:FUNCTION")
    with blamed(name, what):
        try:
            there = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module exists, but something that it imports does not
            raise _Missing(f"there is no module {module!r}") from None
        found = getattr(there, function, None)
        if not callable(found):
            # An installed module comes before one of that name in the working folder,
            # so the message says which of them was found.
            where = getattr(there, "__file__", None) or "built-in"
            raise _Missing(f"module {module!r} ({where}) has no function {function!r}")
    made: Callable[..., Any] = found
    return made


class _Missing(Exception):
    """The module or the function that was named does not exist."""


@contextmanager
def blamed(name: str, what: str) -> Iterator[None]:
    """Run code of the user's: its errors become a ValueError that says where they are.

    OutOfMemory and InvalidPlan pass unchanged, since they are answers. Inside, and only
    there, modules may also come from the working folder, after all others: a file
    ``yaml.py`` or a folder ``scipy`` in it must not replace what other code imports.
    """
    added = "" not in sys.path  # the working folder
    if added:
        sys.path.append("")
    try:
        yield
    except (OutOfMemory, InvalidPlan):
        raise
    except _Missing as missing:
        raise ValueError(f"{what} {name!r}: {missing}") from None
    except (Exception, SystemExit) as error:
        place = users_place(error)
        at = f"{place}: " if place else ""
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{what} {name!r}: {at}{kind}{error}") from error
    finally:
        if added and "" in sys.path:
            sys.path.remove("")


def users_place(error: BaseException) -> str:
    """Return the last place in the user's code that an error passed, as "file:line".

    Empty if it passed none: code of snref, of Python and of installed packages is not
    the user's.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        above = Path(frame.filename).parents
        if not frame.filename.startswith("<") and not LIBRARIES.intersection(above):
            return f"{frame.filename}:{frame.lineno}"
    return ""
