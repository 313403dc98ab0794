"""Files are written whole or not at all, and errors say which file or stream failed."""

import io
import os
from pathlib import Path

import pytest

from snref.support.files import (
    OUTPUT,
    NamedOutput,
    check_writable,
    complain,
    read,
    write,
)


def test_what_is_written_is_read_again(tmp_path):
    path = str(tmp_path / "a.txt")
    write(path, "a\u0441\n")
    assert read(path) == "a\u0441\n"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(str(path), "new")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("where", ["no/where", "folder", "file/x", ""])
def test_a_place_that_cannot_be_written_is_found_before(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    before = sorted(tmp_path.iterdir())
    for attempt in (check_writable, lambda path: write(path, "text")):
        with pytest.raises(OSError) as caught:
            attempt(where)
        assert caught.value.filename == where
    assert sorted(tmp_path.iterdir()) == before


def test_a_check_changes_nothing(tmp_path):
    path = tmp_path / "a.txt"
    check_writable(str(path))
    check_writable("-")
    assert not path.exists()
    path.write_text("old")
    check_writable(str(path))
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text):
        raise OSError(28, "No space left on device")


def test_an_error_of_the_output_carries_its_name_and_is_raised_again_by_flush():
    output = NamedOutput(Full())
    for attempt in (lambda: output.write("x"), output.flush):
        with pytest.raises(OSError) as caught:
            attempt()
        assert caught.value.filename == OUTPUT
    fine = NamedOutput(io.StringIO())
    assert fine.write("text") == 4 and not fine.isatty()
    fine.flush()
    assert fine.getvalue() == "text"


def test_a_complaint_is_one_line_and_never_fails(monkeypatch, capsys):
    complain("two\nlines  of text")
    assert capsys.readouterr() == ("", "two lines of text\n")
    for stream in (None, Full()):
        monkeypatch.setattr("sys.stderr", stream)
        complain("unheard")
    assert capsys.readouterr().out == ""
