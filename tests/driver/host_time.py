"""Host time of an iteration of ResNet-50 where kernels and copies take none.

    cc -shared -fPIC -o FOLDER/libcuda.so.1 tests/driver/libcuda.c -lpthread
    PYTHONPATH=.:tests LD_LIBRARY_PATH=FOLDER \\
        python tests/driver/stand_in.py tests/driver/host_time.py

What is left is the time to issue everything: a fast GPU must not wait for it. Prints
milliseconds (the least of some iterations), kernels, copies and waits.
"""

import os
import time

import numpy as np
from small_nets import images_for

import snref
from snref.device.present import Finding
from snref.plans import lower_bound
from snref.training import Session, Settings
from snref.training import session as session_module
from tests.driver.stand_in import driver

BATCH, ITERATIONS = 32, 10
COPIES, KERNELS, WAITS = 0, 1, 3  # what the stand-in counts


def main():
    os.environ["FAKE_FREE"] = "1"
    session_module.find_gpu = lambda: Finding("computes nothing", True)
    net = snref.nets.resnet(50, batch=BATCH)
    free = snref.plan(net, preset="cache")
    tight = sum(free.resident.values()) + int(1.05 * lower_bound(free.plan))
    for preset, memory in (
        ("baseline", None),
        ("superneurons", None),
        ("cache", tight),
    ):
        planned = snref.plan(net, preset=preset, memory=memory)
        session = Session(planned, images_for(net), Settings(), "cuda")
        seconds, counts = [], []
        for _ in range(ITERATIONS):
            before = [driver.fake_count(what) for what in (KERNELS, COPIES, WAITS)]
            start = time.perf_counter()
            session.iterate(np.arange(BATCH))
            seconds.append(time.perf_counter() - start)
            after = [driver.fake_count(what) for what in (KERNELS, COPIES, WAITS)]
            counts = [b - a for a, b in zip(before, after, strict=True)]
        print(
            f"{preset:13} {1e3 * min(seconds):7.2f} ms, {counts[0]} kernels, "
            f"{counts[1]} copies, {counts[2]} waits"
        )


if __name__ == "__main__":
    main()
