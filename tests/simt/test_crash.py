"""A compiled kernel that ends the process points to check mode, which names a line."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def far_away(a):
    a[cuda.grid(1) << 40] = 1

far_away[1, 32](cuda.to_device(np.zeros(4)))
"""


def run(path, *options):
    return subprocess.run(
        [sys.executable, "-m", "snref.simt", *options, str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
def test_a_crash_points_to_check_mode(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    died = run(path)
    assert died.returncode == -signal.SIGSEGV  # it ends as it would have without us
    assert "python -m snref.simt --check PROGRAM" in died.stderr
    assert f'"{path}", line 9' in died.stderr  # faulthandler's report is there, too


@pytest.mark.slow
def test_check_mode_names_the_line(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    refused = run(path, "--check")
    assert refused.returncode == 1
    assert "program.py:7: far_away: a[" in refused.stderr
    assert "is out of bounds (thread 1 of block 0)" in refused.stderr
