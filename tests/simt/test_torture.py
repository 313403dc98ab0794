"""Control flow: what the compiler makes of it against Numba's simulator."""

import os
import subprocess
import sys

import numpy as np
import pytest

from snref import simt

from . import torture

KERNELS = [
    pytest.param(
        kernel,
        id=torture.name(kernel),
        marks=[pytest.mark.slow] if kernel in torture.VARIANTS else [],
    )
    for kernel in torture.CASES
]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The results of Numba's simulator, from a process of its own."""
    file = tmp_path_factory.mktemp("simulator") / "results.npz"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, torture.__file__, str(file)]
    subprocess.run(command, check=True, env=environment)
    return dict(np.load(file))


def test_there_are_at_least_forty_kernels():
    assert len(torture.CASES) - len(torture.VARIANTS) >= 40


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_gives_what_the_simulator_gives(kernel, simulated):
    grid, block = torture.CASES[kernel]
    given = torture.arguments()
    simt.compile(kernel)[grid, block](*given)
    np.testing.assert_array_equal(given[1], simulated[torture.name(kernel)])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_check_mode_gives_what_the_simulator_gives(kernel, simulated):
    grid, block = torture.CASES[kernel]
    given = torture.arguments()
    simt.check(kernel)[grid, block](*given)
    np.testing.assert_array_equal(given[1], simulated[torture.name(kernel)])
