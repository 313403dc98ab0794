"""What a GPU's memory, contexts and machine code go through, one scenario a process.

python tests/driver/stand_in.py tests/driver/scenarios.py NAME
"""

import gc
import os
import sys
import tempfile
import threading
import time
import weakref

import numpy as np
from small_nets import FAMILIES, images_for

from snref.device import cuda, machine_code
from snref.planning.planned import plan
from snref.plans import host_memory
from snref.training import Session, Settings
from tests.driver.stand_in import driver


def session(preset="superneurons", device="cuda", family="lenet"):
    planned = plan(FAMILIES[family](2), preset=preset)
    made = Session(planned, images_for(planned.net), Settings(), device)
    made.iterate(np.arange(2))
    return made


def in_a_thread(work):
    errors = []

    def run():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors, errors


def memory_is_what_was_planned():
    for family in FAMILIES:
        for preset in ("baseline", "offload", "superneurons", "cache"):
            made = session(preset, family=family)
            planned, device = made.planned, made.device
            residents = sum(planned.resident.values())
            assert driver.fake_used(0) == max(1, device.slab) + residents
            assert driver.fake_used(1) == max(host_memory(planned.plan)) == device.host
            assert device.host == planned.host_bytes
            del made, device
            assert driver.fake_used(0) == driver.fake_used(1) == 0


def memory_is_freed_without_the_garbage_collector():
    gc.disable()
    kept = machine_code.cache.kept

    def kept_but_one(name):  # so that a kernel compiles in this process
        return None if name.startswith("losses_") else kept(name)

    machine_code.cache.kept = kept_but_one
    made = session()
    assert driver.fake_used(0) > 0 and driver.fake_used(1) > 0
    gone = weakref.ref(made)
    del made
    assert gone() is None
    assert driver.fake_used(0) == driver.fake_used(1) == 0


def memory_is_freed_in_a_thread_without_a_context():
    said = []
    sys.unraisablehook = lambda unraisable: said.append(unraisable)
    made = session()
    made.itself = made  # a cycle, which the garbage collector has to find
    del made
    in_a_thread(gc.collect)
    assert not said and driver.fake_used(0) == driver.fake_used(1) == 0


def a_second_session_has_the_memory_of_the_first():
    session()
    os.environ["FAKE_BYTES"] = str(driver.fake_most(0))
    for _ in range(3):
        session()


def a_session_runs_in_another_thread_and_on_the_second_gpu():
    from cuda.bindings import driver as binding

    expected = session(device="cpu").losses
    made = session()
    in_a_thread(lambda: made.iterate(np.arange(2)))
    in_a_thread(lambda: session())
    _, device = binding.cuDeviceGet(1)
    _, context = binding.cuDevicePrimaryCtxRetain(device)
    binding.cuCtxSetCurrent(context)
    second = session()
    assert second.device.name == "Stand-in 1" and second.losses == expected
    assert made.device.name == "Stand-in 0"
    assert made.losses[:1] == expected and len(made.losses) == 2


def machine_code_is_kept_on_disk():
    compiled = []
    assembled = machine_code._assembled

    def counted(kernel, types, capability, name):
        compiled.append(name)
        return assembled(kernel, types, capability, name)

    machine_code._assembled = counted
    session()
    compiled.clear()
    first = session(family="resnet")
    del first
    once = len(compiled)
    session(family="resnet")
    assert len(compiled) == once, "the same kernels, compiled again"


def kernels_compile_in_other_processes():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SNREF_CACHE"] = folder
        made = session("baseline", "cpu", "digits")
        launches = [x for run in made.planned.plan.runs() for x in run.launches]
        gpu = cuda.GPU(0)
        codes = [gpu._code(launch, made._values()) for launch in launches]
        machine_code.ahead(codes)
        until = time.monotonic() + 250
        while not all(code.done() for code in codes):
            assert time.monotonic() < until
            time.sleep(0.1)


def nothing_is_done_on_the_default_stream():
    session("cache")  # the stand-in would say so


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("passed")
