"""Generated modules and their machine code, kept on disk between processes.

A module's name holds a hash of all that its text depends on: the source of the kernel
and of the functions it calls, the values of their globals, block shape, argument types,
and the compiler itself. It does not depend on where the source file lies, so a copy of
a program in another folder finds everything compiled.

Modules are looked for in two folders, and written to the second only:

    $SNREF_SHARED_CACHE    optional; made ready for many users, and never written to
    $SNREF_CACHE           or else `snref` in the user's own cache folder

To make the shared folder ready, run the programs once with SNREF_CACHE set to it.

A cache holds code, so it is trusted as code is: folder and files must belong to root or
to the user, and nobody else may be able to write to them (checked on POSIX). What
nobody used for 90 days is removed, and of the rest the oldest beyond 1 GiB.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import re
import stat
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import EnumType
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.codegen import RuntimeLinker
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

VARIABLE, SHARED_VARIABLE = "SNREF_CACHE", "SNREF_SHARED_CACHE"
CODE = ".code"  # the ending of machine code: name.machine-signature.code
LONGEST_UNUSED = 90 * 86400  # seconds
LARGEST = 1 << 30  # bytes
_PRUNED = ".pruned"  # an empty file that is as old as the last pruning
_DAY = 86400


# ------------------------------------------------------------------ folders


def folder() -> Path:
    """Where modules are written: $SNREF_CACHE or the user's cache folder.

    A temporary folder, gone at the end of the process, if that cannot be written to or
    cannot be trusted.
    """
    return _usable(_wanted())


def folders() -> list[Path]:
    """The folders to look in, in this order; the last is `folder()`."""
    chosen = os.environ.get(SHARED_VARIABLE)
    shared = Path(chosen).absolute() if chosen else None
    return [*([shared] if shared and _readable(shared) else []), folder()]


def lasting() -> bool:
    """Does `folder()` outlast this process, and do other processes find it, too?"""
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
def _usable(path: Path) -> Path:
    """The folder, created if it is not there; else a temporary one."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        if _readable(path):
            return path
    except OSError:
        pass
    return Path(_temporary().name)


@cache
def _readable(path: Path) -> bool:
    """Is the folder there, and may its files be trusted? Warns if not."""
    try:
        if _trusted(path.stat()):
            return True
        problem = (
            "it must belong to root or to you, and nobody else may write to it: "
            f"chmod go-w {path}"
        )
    except OSError as e:
        problem = str(e.strerror)
    warnings.warn(f"the kernel cache {path} is not used: {problem}", stacklevel=2)
    return False


def _trusted(status: os.stat_result) -> bool:
    """Is the owner root or the user, and can nobody else write?"""
    if os.name != "posix":
        return True
    others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & others


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="snref-", ignore_cleanup_errors=True)


# ------------------------------------------------------------------ names


