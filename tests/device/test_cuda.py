"""The cuda device by itself, on a real GPU; tests/test_execution.py trains on it."""

import time
from importlib.metadata import version

import numpy as np
import pytest
from small_nets import images_for

from snref.commands.profile import measured as measured_costs
from snref.device.present import find_gpu
from snref.net import route
from snref.nets import lenet
from snref.planning.planned import plan
from snref.plans import Alloc, Free, Launch, Offload, Plan, Prefetch, Run, Tensor
from snref.training import Session, Settings, open_device

VERSIONS = ("numba", "numba-cuda", "cuda-core", "cuda-bindings", "numpy")
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
    from snref.plans import grid_of
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


def test_what_a_maintainer_wants_to_know_is_printed(device, record_property):
    """The device, versions, speed, and what was predicted beside what was measured.

    The prediction of seconds is for the machine of the costs, a model of a K40c.
    """
    net = lenet(16)
    lines = [find_gpu().says, *(f"{name} {version(name)}" for name in VERSIONS)]
    for preset in ("baseline", "superneurons", "cache"):
        planned = plan(net, preset=preset)
        session = Session(planned, images_for(net), Settings(0.001), device)
        session.iterate(np.arange(16))  # compiles
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            session.iterate(np.arange(16))
            seconds.append(time.perf_counter() - start)
        measured = session.device.resident_bytes + session.peak
        assert measured <= planned.total_bytes
        lines.append(
            f"{net.name} {preset}: {16 / min(seconds):.0f} images/s; predicted "
            f"{planned.total_bytes} bytes, {1e3 * planned.timeline.seconds:.2f} ms; "
            f"measured {measured} bytes, {1e3 * min(seconds):.2f} ms"
        )
    lines += rates(net, measured_costs(net, device, repeats=3))
    record_property("gpu", "\n".join(lines))


def rates(net, costs):
    """Yield what each convolution and each other run of a net reaches."""
    yield f"copies: {costs.to_host / 1e9:.2f} and {costs.to_device / 1e9:.2f} GB/s"
    for run in route(net).runs():
        for choice in run.choices:
            for way in choice.algorithms:
                seconds = costs.algorithms[run.layer, choice.part, way.name]
                rate = way.flops / max(seconds, 1e-9) / 1e9
                yield f"{run.layer} {choice.part} {way.name}: {rate:.1f} GFLOP/s"
        seconds = costs.runs[run.layer, run.phase]
        moved = sum(
            work.bytes_accessed for work in run.work if isinstance(work, Launch)
        )
        if moved and seconds:
            rate = moved / seconds / 1e9
            yield f"{run.layer} {run.phase}: {rate:.1f} GB/s"
