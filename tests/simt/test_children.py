"""The drop-in beyond one program: in its child processes, and in a notebook."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snref.simt.drop_in.children import MODE, STARTUP, inherited

ROOT = Path(__file__).parents[2]
KERNEL = """
import numpy as np
from numba import cuda

@cuda.jit
def increment(x):
    x[cuda.grid(1)] += 1

def total(n):
    x = np.full(32, n)
    increment[1, 32](x)
    return int(x.sum())
"""


def python(*arguments, cwd, **more):
    """Run Python in a process of its own; what it prints."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment | more,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_environment_is_put_back(monkeypatch):
    monkeypatch.delenv(MODE, raising=False)
    monkeypatch.setenv("PYTHONPATH", "mine")
    with inherited("check"):
        assert os.environ[MODE] == "check"
        assert os.environ["PYTHONPATH"] == os.pathsep.join([STARTUP, "mine"])
        with inherited("compile"):
            assert os.environ["PYTHONPATH"] == os.pathsep.join([STARTUP, "mine"])
        assert os.environ[MODE] == "check"
    assert MODE not in os.environ
    assert os.environ["PYTHONPATH"] == "mine"


def test_a_sitecustomize_of_the_user_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    paths = os.pathsep.join([STARTUP, str(tmp_path)])
    show = "import sys; print([m for m in sys.modules if m.startswith('numba')])"
    shown = python("-c", show, cwd=tmp_path, PYTHONPATH=paths, SNREF_SIMT="compile")
    assert shown.split() == ["mine", "[]"]  # and Numba is not imported for nothing


@pytest.mark.parametrize("first", ["snref.simt", "numba.cuda"])
def test_a_child_may_import_simt_or_numba_first(tmp_path, first):
    paths = os.pathsep.join([STARTUP, str(ROOT)])
    program = f"import {first}\n{KERNEL}print(total(1), hasattr(cuda, 'cudadrv'))"
    (tmp_path / "child.py").write_text(program)
    shown = python("child.py", cwd=tmp_path, PYTHONPATH=paths, SNREF_SIMT="compile")
    assert shown == "64 True\n"


def test_one_call_installs_the_drop_in(tmp_path):
    program = (
        "from numba import cuda\n"
        "from numba.cuda import to_device\n"
        "@cuda.jit\n"
        "def early(x):\n"
        "    pass\n"
        "from snref import simt\n"
        "simt.install()\n"
        f"{KERNEL}"
        "print('total', total(1))\n"
        "simt.install('check')\n"
        "@cuda.jit\n"
        "def race(x):\n"
        "    x[0] = cuda.threadIdx.x\n"
        "try:\n"
        "    race[1, 32](np.zeros(1))\n"
        "except simt.KernelError as error:\n"
        "    print(error.findings[0].kind)\n"
    )
    (tmp_path / "cells.py").write_text(program)
    shown = python("cells.py", cwd=tmp_path)
    assert "total 64" in shown
    assert "race" in shown.splitlines()
    assert "RuntimeWarning: to_device, early: made by Numba before" in shown


@pytest.mark.slow
def test_workers_of_pytest_run_kernels(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "test_kernel.py").write_text(
        f"{KERNEL}"
        "import os\n"
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(4))\n"
        "def test_total(n):\n"
        "    assert 'PYTEST_XDIST_WORKER' in os.environ\n"
        "    assert total(n) == 32 * (n + 1)\n"
    )
    arguments = ["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    assert "4 passed" in python("-m", "snref.simt", *arguments, cwd=tmp_path)


@pytest.mark.slow
def test_processes_run_kernels_however_they_are_started(tmp_path):
    (tmp_path / "program.py").write_text(
        "import multiprocessing\n"
        "import subprocess\n"
        "import sys\n"
        f"{KERNEL}"
        "if __name__ == '__main__':\n"
        "    for method in multiprocessing.get_all_start_methods():\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(method, pool.map(total, [1, 2]))\n"
        "    child = 'from program import total; print(total(1))'\n"
        "    subprocess.run([sys.executable, '-c', child], check=True)\n"
    )
    shown = python("-m", "snref.simt", "program.py", cwd=tmp_path)
    *methods, child = sorted(shown.splitlines(), key=lambda s: s == "64")
    assert methods and all(line.endswith(" [64, 96]") for line in methods)
    assert child == "64"


@pytest.mark.slow
def test_workers_keep_the_mode(tmp_path):
    (tmp_path / "program.py").write_text(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "import numpy as np\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def race(x):\n"
        "    x[0] = cuda.threadIdx.x\n"
        "def launch(n):\n"
        "    race[1, n](np.zeros(1))\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1, get_context('spawn')) as pool:\n"
        "        print(pool.submit(launch, 32).exception())\n"
    )
    arguments = ["-m", "snref.simt", "--check", "program.py"]
    assert "program.py:7: race: " in python(*arguments, cwd=tmp_path)