@cache
def _compiler() -> str:
    """A hash of the compiler: another version of it writes other modules."""
    here = Path(__file__).parent
    apart = {"cache.py", "ahead.py", "__main__.py"}  # they change no module
    versions = numba.__version__, llvmlite.__version__, np.__version__, sys.version
    digest = hashlib.sha256(repr(versions).encode())
    for file in sorted(here.rglob("*.py")):
        if file.name not in apart and "drop_in" not in file.relative_to(here).parts:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def key(function: Any, *rest: object) -> str:
    """A hash of the function with all that it refers to, and of the rest."""
    parts = [_compiler(), repr(rest), *_ingredients(function, set())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _ingredients(function: Any, seen: set[Any]) -> Iterator[str]:
    """The source of the function and what its global names stand for."""
    if function in seen:
        return
    seen.add(function)
    code = function.__code__
    try:
        yield textwrap.dedent(inspect.getsource(function))
    except OSError:
        yield repr(code.co_code)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    scope = {**function.__globals__, **{n: c.cell_contents for n, c in cells}}
    names = tuple(sorted({*_names(code), *code.co_freevars}))
    for n in names:
        yield n
        yield from _value(scope.get(n), names, seen)
    for default in (*(function.__defaults__ or ()), function.__kwdefaults__):
        yield from _value(default, names, seen)


def _names(code: CodeType) -> Iterator[str]:
    """Global names and attributes in a function and in the functions within it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _value(value: Any, names: tuple[str, ...], seen: set[Any]) -> Iterator[str]:
    """What a global name stands for; of a module, what these names in it stand for."""
    inner = getattr(value, "py_func", value)
    if isinstance(inner, FunctionType):
        yield repr(getattr(value, "cuda_signatures", ()))
        if _foreign(inner.__module__):  # which one it is, not how it is made
            yield f"{inner.__module__}.{inner.__qualname__}"
        else:
            yield from _ingredients(inner, seen)
    elif isinstance(value, ModuleType):  # math.exp, but also settings.WIDTH
        if not _foreign(value.__name__):
            yield from _attributes(value, value.__name__, names, seen)
    elif isinstance(value, np.ndarray):  # handed over at the launch
        yield f"{value.dtype} {value.ndim}"
    else:
        yield repr(list(value)) if isinstance(value, EnumType) else repr(value)
        kind = value if isinstance(value, type) else type(value)
        if not _foreign(kind.__module__) and kind.__module__ != "builtins":
            yield from _attributes(value, id(value), names, seen)


def _attributes(
    value: Any, called: object, names: tuple[str, ...], seen: set[Any]
) -> Iterator[str]:
    """What these names stand for in a module, class or other object."""
    if (called, names) not in seen:
        seen.add((called, names))
        for n in names:
            with suppress(Exception):  # of a property
                yield from _value(getattr(value, n, None), names, seen)


def _foreign(module: str | None) -> bool:
    """Is it a module whose values change with its version only?"""
    return (module or "").partition(".")[0] in ("numba", "numpy", "math", "cmath")


@cache
def _machine() -> str:
    """A hash of the processor that machine code is for."""
    cpu = repr(cpu_target.target_context.codegen().magic_tuple())
    return hashlib.sha256(cpu.encode()).hexdigest()[:8]


# ------------------------------------------------------------------ files


def load(stem: str, write: Callable[[], str]) -> ModuleType:
    """Import the module of this name; it is written first if no folder has it whole."""
    for place in folders():
        path = place / f"{stem}.py"
        text = _read(path)
        if text is not None:
            with suppress(SyntaxError, ValueError):  # cut short by a full disk
                return _imported(stem, path, text)
    text = write().encode()
    _write(path, text)
    return _imported(stem, path, text)


def _imported(stem: str, path: Path, text: bytes) -> ModuleType:
    module = ModuleType(f"snref.simt.generated.{stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(text, path, "exec"), module.__dict__)
    if not hasattr(module, "FACTS"):  # its last line
        raise ValueError(f"{path} is not whole")
    module.launch._cache = MachineCode(stem)
    return module


class MachineCode:
    """The machine code of a module's function, in place of Numba's own cache.

    Numba's takes the code for stale when the module's file has another time stamp, as
    each copy of a folder may have; here the name alone says what is in a file.
    """

    def __init__(self, stem: str):
        self.stem = stem
        self.cache_path = str(folder())

    def name(self, signature: Any) -> str:
        digest = hashlib.sha256(repr(signature).encode()).hexdigest()[:8]
        return f"{self.stem}.{_machine()}-{digest}{CODE}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled function; None if no folder has it, or only a damaged file."""
        target.refresh()
        for place in folders():
            data = _read(place / self.name(signature))
            if data is not None:
                with suppress(Exception):  # a damaged pickle may raise anything
                    return CompileResult._rebuild(target, *pickle.loads(data))
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        if not _is_bound_to_this_process(result.library):
            _write(folder() / self.name(signature), dumps(result._reduce()))


def _is_bound_to_this_process(library: Any) -> bool:
    """Does the machine code hold addresses of this process?

    It does where a function calls itself, too: only the process that compiled it knows
    what Numba's unresolved names stand for, and in another one the call would crash.
    """
    names = (v.name for v in library._final_module.global_variables)
    recursive = any(n.startswith(RuntimeLinker.PREFIX) for n in names)
    return bool(library.has_dynamic_globals) or recursive


def compiled() -> set[str]:
    """The names of the modules that there is machine code for."""
    of_machine = f"*.{_machine()}-*{CODE}"
    return {f.name.partition(".")[0] for p in folders() for f in p.glob(of_machine)}


def kept(name: str) -> bytes | None:
    """What the first folder that has a file of this name holds in it."""
    found = (_read(place / name) for place in folders())
    return next((data for data in found if data is not None), None)


def keep(name: str, data: bytes) -> None:
    """Write a file of this name, for `kept`."""
    _write(folder() / name, data)


def _read(path: Path) -> bytes | None:
    """What the file holds; None if it is not there or cannot be trusted."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not _trusted(status):
                return None
            if time.time() - status.st_mtime > _DAY:
                with suppress(OSError):  # of a folder that is only read
                    os.utime(path)  # it is in use
            return file.read()
    except OSError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Write the file whole or not at all. The disk may be full, or another process
    may write the same file."""
    part = None
    try:
        number, part = tempfile.mkstemp(suffix=".part", dir=path.parent)
        with open(number, "wb") as file:
            file.write(data)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except OSError:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        return
    with suppress(OSError):
        prune(path.parent)


def prune(place: Path, now: float | None = None) -> None:
    """Remove, at most once a day, the modules that were not used for long, and then the
    least recently used until the rest is small enough.

    Other processes may read, write and prune at the same time: one that has lost a file
    compiles again.
    """
    now = now or time.time()
    marker = place / _PRUNED
    with suppress(FileNotFoundError):
        if now - marker.stat().st_mtime < _DAY:
            return
    marker.touch()
    os.utime(marker, (now, now))
    ours = re.compile(rf"\w+_[0-9a-f]{{20}}(\.py|\..+{CODE})|.+\.part")
    found: dict[str, list[tuple[Path, os.stat_result]]] = {}  # by module
    for file in place.iterdir():
        if ours.fullmatch(file.name):
            with suppress(FileNotFoundError):
                state = file.stat()  # first: a file that has just gone is no module
                found.setdefault(file.name.partition(".")[0], []).append((file, state))
    modules = sorted(
        (max(s.st_mtime for _, s in files), sum(s.st_size for _, s in files), name)
        for name, files in found.items()
    )
    total = sum(size for _, size, _ in modules)
    for used, size, name in modules:
        if now - used > LONGEST_UNUSED or total > LARGEST:
            total -= size
            for file, _ in found[name]:
                file.unlink(missing_ok=True)
