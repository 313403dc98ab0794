"""Kernels on the compiled CPU device against NumPy."""

import _thread
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from snref import simt
from snref.simt import run

from . import examples

ROOT = Path(__file__).parents[2]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 8, shape).astype(np.float32)


def test_a_kernel_or_its_plain_function_runs():
    a = numbers(100)
    for kernel in (examples.scale, examples.scale.py_func):
        c = np.zeros_like(a)
        simt.compile(kernel)[4, 32](a, c)
        np.testing.assert_array_equal(c, a * 3)


@pytest.mark.parametrize("n", [1, 31, 1000])
def test_a_grid_stride_loop_covers_every_element(n):
    a, b, c = numbers(n), numbers(n, seed=1), np.full(n, np.nan, np.float32)
    simt.compile(examples.add)[3, 64](a, b, c)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    ("kernel", "tile"), [(examples.tiled_product, 16), (examples.register_product, 64)]
)
def test_products_of_odd_sizes(kernel, tile):
    a, b = numbers(70, 50), numbers(50, 90, seed=1)
    c = np.full((70, 90), np.nan, np.float32)
    simt.compile(kernel)[(-(-90 // tile), -(-70 // tile)), (16, 16)](a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_softmax_by_trees():
    x = numbers(5, 300)
    y = np.empty_like(x)
    simt.compile(examples.softmax)[5, 128](x, y)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=2e-5)


def test_convolution_in_three_dimensions():
    x, w = whole(2, 3, 9, 20), whole(4, 3, 3, 3)
    y = np.empty((2, 4, 9, 20), np.float32)
    simt.compile(examples.convolution)[(2, 3, 8), (16, 4)](x, w, y, 1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(y, np.einsum("ncpqrs,kcrs->nkpq", windows, w))


def test_blocks_and_grids_of_three_dimensions():
    a = whole(5, 6, 7)
    out = np.zeros_like(a)
    simt.compile(examples.cube)[(3, 2, 3), (3, 4, 2)](a, out)
    z, y, x = np.indices(a.shape)
    np.testing.assert_array_equal(out, a + x + 10 * y + 100 * z + 1000 * (z // 2))


def test_dynamic_shared_memory_has_the_size_of_the_launch():
    a, c = whole(64), np.zeros(64, np.float32)
    simt.compile(examples.reversed_blocks)[2, 32, 0, 32 * 4](a, c)
    np.testing.assert_array_equal(c, a.reshape(2, 32)[:, ::-1].ravel() + 32)


def test_global_arrays_are_constants():
    a, c = whole(32), np.zeros(32, np.float32)
    simt.compile(examples.table_of_constants)[1, 32](a, c)
    np.testing.assert_array_equal(c, a * examples.TABLE[np.arange(32) % 3] + 5)


def test_closures_make_kernels_of_their_own():
    a, c = whole(32), np.zeros(32, np.float32)
    simt.compile(examples.with_constant(2, True))[1, 32](a, c)
    np.testing.assert_array_equal(c, a * a * 2)
    simt.compile(examples.with_constant(5, False))[1, 32](a, c)
    np.testing.assert_array_equal(c, a * 5)


def test_arrays_of_any_layout_and_type():
    for dtype in (np.float64, np.int32):
        a = np.arange(200).astype(dtype)
        c = np.zeros(100, dtype)
        simt.compile(examples.scale)[4, 32](a[::2], c)
        np.testing.assert_array_equal(c, a[::2] * 3)


@pytest.mark.slow  # programs/warp_operations.py has all of them, in one warp
def test_shuffles_go_through_memory():
    a, c = whole(64), np.zeros((4, 64), np.float32)
    simt.compile(examples.shuffles)[1, 64](a, c)
    lane, warps = np.arange(32), a.reshape(2, 32)
    up, down = np.where(lane < 3, lane, lane - 3), np.where(lane > 28, lane, lane + 3)
    np.testing.assert_array_equal(c[0].reshape(2, 32), warps[:, [5] * 32])
    np.testing.assert_array_equal(c[1].reshape(2, 32), warps[:, up])
    np.testing.assert_array_equal(c[2].reshape(2, 32), warps[:, down])
    np.testing.assert_array_equal(c[3].reshape(2, 32), warps[:, lane ^ 7])


@pytest.mark.slow
def test_a_warp_sums_by_shuffles():
    a, c = whole(96), np.zeros(3, np.float32)
    simt.compile(examples.warp_sums)[1, 96](a, c)
    np.testing.assert_array_equal(c, a.reshape(3, 32).sum(1))


def test_votes_of_a_warp():
    a, c = whole(64), np.zeros((5, 64), np.int64)
    simt.compile(examples.votes)[1, 64](a, c)
    warps = a.reshape(2, 32)
    np.testing.assert_array_equal(c[0], np.ones(64))
    np.testing.assert_array_equal(c[1], (warps > 6).any(1).repeat(32))
    np.testing.assert_array_equal(c[2], np.ones(64))
    np.testing.assert_array_equal(c[3], (warps > 3).sum(1).repeat(32))
    np.testing.assert_array_equal(c[4], [32] * 32 + [8] * 8 + [0] * 24)


def test_atomics_in_the_order_of_the_threads():
    a = numbers(64)
    c = np.zeros(72, np.float32)
    simt.compile(examples.atomics, threads=2)[2, 32](a, c)
    total = np.float32(0)
    for x in a:
        total += x
    expected = [total, max(a.max(), 0), min(a.min(), 0), a[-1], a[0], -64]
    np.testing.assert_array_equal(c[:6], np.float32(expected))
    np.testing.assert_array_equal(c[8:], -np.arange(64))


def test_functions_of_bits():
    a = np.array([1, 2, 3, 255, 4096, 65535, 7, 1 << 30], np.int32)
    c = np.zeros((4, 8), np.int64)
    simt.compile(examples.bits)[1, 8](a, c)
    texts = [f"{x:032b}" for x in a.tolist()]
    assert c[0].tolist() == [t.count("1") for t in texts]
    assert c[1].tolist() == [t.index("1") for t in texts]
    assert c[2].tolist() == [32 - t.rindex("1") for t in texts]
    assert (c[3] % 2**32).tolist() == [int(t[::-1], 2) for t in texts]


@pytest.mark.parametrize("kernel", [examples.tiled_product, examples.register_product])
def test_the_same_bits_again_and_for_any_number_of_threads(kernel):
    a, b = numbers(130, 70), numbers(70, 200, seed=1)
    results = []
    for threads in (1, 1, 2, 3):
        c = np.zeros((130, 200), np.float32)
        simt.compile(kernel, threads=threads)[(13, 9), (16, 16)](a, b, c)
        results.append(c.tobytes())
    assert len(set(results)) == 1


def test_sums_are_not_reassociated():
    """The result is what one thread computes by itself, to the bit."""
    a, b = numbers(16, 40), numbers(40, 16, seed=1)
    c = np.zeros((16, 16), np.float32)
    simt.compile(examples.tiled_product)[1, (16, 16)](a, b, c)
    alone = np.zeros((16, 16), np.float32)
    for k in range(40):  # one multiply-add a step, rounded once (the product is exact)
        alone = (a[:, k, None].astype(float) * b[k] + alone).astype(np.float32)
    np.testing.assert_array_equal(c, alone)


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    ).stdout


def test_a_frame_too_large_for_the_stack_lives_elsewhere():
    """1,024 threads with local.array(4096) under a stack of 1 MiB."""
    run_python(
        """
        import sys, threading
        import numpy as np
        sys.path.insert(0, "tests")
        from snref import simt
        from simt import examples

        a = np.arange(1024).astype(np.float32)
        c = np.zeros(1024, np.float32)

        def work():
            simt.compile(examples.large_frame)[1, 1024](a, c)

        threading.stack_size(1 << 20)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        t = np.arange(1024)
        places = np.arange(0, 4096, 512)[:, None] + t % 512
        assert (c == (a + places).sum(0)).all()
        """
    )


def test_workers_that_cannot_start_are_not_counted_on(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    pool = run._Pool()
    monkeypatch.setattr(run, "_pool", pool)
    monkeypatch.setattr(threading.Thread, "start", start)
    compiled = simt.compile(examples.scale, threads=4)
    a, c = np.ones(640, np.float32), np.zeros(640, np.float32)
    compiled[10, 64](a, c)
    assert (c == 3).all() and pool.workers == 0 and pool.jobs.empty()


@pytest.mark.parametrize("nbytes", [-128, 1.5, 2**33, None, "4"])
def test_dynamic_shared_memory_is_a_number_of_bytes_that_there_is(nbytes):
    with pytest.raises(ValueError, match="bytes of dynamic shared memory"):
        simt.compile(examples.scale)[1, 32, 0, nbytes]


def test_numba_s_simulator_is_in_the_way():
    program = "from snref import simt; simt.compile(print)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stderr.endswith("RuntimeError: NUMBA_ENABLE_CUDASIM is set: unset it\n")


@pytest.mark.parametrize(
    "size", [0, (), (1, 2, 3, 4), (2, 0), 1.5, (2, 1.0), "32", None]
)
def test_a_grid_or_block_is_one_to_three_positive_numbers(size):
    with pytest.raises(ValueError, match="1 to 3 positive numbers"):
        simt.compile(examples.scale)[size, 32]


def test_every_block_runs_once_however_few_or_many():
    for grid in [2, 3, 9, 17, 1000, (3, 5), (2, 3, 7)]:
        blocks = int(np.prod(grid))
        for threads in (1, 2, 3, 7):
            counts = np.zeros((blocks, 64), np.int32)
            simt.compile(examples.count_blocks, threads=threads)[grid, 64](counts)
            assert (counts == np.arange(1, blocks + 1)[:, None]).all()


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, also where the tests run in the background without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("way", ["raised here", "signalled"])
def test_after_an_interrupt_nobody_writes(monkeypatch, way):
    """Ctrl-C while workers are under way: they are waited for, no block begins."""
    compiled = simt.compile(examples.scale, threads=3)
    a, c = np.ones(512, np.float32), np.zeros(512, np.float32)
    (compiled[8, 64](a, c), c.fill(0))
    (module,) = compiled.modules.values()
    running, main = [], threading.current_thread()
    launch = module.run

    def slow(first, last, *rest):
        if threading.current_thread() is main and len(running) > 1:
            if way == "signalled":
                _thread.interrupt_main()
            time.sleep(0.01)
            if way == "raised here":
                raise KeyboardInterrupt
        running.append(first)
        time.sleep(0.05)
        launch(first, last, *rest)
        running.append(last)

    monkeypatch.setattr(module, "run", slow)
    with pytest.raises(KeyboardInterrupt):
        compiled[8, 64](a, c)
    assert len(running) % 2 == 0  # none under way
    left = c.copy()
    time.sleep(0.2)
    assert (c == left).all()
    monkeypatch.undo()
    compiled[8, 64](a, c)
    assert (c == 3).all()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals")
def test_a_signal_s_handler_may_launch():
    run_python(
        """
        import faulthandler, signal, time
        import numpy as np
        from snref import simt
        from tests.simt import examples

        faulthandler.dump_traceback_later(60, exit=True)
        simt.run._WORTH = 1e-9  # each launch wakes a worker
        compiled = simt.compile(examples.scale, threads=2)
        a = np.ones(640, np.float32)
        compiled[10, 64](a, a * 0)

        def handler(*_):
            simt.run._pool.workers = 0  # so that both are growing
            compiled[10, 64](a, a * 0)
            signal.setitimer(signal.ITIMER_REAL, 0.0003)

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            simt.run._pool.workers = 0
            compiled[10, 64](a, a * 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_may_launch_whatever_its_parent_was_doing():
    run_python(
        """
        import faulthandler, os, threading
        import numpy as np
        from snref import simt
        from tests.simt import examples

        a = np.ones(640, np.float32)
        compiled = simt.compile(examples.scale, threads=2)
        compiled[10, 64](a, a * 0)
        holds, done = threading.Event(), threading.Event()

        def starts_a_worker():
            with simt.run._pool.lock:
                holds.set()
                done.wait(60)

        threading.Thread(target=starts_a_worker).start()
        assert holds.wait(60)
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            c = a * 0
            compiled[10, 64](a, c)
            os._exit(0 if (c == 3).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        done.set()
        """
    )


def test_workers_are_woken_for_as_much_as_the_last_such_launch_took(monkeypatch):
    helped = []
    monkeypatch.setattr(run._Pool, "grow", lambda self, workers: helped.append(workers))
    compiled = simt.compile(examples.scale, threads=4)
    a = np.ones(640, np.float32)
    compiled[10, 64](a, a * 0)
    (module,) = compiled.modules.values()
    assert helped == [3] and not module.seconds  # nothing known: it compiled, too
    for seconds, workers in [(0, 1), (1.5, 2), (2.5, 3), (1000, 4)]:
        module.seconds = {((10, 1, 1), 640, 640): seconds * run._WORTH}
        helped.clear()
        compiled[10, 64](a, a * 0)
        assert helped == ([workers - 1] if workers > 1 else [])
        assert module.seconds.keys() == {((10, 1, 1), 640, 640)}
    compiled[10, 64](a[:600], a * 0)
    assert len(module.seconds) == 2  # of other sizes nothing was known


@pytest.mark.parametrize(
    ("grid", "block"),
    [(1, 1025), (1, (32, 33)), (1, (1, 1, 65)), ((1, 65536), 1), ((1, 1, 65536), 1)],
)
@pytest.mark.parametrize("run", [simt.compile, simt.check, simt.profile])
def test_a_launch_is_one_that_a_gpu_could_do(run, grid, block):
    with pytest.raises(ValueError, match="1 to 1024 threads a block"):
        run(examples.scale)[grid, block]


@pytest.mark.parametrize("way", [simt.compile, simt.check, simt.profile])
def test_what_cannot_be_written_or_is_no_array_is_refused_in_every_way(way):
    scale = way(examples.scale)
    fixed = np.broadcast_to(np.zeros(1, np.float32), 64)  # and not contiguous
    with pytest.raises(simt.KernelError, match="readonly"):
        scale[1, 64](np.ones(64, np.float32), fixed)
    with pytest.raises(simt.KernelError, match="a list is no argument of a kernel"):
        scale[1, 64](np.ones(64, np.float32), [0.0] * 64)
