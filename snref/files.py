"""Writing a file whole or not at all."""

import os
import sys
import tempfile
from pathlib import Path


def write(path: str, text: str) -> None:
    """Write text to the file, or to standard output if the path is "-".

    The text goes to a temporary file beside it, which then takes its name: whoever
    reads sees the old file or the new one, never half of it. Raises OSError, which
    names the path.
    """
    target = Path(path).resolve()
    try:
        if path == "-":
            sys.stdout.write(text)
        elif target.exists() and not target.is_file():  # a pipe, a device: as it is
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _replace(target: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp lets only the owner read
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    """The permissions that new files are not to have."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
