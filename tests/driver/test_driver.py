"""The cuda device beside a stand-in for NVIDIA's driver: no GPU is needed.

numba-cuda compiles as ever, and the driver's binding calls ``libcuda.c``, which is
compiled into a temporary folder. Each test is a process of its own, in which that
folder comes first. Needs Linux, a C compiler and the extra gpu or gpu13.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import snref
from snref.device.present import PIP, _installed

pytestmark = pytest.mark.driver
ROOT = Path(snref.__file__).parents[1]
HERE = Path(__file__).parent


def missing():
    """Return what these tests need and is not here."""
    if sys.platform != "linux":
        return "the stand-in for the driver is for Linux"
    if shutil.which("cc") is None:
        return "there is no C compiler, cc"
    if importlib.util.find_spec("numba_cuda") is None:
        return "the extra gpu is not installed"
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Compile the stand-in; return the folder that it is in."""
    if reason := missing():
        pytest.skip(reason)
    made = tmp_path_factory.mktemp("driver")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libcuda.so.1"]
    library = made / "libcuda.so.1"
    subprocess.run(
        ["cc", *flags, "-o", str(library), str(HERE / "libcuda.c")], check=True
    )
    return made


@pytest.fixture
def beside(folder):
    """Return a function that runs Python where the stand-in is the driver."""

    def run(*arguments, **settings):
        path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
        here = {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": path}
        fake = {key: str(value) for key, value in settings.items()}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | fake | here,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def kernels_beside(beside):
    """Return a function that does so with kernels that run, and no fault allowed."""

    def run(*arguments, **settings):
        code, out, err = beside(str(HERE / "stand_in.py"), *arguments, **settings)
        assert "fault: " not in err, err
        return code, out, err

    return run


# What runs on a GPU


def gpu_tests(beside, order, *which):
    plugins = "-p", "tests.driver.stand_in", "-p", "tests.driver.races"
    command = "-m", "pytest", "-q", "-n", "0", "-m", "gpu", *plugins
    code, out, err = beside(*command, *which, FAKE_ORDER=order)
    assert code == 0, out + err  # races and faults are failures, too
    return int(re.search(r"(\d+) passed", out).group(1)), out


def test_the_tests_that_need_a_gpu_pass_with_streams_as_late_as_may_be(beside):
    passed, out = gpu_tests(beside, "lazy")
    assert passed >= 34 and "images/s" in out and "skipped" not in out


@pytest.mark.full
@pytest.mark.parametrize("order", ["random:1", "random:2", "12", "0"])
def test_plans_end_in_the_same_bits_in_any_order_of_the_streams(beside, order):
    passed, _ = gpu_tests(beside, order, "tests/training")
    assert passed >= 28


def test_programs_end_in_the_same_bits_and_no_mutation_of_the_waits_does(beside):
    programs = "tests/driver/stand_in.py", "tests/driver/programs.py"
    code, out, err = beside(*programs, "60")
    assert code == 0, err
    report = json.loads(out)
    assert report["programs"] == 60 and report["wrong"] == {}
    assert len(report["mutations"]) >= 15
    unnoticed = [name for name, seed in report["mutations"].items() if seed is None]
    assert not unnoticed


# Which GPU is used


WORKS, FAILS, NONE = "works", "FAILS", "none "
SUMS = "four sums: 11, 22, 33, 44"
FINDINGS = {  # what the driver is like, or the environment; what the doctor says
    "no device": ({"FAKE_DEVICES": 0}, NONE, "finds no device", None),
    "two devices": ({"FAKE_DEVICES": 2}, WORKS, "Stand-in 0", None),
    "capability 3.5": ({"FAKE_CAPABILITY": 35}, NONE, "5.0 is the oldest", None),
    "capability 8.0": ({"FAKE_CAPABILITY": 80}, WORKS, SUMS, None),
    "capability 12.0": ({"FAKE_CAPABILITY": 120}, WORKS, SUMS, None),
    "driver for CUDA 11": (
        {"FAKE_DRIVER": 11080},
        *(FAILS, "driver for CUDA 11.8", "install NVIDIA's driver 525 or newer"),
    ),
    "little memory": ({"FAKE_BYTES": 500}, FAILS, "500 are free", "nvidia-smi"),
    "no pinned memory": ({"FAKE_PINNED": 8}, FAILS, "will not pin", "nvidia-smi"),
    "hidden": (
        {"FAKE_DEVICES": 0, "CUDA_VISIBLE_DEVICES": ""},
        *(NONE, "CUDA_VISIBLE_DEVICES=", "unset CUDA_VISIBLE_DEVICES"),
    ),
    "disabled": (
        {"NUMBA_DISABLE_CUDA": "1"},
        *(NONE, "NUMBA_DISABLE_CUDA is set", "unset NUMBA_DISABLE_CUDA"),
    ),
    "simulated": (
        {"NUMBA_ENABLE_CUDASIM": "1"},
        *(NONE, "NUMBA_ENABLE_CUDASIM is set", "unset NUMBA_ENABLE_CUDASIM"),
    ),
}


if _installed() == 13:
    FINDINGS |= {
        "capability 11.0": ({"FAKE_CAPABILITY": 110}, WORKS, SUMS, None),
        "capability 7.0": ({"FAKE_CAPABILITY": 70}, FAILS, "CUDA 12 are", PIP[12]),
        "driver for CUDA 12": ({"FAKE_DRIVER": 12090}, FAILS, "CUDA 12 are", PIP[12]),
    }
else:
    FINDINGS |= {
        "capability 11.0": ({"FAKE_CAPABILITY": 110}, FAILS, "CUDA 13 are", PIP[13]),
        "capability 7.0": ({"FAKE_CAPABILITY": 70}, WORKS, SUMS, None),
        "driver for CUDA 12": ({"FAKE_DRIVER": 12090}, WORKS, SUMS, None),
    }


@pytest.mark.parametrize("case", FINDINGS)
def test_the_doctor_names_what_is_wrong_and_what_repairs_it(kernels_beside, case):
    settings, mark, says, repair = FINDINGS[case]
    code, out, err = kernels_beside("-m", "snref", "doctor", **settings)
    found = re.search(f"\ncuda  {mark}  (.*)", out)
    assert found, out + err
    line = found[1]
    assert says in line
    assert f"  {repair}\n" in out if repair else out.endswith("nothing to repair\n")
    if case != "simulated":  # there the CPU device does not work, either
        assert code == (mark == FAILS), out + err
        assert out.count("to repair:\n  ") == (repair is not None)


TRAIN = ["-m", "snref", "train", "lenet", "--batch", "2", "--epochs", "1"]


@pytest.mark.parametrize("settings", [{"FAKE_CAPABILITY": 35}, {"FAKE_DRIVER": 11080}])
def test_auto_uses_the_cpu_where_no_kernel_runs_on_the_gpu(kernels_beside, settings):
    code, out, err = kernels_beside(*TRAIN, **settings)
    assert code == 0 and "trained in" in out, err
    assert ("since the GPU does not work" in out) == ("FAKE_DRIVER" in settings)
    code, out, err = kernels_beside(*TRAIN, "--device", "cuda", **settings)
    assert (code, out) == (2, "") and err.startswith("snref: no CUDA device: driver")


def test_a_training_that_does_not_fit_the_gpu_is_one_line(kernels_beside):
    code, _, err = kernels_beside(*TRAIN, "--device", "cuda", FAKE_BYTES=600_000)
    assert code == 1 and err.count("\n") == 1
    assert re.search(r"\d+ bytes of the GPU, \d+ of its 600000 are free", err)
    arguments = ["--device", "cuda", "--preset", "offload"]
    code, _, err = kernels_beside(*TRAIN, *arguments, FAKE_PINNED=100)
    assert code == 1 and err.count("\n") == 1 and "--host-memory" in err


def test_the_figure_of_the_pool_allocates_on_the_gpu(kernels_beside, tmp_path):
    (tmp_path / "measure.py").write_text(
        "from figures import pool\n"
        "pool.NETS = {'lenet': 2}\n"
        "(row,) = pool.search([])\n"
        "print(row['allocator'], row['allocator_seconds'] > 0)\n"
        "row['net'] = 'resnet50'\n"
        "print(len(pool.compare([row])))\n"
    )
    code, out, err = kernels_beside(str(tmp_path / "measure.py"))
    assert (code, out) == (0, "cuMemAlloc True\n2\n"), err


# Memory, contexts and machine code


@pytest.mark.parametrize(
    "scenario",
    [
        "memory_is_what_was_planned",
        "memory_is_freed_without_the_garbage_collector",
        "memory_is_freed_in_a_thread_without_a_context",
        "a_second_session_has_the_memory_of_the_first",
        "a_session_runs_in_another_thread_and_on_the_second_gpu",
        "machine_code_is_kept_on_disk",
        "kernels_compile_in_other_processes",
        "nothing_is_done_on_the_default_stream",
    ],
)
def test_of_the_device(kernels_beside, scenario):
    script = "tests/driver/scenarios.py"
    code, out, err = kernels_beside(script, scenario, FAKE_DEVICES=2)
    assert code == 0 and out.endswith("passed\n"), out + err
