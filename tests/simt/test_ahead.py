"""Helper processes compile into the cache; nobody depends on them."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from snref import simt
from snref.simt import ahead
from snref.simt.ahead import Job, compile_ahead

from . import examples, refused

ROOT = Path(__file__).parents[2]
A = np.ones(64, np.float32)
TYPES = (numba.typeof(A), numba.typeof(A))


def jobs(*blocks: int) -> list[Job]:
    return [Job(examples.__name__, "scale", (n, 1, 1), TYPES) for n in blocks]


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """A cache with nothing in it, two cores, and no helper yet."""
    monkeypatch.setenv("SNREF_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead, "_helpers", [])


def test_the_launch_finds_what_a_helper_compiled():
    bad = Job(refused.__name__, "exception", (32, 1, 1), TYPES[:1])
    wanted = [*jobs(32, 64, 96), bad]
    assert compile_ahead(wanted) == 1
    assert compile_ahead(wanted) == 0  # one is at work
    assert ahead._helpers[0].wait(120) == 0  # its first was the one that is refused
    assert [job.done() for job in wanted] == [True, True, True, False]
    compiled, c = simt.compile(examples.scale), np.empty_like(A)
    for block in (32, 64, 96):
        compiled[2, block](A, c)
        assert (c == 3).all()
    hits = [m.code.stats.cache_hits for m in compiled.modules.values()]
    assert [sum(h.values()) for h in hits] == [1, 1, 1]
    assert compile_ahead(wanted) == 0  # little is missing now


def test_a_helper_works_from_the_far_end(monkeypatch):
    dealt = []

    def start(jobs):
        dealt.append(jobs)
        return SimpleNamespace(wait=lambda: 0, stdin=None)

    monkeypatch.setattr(ahead, "_start", start)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    wanted = jobs(*range(32, 32 * 9, 32))
    compile_ahead(wanted)
    assert dealt == [wanted[::-1][::2], wanted[::-1][1::2]]


@pytest.mark.parametrize(
    ("count", "cores", "threads"), [(3, 8, None), (9, 1, None), (9, 8, 1)]
)
def test_no_helper_for_little_or_on_one_core(monkeypatch, count, cores, threads):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert compile_ahead(jobs(*range(1, count + 1)), threads) == 0


def test_no_helper_without_a_cache_to_share(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SNREF_CACHE", str(tmp_path / "file"))
    assert compile_ahead(jobs(*range(1, 9))) == 0


def test_a_helper_leaves_no_pipe_open_and_no_zombie():
    assert compile_ahead(jobs(32, 64, 96, 128)) == 1
    (helper,) = ahead._helpers
    helper.wait(120)
    deadline = time.monotonic() + 10
    while not helper.stdin.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert helper.stdin.closed


def test_a_helper_that_dies_at_once_is_no_problem(monkeypatch):
    monkeypatch.setattr(
        sys, "executable", "/bin/true" if os.name == "posix" else "where"
    )
    compile_ahead(jobs(32, 64, 96, 128))
    for helper in ahead._helpers:
        assert helper.wait(60) is not None


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_is_for_the_parent():
    assert compile_ahead(jobs(*range(32, 32 * 17, 32))) == 1
    (helper,) = ahead._helpers
    time.sleep(0.5)
    helper.send_signal(signal.SIGINT)
    assert helper.wait(120) == 0  # it finished
    assert all(job.done() for job in jobs(*range(32, 32 * 17, 32)))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills a process as POSIX does")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_helper_does_not_outlive_its_parent(tmp_path, how):
    code = """
        import os, sys, time
        os.cpu_count = lambda: 2
        from snref.simt import ahead
        from tests.simt.test_ahead import jobs
        assert ahead.compile_ahead(jobs(*range(1, 1025))) == 1
        print(ahead._helpers[0].pid, flush=True)
        time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    helper = int(parent.stdout.readline())
    parent.send_signal(getattr(signal, how))
    parent.wait(60)
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while alive(helper):
        assert time.monotonic() < deadline, "the helper still runs"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Is it running, and no zombie that nobody has reaped?"""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat")
        return (
            not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except (ProcessLookupError, FileNotFoundError):
        return False
