"""Say on standard error how far a command is."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

PATIENCE = 2.0  # seconds before ``elapsed`` says anything


class Progress:
    """Counts what is done. On a terminal one line is rewritten, and cleared in the end.

    Elsewhere it prints nothing before a minute has passed, and then a line a minute.
    """

    def __init__(self, verb: str, total: int) -> None:
        self.verb, self.total = verb, total
        self.number = 0
        self.is_live = sys.stderr is not None and sys.stderr.isatty()
        self.pause = 0.1 if self.is_live else 60.0
        self.shown = time.monotonic()
        self.width = 0

    def show(self, what: str) -> None:
        """Say what is begun, the next of all there is."""
        self.number += 1
        now = time.monotonic()
        if sys.stderr is None or now - self.shown < self.pause:
            return
        self.shown = now
        line = f"{self.verb}: {self.number} of {self.total}: {what}"
        with suppress(OSError):
            if self.is_live:
                print(f"\r{line:{self.width}}", end="", file=sys.stderr, flush=True)
                self.width = len(line)
            else:
                print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.width and sys.stderr is not None:
            with suppress(OSError):
                blank = " " * self.width
                print(f"\r{blank}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def elapsed(verb: str) -> Iterator[None]:
    """Say on a terminal how long a command has run, if it takes a while."""
    is_live = sys.stderr is not None and sys.stderr.isatty()
    ended = Event()

    def tell() -> None:
        start = time.monotonic()
        if ended.wait(PATIENCE):
            return
        while not ended.wait(1.0):
            with suppress(OSError):
                line = f"\r{verb}: {time.monotonic() - start:.0f} s"
                print(line, end="", file=sys.stderr, flush=True)
        with suppress(OSError):
            print(f"\r{' ' * 20}\r", end="", file=sys.stderr, flush=True)

    teller = Thread(target=tell, daemon=True)
    if is_live:
        teller.start()
    try:
        yield
    finally:
        ended.set()
        if is_live:
            teller.join()
