"""The folder stands alone: copied out of snref it works, and so do its tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAST = ["test_stages.py", "test_elementary.py"]


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(FAST, id="fast"),
        pytest.param(["."], id="all", marks=pytest.mark.full),
    ],
)
def test_the_folder_copied_out_passes_its_tests(tmp_path, tests):
    passed_over = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "snref/simt", tmp_path / "snref/simt", ignore=passed_over)
    shutil.copytree(ROOT / "tests/simt", tmp_path / "tests/simt", ignore=passed_over)
    (tmp_path / "tests/simt" / Path(__file__).name).unlink()
    (tmp_path / "snref/__init__.py").touch()  # this one, and not what is installed
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n  full\n")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    run += ["no:xdist", "-m", "not slow and not full"]
    run += [f"tests/simt/{t}" for t in tests]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
