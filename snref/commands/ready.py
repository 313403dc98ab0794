"""Check that this process can run kernels, before a command begins to."""

import os
import subprocess
import sys

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

# What "snref train digits" needs, with room to spare. A larger net needs its own bytes
# beside that: those are named when they cannot be had.
ADDRESS_SPACE = 1_000_000 * 1024
OPEN_FILES = 64


# Settings of Numba under which a kernel stays a Python function.
UNCOMPILED = "NUMBA_DISABLE_JIT", "NUMBA_ENABLE_CUDASIM"
PACKAGES = "pip install --upgrade 'numpy>=1.26' 'numba>=0.66,<0.69' 'matplotlib>=3.8'"


class NotReady(RuntimeError):
    """This process cannot run kernels; says why, and what would be enough.

    repair   a command that may help; None: no command does
    """

    def __init__(self, says: str, repair: str | None = None):
        super().__init__(says)
        self.repair = repair


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
    for name in UNCOMPILED:
        if os.environ.get(name, "0") not in ("", "0"):
            says = f"{name} is set, under which no kernel is compiled: unset it"
            raise NotReady(says, f"unset {name}")
    try:
        import numba  # noqa: F401
    except Exception as error:  # a broken llvmlite raises OSError and others
        raise NotReady(
            f"Numba cannot be imported: {type(error).__name__}: {error}. "
            "'snref doctor' says what would repair it",
            repair("import numba"),
        ) from error


def repair(code: str) -> str:
    """Return a command that may help, now that Python code failed.

    A setting of Numba in the environment may be the fault, and then no package helps:
    the code is tried once more without any.
    """
    settings = sorted(name for name in os.environ if name.startswith("NUMBA_"))
    if settings:
        others = {k: v for k, v in os.environ.items() if k not in settings}
        others["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-P", "-c", code]
        done = subprocess.run(command, env=others, capture_output=True, check=False)
        if done.returncode == 0:
            return f"unset {' '.join(settings)}"
    return PACKAGES
