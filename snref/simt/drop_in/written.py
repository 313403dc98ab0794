"""Kernels that a program writes itself: the source of functions made by `exec`.

Numba compiles the bytecode of a function, `simt` its source. Python keeps no source of
a string that is executed, but it tells an audit hook of each string that it compiles.
"""

import inspect
import itertools
import linecache
import sys
from collections import deque
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

_KEPT = 1000  # sources, the newest ones

_sources: deque[str] = deque(maxlen=_KEPT)
_numbers = itertools.count(1)


def remember_sources() -> None:
    """Keep the sources that this process executes from now on."""
    if _remember not in _hooks:
        _hooks.append(_remember)
        sys.addaudithook(_remember)


_hooks: list[Any] = []  # an audit hook cannot be removed: one is enough


def _remember(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "compile" and isinstance(arguments[0], bytes | str):
        text = arguments[0]
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        if "def " in text or "lambda" in text:
            _sources.append(text)


def give_source(function: FunctionType) -> None:
    """Let `inspect` find the source of a function that was made by `exec`.

    The function's file becomes `<string 1>`, `<string 2>` ...: a name of its own for
    each, where all strings had the same one.
    """
    try:
        inspect.getsource(function)
        return
    except (OSError, TypeError):
        pass
    for text in reversed([*_command(), *_sources]):
        if _defines(text, function.__code__):
            file = f"<string {next(_numbers)}>"
            lines = text.splitlines(keepends=True)
            linecache.cache[file] = len(text), None, lines, file
            function.__code__ = function.__code__.replace(co_filename=file)
            return


def _command() -> list[str]:
    """The program given to Python as `-c`."""
    given = sys.orig_argv
    return given[given.index("-c") + 1 :][:1] if "-c" in given else []


def _defines(text: str, code: CodeType) -> bool:
    """Whether the text defines a function of this code."""
    if code.co_name.strip("<>") not in text:
        return False
    try:
        compiled = compile(text, "<string>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return any(_like(found, code) for found in _codes(compiled))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _like(a: CodeType, b: CodeType) -> bool:
    same = "co_name", "co_firstlineno", "co_code", "co_names", "co_varnames"
    return all(getattr(a, part) == getattr(b, part) for part in same)
