"""The kernel tests again, with every access of every thread checked."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = (
    "versions",
    "relu",
    "joins",
    "sgd",
    "pool",
    "lrn",
    "batchnorm",
    "softmax",
    "dropout",
)
LAYERS += ("conv", "linear")
NOT = ("pytorch", "repeat", "independent", "share", "run", "read", "last_nan")


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_s_kernels_make_no_mistake(layer: str) -> None:
    # Not the tests about more threads, spoilt inputs or such of NaN, nor large
    # statistics.
    chosen = " and ".join(f"not {word}" for word in NOT)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "not full"]
    command += ["-p", "tests.kernels.checked"]
    command += ["-k", chosen, f"tests/kernels/test_{layer}.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
