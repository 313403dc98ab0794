"""A pause for Python's cyclic garbage collector, for work that leaves it nothing."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0  # under way, in all threads
_collected = False  # before the first of them


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Plans and compilers make many small objects and few cycles: looking for those
    takes a good part of the time. Pauses may be nested, and overlap in threads.
    """
    global _pauses, _collected
    with _lock:
        if not _pauses:
            _collected = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _collected:
                gc.enable()
