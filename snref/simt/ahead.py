"""Kernels compiled before their first launch, on the other cores.

Numba compiles one function at a time in a process. So helper processes begin at the
far end of the list, and leave what they make in the cache on disk; this process goes
on from the near end, at each kernel's first launch, and finds the rest there. Nothing
waits for a helper, and without any the launches compile as ever.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from snref.simt import cache
from snref.simt.front import python_function
from snref.simt.limits import Three
from snref.simt.run import Module
from snref.simt.style import Style

FEWEST = 4  # kernels that are worth a helper, whose start takes as long as one of them
MOST = 3  # helpers; each needs some 200 MB

_helpers: list[subprocess.Popen[bytes]] = []


class Work(Protocol):
    """What a helper can do: a job, or another compiler's like it.

    stem  the name under which the cache keeps what it makes
    """

    @property
    def stem(self) -> str: ...

    def compile(self) -> object:
        """Compile into the cache on disk."""
        ...

    def done(self) -> bool:
        """Is it in the cache already?"""
        ...


@dataclass(frozen=True)
class Job:
    """A kernel by the module and the name under which it stands there, to compile for
    a block shape and the Numba types of its arguments."""

    module: str
    name: str
    block: Three
    types: tuple[Any, ...]

    @property
    def function(self) -> Any:
        return python_function(getattr(import_module(self.module), self.name))

    def compile(self) -> None:
        """Into the cache on disk."""
        Module(self.function, self.block, 0, self.types, Style).compile(self.types)

    @property
    def stem(self) -> str:
        """The name under which the cache has it."""
        return Module.stem_of(self.function, self.block, 0, self.types)

    def done(self) -> bool:
        """Is it in the cache already?"""
        return self.stem in cache.compiled()


def compile_ahead(jobs: Sequence[Work], threads: int | None = None) -> int:
    """Begin to compile these, in the order of their first launches; returns at once.

    Returns how many helpers it started: none while others are at work, if few kernels
    are missing, with one thread or one core, or if processes share no cache.
    """
    _helpers[:] = [helper for helper in _helpers if helper.returncode is None]
    cores = threads or os.cpu_count() or 1
    if _helpers or cores < 2 or not cache.lasting() or not sys.executable:
        return 0
    held = cache.compiled()
    missing = [job for job in jobs if job.stem not in held]
    count = min(cores - 1, MOST, len(missing) // FEWEST)
    for i in range(count):
        with suppress(OSError):
            helper = _start(missing[::-1][i::count])
            _helpers.append(helper)
            threading.Thread(target=_until_its_end, args=(helper,), daemon=True).start()
    return len(_helpers)


def _start(jobs: Sequence[Work]) -> subprocess.Popen[bytes]:
    """A process that works at these, and has no say."""
    path = [entry for entry in sys.path if isinstance(entry, str)]
    code = (
        # Ctrl-C at a terminal is for this process, which may go on for a while
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"import sys; sys.path[:] = {path!r}\n"
        "from snref.simt.ahead import help_; help_()"
    )
    helper = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    assert helper.stdin is not None
    try:
        helper.stdin.write(pickle.dumps(list(jobs)))
        helper.stdin.flush()  # and it stays open: its end is the end of this process
    except OSError:
        helper.kill()
        _until_its_end(helper)
        raise
    return helper


def _until_its_end(helper: subprocess.Popen[bytes]) -> None:
    """Leaves neither a zombie nor an open pipe."""
    helper.wait()
    if helper.stdin is not None:
        with suppress(OSError):
            helper.stdin.close()


@atexit.register
def _stop() -> None:
    for helper in _helpers:
        helper.kill()
        _until_its_end(helper)


def help_() -> None:
    """What a helper does: the jobs that come in, until they or their sender end."""
    try:
        jobs: list[Work] = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_watch, daemon=True).start()
        for job in jobs:
            with suppress(Exception):  # its launch will say what is wrong
                if not job.done():
                    job.compile()
    finally:
        os._exit(0)  # the thread still reads


def _watch() -> None:
    """Waits for the end of what the sender sends."""
    while os.read(0, 4096):
        pass
    os._exit(0)
