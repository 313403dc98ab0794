"""Devices that kernels really run on, for tests of what must hold on each."""

import pytest


def _no_gpu() -> str | None:
    """Why nothing can run on a GPU here, None if it can."""
    from numba import config, cuda

    if config.ENABLE_CUDASIM:
        return "this process simulates CUDA"
    return None if cuda.is_available() else "no GPU here"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device; ``pytest -m gpu`` is for the GPU, a skip without one."""
    if request.param == "cuda" and (reason := _no_gpu()):
        pytest.skip(reason)
    return str(request.param)
