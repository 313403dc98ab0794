"""Check that this process can run kernels, before a command begins to."""

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

# What "snref train digits" needs, with room to spare. A larger net needs its own bytes
# beside that: those are named when they cannot be had.
ADDRESS_SPACE = 1_000_000 * 1024
OPEN_FILES = 64


class NotReady(RuntimeError):
    """This process cannot run kernels; says why, and what would be enough."""


def check() -> None:
    """Raise NotReady if a limit is too low for any training, or Numba is broken."""
    if resource is not None:
        for limit, option, unit, least in (
            (resource.RLIMIT_AS, "-v", 1024, ADDRESS_SPACE),
            (resource.RLIMIT_DATA, "-d", 1024, ADDRESS_SPACE),
            (resource.RLIMIT_NOFILE, "-n", 1, OPEN_FILES),
        ):
            allowed, _ = resource.getrlimit(limit)
            if allowed != resource.RLIM_INFINITY and allowed < least:
                raise NotReady(
                    f"the limit 'ulimit {option} {allowed // unit}' is too low to run "
                    f"kernels: it must be at least {least // unit}"
                )
    try:
        import numba  # noqa: F401
    except Exception as error:  # a broken llvmlite raises OSError and others
        raise NotReady(
            f"Numba cannot be imported: {type(error).__name__}: {error}. "
            "'snref doctor' says what would repair it"
        ) from error
