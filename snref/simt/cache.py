"""Generated modules on disk, found again by everything they are made from.

The text is a real file, so that Numba's own cache keeps the machine code beside it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np

VARIABLE = "SNREF_CACHE"


def folder() -> Path:
    """Where generated modules are kept: $SNREF_CACHE or the user's cache folder.

    A temporary folder, gone at the end of the process, if that cannot be written.
    """
    return _writable(_wanted())


def shared() -> bool:
    """Is the folder one that lasts, and that other processes find, too?"""
    return folder() == _wanted()


def _wanted() -> Path:
    chosen = os.environ.get(VARIABLE)
    return (Path(chosen) if chosen else _user_cache() / "snref").absolute()


def _user_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else Path.home() / ".cache"


@cache
def _writable(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError:
        return Path(_temporary().name)
    return path


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="snref-", ignore_cleanup_errors=True)


@cache
def _compiler() -> str:
    """The compiler's own source: another version writes other modules."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    versions = (numba.__version__, llvmlite.__version__, sys.version)
    return digest.hexdigest() + repr(versions)


def key(function: Any, *rest: object) -> str:
    """A name for what these make: the function with all it refers to, and the rest."""
    parts = [_compiler(), repr(rest), *_ingredients(function, set())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _ingredients(function: Any, seen: set[Any]) -> Iterator[str]:
    if function in seen:
        return
    seen.add(function)
    code = function.__code__
    try:
        yield inspect.getsource(function)
    except OSError:
        yield repr(code.co_code)
    yield f"{code.co_filename}:{code.co_firstlineno}"
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    scope = {**function.__globals__, **{n: c.cell_contents for n, c in cells}}
    for n in sorted({*code.co_names, *code.co_freevars}):
        value = scope.get(n)
        yield n
        inner = getattr(value, "py_func", value)
        if isinstance(inner, FunctionType):
            yield from _ingredients(inner, seen)
        elif isinstance(value, ModuleType):  # math.exp, but also settings.WIDTH
            used = (getattr(value, m, None) for m in code.co_names)
            for member in used:
                member = getattr(member, "py_func", member)
                if isinstance(member, (bool, int, float, tuple, np.generic)):
                    yield repr(member)
                elif isinstance(member, FunctionType) and not _foreign(member):
                    yield from _ingredients(member, seen)
        elif isinstance(value, np.ndarray):  # handed over at the launch
            yield f"{value.dtype} {value.ndim}"
        else:
            yield repr(value)


def _foreign(function: FunctionType) -> bool:
    return (function.__module__ or "").startswith(("numba", "numpy"))


def load(stem: str, write: Callable[[], str]) -> ModuleType:
    """Import the module of this name, written first if it is not there or damaged."""
    name = f"{stem}.py"
    path = folder() / name
    with suppress(FileNotFoundError, SyntaxError, ValueError, EOFError):
        module = _imported(stem, path)
        if hasattr(module, "FACTS"):  # its last line
            return module
    text = write()
    with suppress(FileNotFoundError, ValueError):
        if path.read_text(encoding="utf-8") == text:  # another process was faster, and
            return _imported(stem, path)  # its machine code is for this file's time
    try:
        _replace(path, text)
    except OSError:  # a full disk
        path = Path(_temporary().name) / name
        _replace(path, text)
    return _imported(stem, path)


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, whoever else is writing it."""
    number, part = tempfile.mkstemp(suffix=".part", dir=path.parent, text=True)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError:
        os.unlink(part)
        raise


def compiled() -> set[str]:
    """The modules that there is machine code for."""
    kept = (folder() / "__pycache__").glob("*.launch-*.nbi")
    return {path.name.partition(".")[0] for path in kept}


def forget(stem: str) -> None:
    """Remove the machine code that Numba keeps for this module."""
    for file in (folder() / "__pycache__").glob(f"{stem}.launch-*.nb[ci]"):
        file.unlink(missing_ok=True)


def _imported(stem: str, path: Path) -> ModuleType:
    name = f"snref.simt.generated.{stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
