"""The drop-in in Python processes that a program starts: workers of pytest, of
multiprocessing, or a plain `subprocess`.

A child inherits the environment. PYTHONPATH names the folder `startup` there, so each
Python runs `startup/sitecustomize.py` at its start, and that replaces `numba.cuda` as
soon as it is imported. A program that gives its children another environment, or starts
Python with `-E`, `-I` or `-S`, runs them without the drop-in.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODE = "SNREF_SIMT"  # how the kernels of child processes run: a key of MODES
STARTUP = str(Path(__file__).parent / "startup")


@contextmanager
def inherited(mode: str) -> Iterator[None]:
    """Let Python processes that are started inside the block run kernels in `mode`."""
    before = {name: os.environ.get(name) for name in (MODE, "PYTHONPATH")}
    others = (before["PYTHONPATH"] or "").split(os.pathsep)
    folders = [STARTUP, *(f for f in others if f and f != STARTUP)]
    os.environ[MODE] = mode
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
