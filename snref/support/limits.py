"""How much memory this process can get: the machine's, or less by a limit."""

import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]


def check_memory(nbytes: int, what: str) -> None:
    """Raise MemoryError if a process cannot get so many bytes, before it tries to.

    A system that promises more memory than it has ends the process later, without a
    word.
    """
    most, limit = min(_limits(), default=(nbytes, ""))
    if nbytes > most:
        raise MemoryError(f"{what} needs {nbytes} bytes; {limit} is {most}")


def _limits() -> list[tuple[int, str]]:
    """Return the limits that are known here: bytes, and what it is that limits them."""
    found = []
    if hasattr(os, "sysconf"):
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found.append((machine, "the memory of this machine"))
    group = Path("/sys/fs/cgroup/memory.max")  # of a container
    if group.is_file() and (text := group.read_text().strip()).isdecimal():
        found.append((int(text), "the memory of this container"))
    if resource is not None:
        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        if allowed != resource.RLIM_INFINITY:
            found.append((allowed, "the limit of this process (ulimit -v)"))
    return found
