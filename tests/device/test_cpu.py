"""The CPU device: stricter than a GPU, and the same with any number of threads."""

import numba
import numpy as np
import pytest
from small_nets import FAMILIES, images_for

from snref.device import cpu
from snref.device.cpu import CPU
from snref.device.views import viewed
from snref.planning.planned import plan
from snref.plans import ALIGNMENT, Launch, Tensor
from snref.simt import Compiled
from snref.training import Session, Settings

X = Tensor("x", (2, 3, 5))


def test_a_view_is_aligned_and_keeps_its_bytes():
    device = CPU(2048)
    view = device.view(X, 256)
    assert view.array.ctypes.data % ALIGNMENT == 0
    assert view.array.shape == X.shape and view.array.dtype == np.float32


@pytest.mark.parametrize(
    ("dtype", "poison"), [("float32", np.nan), ("float16", np.nan), ("int32", -1)]
)
def test_freed_memory_is_poisoned(dtype, poison):
    tensor = Tensor("x", X.shape, dtype=dtype)
    device = CPU(1024)
    view = device.view(tensor, 0)
    device.write(view, np.zeros(X.shape, dtype))
    device.free(view)({})
    left = device.read(view)
    assert np.isnan(left).all() if np.isnan(poison) else (left == poison).all()


def test_a_copy_on_the_host_is_not_the_device_s():
    device = CPU(1024, host=200)
    view = device.view(X, 0)
    device.write(view, np.arange(30).reshape(X.shape))
    pieces = (4, 40), (100, 80)
    device.to_host(view, pieces)({})
    device.free(view)({})
    view = device.view(X, 512)
    device.to_device(view, pieces)({})
    assert device.read(view).ravel().tolist() == list(range(30))


def test_a_resident_is_a_copy_of_what_it_was_made_from():
    array = np.zeros(4, np.float32)
    device = CPU(0)
    buffer = device.resident(array)
    device.write(buffer, np.ones(4))
    assert not array.any() and device.resident_bytes == 16


def test_the_first_part_of_a_buffer_is_the_same_memory():
    device = CPU(0)
    whole = device.resident(np.arange(12, dtype=np.float32).reshape(4, 3))
    part = device.first(whole, (2, 3))
    device.write(part, np.full((2, 3), -1))
    assert device.read(whole).tolist() == [[-1] * 3] * 2 + [[6, 7, 8], [9, 10, 11]]
    assert device.resident_bytes == 48  # not more


@pytest.mark.parametrize("view", ["shape", "rows", "channels", "flat"])
@pytest.mark.parametrize("shape", [(7,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_every_view_is_of_the_same_bytes(view, shape):
    buffer = CPU(0).resident(np.zeros(shape, np.float32))
    seen = buffer.seen_as(view)
    assert seen.shape == viewed(shape, view)
    seen[...] = 1
    assert buffer.array.all()


def test_a_kernel_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"no kernel 'relu\.sideways'"):
        CPU(0).launch(Launch("relu.sideways", ()), ())


def test_any_number_of_threads_ends_in_the_same_bits():
    net = FAMILIES["resnet"](8)
    planned = plan(net, preset="superneurons")

    def state(threads):
        session = Session(planned, images_for(net), Settings(), "cpu", threads)
        session.iterate(np.arange(8))
        return {key: array.tobytes() for key, array in session.state().items()}

    assert state(1) == state(2) == state(3)


@pytest.mark.parametrize("family", ["digits", "inception"])
def test_what_is_prepared_is_what_is_launched(monkeypatch, family):
    prepared, launched = [], set()
    monkeypatch.setattr(cpu, "compile_ahead", lambda jobs, _: prepared.extend(jobs))
    launch = Compiled.launch

    def seen(self, grid, block, dynamic, arguments):
        launched.add((self.function, block, tuple(map(numba.typeof, arguments))))
        return launch(self, grid, block, dynamic, arguments)

    monkeypatch.setattr(Compiled, "launch", seen)
    net = FAMILIES[family](4)
    data = images_for(net, 2, held_out=4)
    Session(plan(net, preset="superneurons"), data, Settings(), "cpu").run(1)
    assert {(job.function, job.block, job.types) for job in prepared} == launched
    assert len(prepared) == len(launched)  # none twice
