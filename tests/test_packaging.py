"""What a run of the tests proves, and what is packaged. CI builds and tries it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("body", "code"),
    [("pytest.skip()", 5), ("pass", 0), ("assert False", 1)],
)
def test_a_run_in_which_every_test_was_skipped_fails(tmp_path, body, code):
    here = ROOT / "tests" / "conftest.py"
    (tmp_path / "conftest.py").write_text(here.read_text(encoding="utf-8"))
    (tmp_path / "test_one.py").write_text(f"import pytest\ndef test_one(): {body}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stdout
    assert ("has shown nothing" in done.stdout) == (code == 5)


def test_every_extra_is_installed_by_a_step_of_ci():
    """An extra that nothing installs is a promise that nothing keeps."""
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps += (ROOT / "README.md").read_text(encoding="utf-8")
    for extra in PROJECT["project"]["optional-dependencies"]:
        assert re.search(rf"[\[,]{extra}[\],]", steps), extra


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no clone, but an sdist")
def test_the_sdist_holds_what_the_tests_and_the_figures_need():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("git is not installed")
    sdist = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]
    always = ("README.md", "LICENSE", "NOTICE", "pyproject.toml", ".gitignore")
    for name in tracked.stdout.splitlines():
        top = name.partition("/")[0]
        assert f"/{top}" in sdist["include"] or name in always, (
            f"{name}: needs an entry in pyproject.toml, include of the sdist"
        )
