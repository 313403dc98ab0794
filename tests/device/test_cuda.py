"""The cuda device by itself, on a real GPU; tests/test_execution.py trains on it."""

import numpy as np
import pytest

from snref.device.present import find_gpu
from snref.plans import Alloc, Free, Offload, Plan, Prefetch, Run, Tensor
from snref.training import open_device

pytestmark = pytest.mark.gpu


@pytest.fixture
def device():
    if not (found := find_gpu()).works:
        pytest.skip(f"no GPU: {found.says}")
    return "cuda"


def test_more_memory_than_is_free_is_refused_with_both_numbers(device):
    with pytest.raises(MemoryError, match=r"needs \d+ bytes of the GPU, \d+ of its"):
        open_device(device, 2**50)


def test_memory_given_again_waits_for_the_copy_of_what_was_there(device):
    """A large copy out, and at once a write where it was: the host has the old value.

    Repeated, since a race need not show at once.
    """
    from snref.plans import Launch, grid_of
    from snref.training.execution import execute

    count = 2**24
    x, y = (Tensor(name, (count,)) for name in "xy")
    ones, twos = (Tensor(name, (count,), "parameter") for name in ("ones", "twos"))
    result = Tensor("result", (count,), "parameter")

    def copy(target, source):
        launch = Launch(
            "joins.copy", (target,), (source,), view="flat", grid=grid_of(count)
        )
        return Run("copy", "forward", (launch,))

    there = open_device(device, x.aligned_bytes, host=x.nbytes)
    residents = {
        tensor: there.resident(np.full(count, value, np.float32))
        for tensor, value in ((ones, 1), (twos, 2), (result, 0))
    }
    once = (
        *(Alloc(x, 0), copy(x, ones), Offload(x), Free(x)),
        *(Alloc(y, 0), copy(y, twos), Free(y)),
        *(Alloc(x, 0), Prefetch(x), copy(result, x), Free(x)),
    )
    for _ in range(20):
        execute(Plan(once), there, residents)
        assert (there.read(residents[result]) == 1).all()
