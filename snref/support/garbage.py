"""Pause Python's cyclic garbage collector during work that makes few cycles."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0  # the number of pauses under way, in all threads
_collected = False  # whether the collector was enabled before the first of them


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Pause the collector. Pauses may be nested, and may overlap in threads.

    Plans and compilers make many small objects and few cycles. The search for those
    takes a good part of their time. What they have made counts as old in the end, so
    that only the next full collection looks at it.
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
                if not gc.get_freeze_count():  # else it would thaw what others froze
                    gc.freeze()
                    gc.unfreeze()  # into the oldest generation
                gc.enable()
