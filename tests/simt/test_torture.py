"""Control flow: the compiled kernel and check mode against the reference interpreter,
and the interpreter against Numba's simulator."""

import os
import subprocess
import sys

import numpy as np
import pytest

from snref import simt

from . import torture


def kernels(mark, variants):
    """A parameter for each kernel, with a mark and another one for the variants."""
    marks = {True: variants, False: mark}
    return [
        pytest.param(k, id=torture.name(k), marks=marks[k in torture.VARIANTS])
        for k in torture.CASES
    ]


def result(run, kernel):
    """What the kernel leaves in its output."""
    grid, block = torture.CASES[kernel]
    given = torture.arguments()
    run(kernel)[grid, block](*given)
    return given[1]


def test_there_are_at_least_sixty_kernels():
    assert len(torture.CASES) >= 60


@pytest.mark.parametrize("kernel", kernels([], pytest.mark.slow))
def test_a_kernel_gives_what_the_interpreter_gives(kernel):
    expected = result(simt.debug, kernel)
    np.testing.assert_array_equal(result(simt.compile, kernel), expected)


@pytest.mark.parametrize("kernel", kernels(pytest.mark.slow, pytest.mark.full))
def test_check_mode_gives_what_the_interpreter_gives(kernel):
    expected = result(simt.debug, kernel)
    np.testing.assert_array_equal(result(simt.check, kernel), expected)


@pytest.mark.slow
def test_the_interpreter_gives_what_the_simulator_gives(tmp_path):
    """The simulator needs a process of its own."""
    file = tmp_path / "results.npz"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, torture.__file__, str(file)]
    subprocess.run(command, check=True, env=environment)
    simulated = dict(np.load(file))
    assert set(simulated) == {torture.name(kernel) for kernel in torture.CASES}
    for kernel in torture.CASES:
        name = torture.name(kernel)
        np.testing.assert_array_equal(
            result(simt.debug, kernel), simulated[name], err_msg=name
        )
