"""Writing a file whole or not at all."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write(path: str, text: str) -> None:
    """Write text to the file, or to standard output if the path is "-".

    Whole or not at all, as ``replacing`` does. Raises OSError, which names the path.
    """
    target = Path(path).resolve()
    try:
        if path == "-":
            sys.stdout.write(text)
        elif target.exists() and not target.is_file():  # a pipe, a device: as it is
            target.write_text(text, encoding="utf-8")
        else:
            with replacing(target) as file:
                file.write(text.encode("utf-8"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the target's name once all of it is on the disk.

    Until then it is a temporary file beside the target: whoever reads sees the old
    file or the new one, never half of it, even if this process is killed meanwhile.
    """
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
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
