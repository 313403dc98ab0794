"""Read files, write them whole or not at all, and name them in errors."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EINVAL, EISDIR, ENOENT
from pathlib import Path
from platform import node
from typing import Any, BinaryIO, TextIO
from zlib import crc32

OUTPUT = "standard output"
MOST = 2**27  # characters of a file that is read: a device, or a mistake, has more


def read(path: str) -> str:
    """Return the text of a file, or of standard input if the path is "-".

    The text must be UTF-8. A byte order mark, which some editors put first, is left
    out. Raises OSError, or ValueError if it is no such text, or is longer than
    ``MOST``; both name the path.
    """
    with _naming(path):
        _check_named(path)
        if path != "-":
            with Path(path).open(encoding="utf-8-sig") as file:
                text = file.read(MOST + 1)
        elif sys.stdin is None:  # as after <&-
            raise ValueError("standard input is closed")
        else:
            text = sys.stdin.buffer.read(MOST + 1).decode("utf-8-sig")
        if len(text) > MOST:
            raise ValueError(f"has more than {MOST:,} characters")
        return text


def write(path: str, text: str) -> None:
    """Write text to the file, or to standard output if the path is "-".

    A file is written whole or not at all, as by ``replacing``. Raises OSError, or
    ValueError if there can be no such path; both name it.
    """
    if path == "-":
        print(text, end="")
        return
    check_writable(path)
    with _naming(path):
        target = Path(path).resolve()
        if target.exists() and not target.is_file():  # a pipe or a device stays
            target.write_text(text, encoding="utf-8")
        else:
            with replacing(target) as file:
                file.write(text.encode("utf-8"))


def check_writable(path: str) -> None:
    """Check that ``write`` can write the file, before the work that makes its text.

    Raises OSError or ValueError, which name the path; "-" can always be written.
    """
    if path == "-":
        return
    with _naming(path):
        _check_named(path)
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
        if target.is_file() or not target.exists():
            with tempfile.TemporaryFile(dir=target.parent):
                pass


def _check_named(path: str) -> None:
    if not path:
        raise OSError(ENOENT, "a file needs a name")


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file, and give it the target's name when all of it is written.

    Until then it is a temporary file beside the target: whoever reads sees the old
    file or the new one, never half of it, even if this process is killed meanwhile.
    What a killed process left is removed by the next one that writes in the folder.
    Raises OSError, too, for a device or a pipe: no file may take its place.
    """
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(EINVAL, "is no ordinary file")
    _sweep(target.parent)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_prefix(os.getpid()))
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))  # mkstemp lets only the owner read
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _prefix(process: int | str) -> str:
    """Return how the names of a process's temporary files begin, on this machine."""
    return f".snref-{crc32(node().encode()):08x}-{process}-"


def _sweep(folder: Path) -> None:
    """Remove temporary files of processes of this machine that run no more."""
    for left in folder.glob(_prefix("*") + "*"):
        with suppress(OSError, ValueError):  # as of a file that is open on Windows
            if os.name == "nt" or not _runs(int(left.name.split("-")[2])):
                left.unlink()


def _runs(process: int) -> bool:
    """Tell whether a process of this number runs (POSIX)."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


def _mode(target: Path) -> int:
    """The permissions of the file, or those that a new one is to have."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


class NamedOutput:
    """A stream to print to, whose errors have the file name ``OUTPUT``.

    The stream itself raises an OSError without a name, from which nobody can tell
    whether the output failed or something else. An error of ``write`` is raised again
    by ``flush``, since argparse suppresses the first.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        try:
            with _naming(OUTPUT):
                return self.stream.write(text)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        if self.error:
            raise self.error
        with _naming(OUTPUT):
            self.stream.flush()


def complain(message: str) -> None:
    """Print a message as one line on standard error, if that is open."""
    if sys.stderr is not None:  # print(file=None) would print on standard output
        with suppress(OSError):
            print(" ".join(message.split()), file=sys.stderr, flush=True)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the path into the errors that are raised inside."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    except ValueError as error:  # an encoding, or a path with a NUL in it
        said = path if path.isprintable() else repr(path)
        raise ValueError(f"{said}: {error}") from None
