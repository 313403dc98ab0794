"""Find work that may run at the same time and uses the same bytes, with vector clocks.

The driver tells of each thing that is issued. A stream's clock says how much of every
other stream's work comes before its next work; an event carries the clock of the
stream that records it. So a missing wait is found in any order in which the work runs.
"""

import ctypes
import traceback
from collections import defaultdict

from snref.device import cuda
from tests.driver.stand_in import codes, driver

COPY, KERNEL, RECORD, WAIT, SYNCHRONIZE = range(5)
HOST = -1
WORD = ctypes.c_int64
WATCHER = ctypes.CFUNCTYPE(
    None,
    *(ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64),
    *(ctypes.c_size_t, ctypes.c_void_p),
)

clocks = defaultdict(lambda: defaultdict(int))  # stream -> stream -> pieces of work
records = {}  # the clock that an event carries
accesses = []  # first byte, first behind, writes, stream, its clock, who
outputs = {}  # how many of a kernel's arguments are written, by its name
found = set()


def join(clock, other):
    for stream, time in other.items():
        clock[stream] = max(clock[stream], time)


def access(stream, who, reads, writes):
    """Note what a piece of work uses, and with what it races."""
    mine = clocks[stream]
    mine[stream] += 1
    new = [(*r, False) for r in reads] + [(*r, True) for r in writes]
    for first, last, write in new:
        for f, l, w, other, time, earlier in accesses:
            if f < last and first < l and (write or w) and mine[other] < time:
                found.add(f"{earlier} and {who}")
    accesses.extend((*piece, stream, mine[stream], who) for piece in new)


def arrays(code, address):
    """Yield the bytes of each array that a launch was given."""
    for _, dimensions in code.types:
        if not dimensions:
            return  # numbers come last
        _, _, elements, itemsize, data = (WORD * 5).from_address(address)
        yield data, data + elements * itemsize
        address += 8 * (5 + 2 * dimensions)


@WATCHER
def issued(what, stream, a, b, nbytes, arguments):
    try:
        mine, host = clocks[stream], clocks[HOST]
        if what == SYNCHRONIZE:
            join(host, mine)
            accesses[:] = [old for old in accesses if host[old[3]] < old[4]]
            return
        join(mine, host)
        if what == COPY:
            access(stream, "copy", [(b, b + nbytes)], [(a, a + nbytes)])
        elif what == KERNEL:
            name = ctypes.string_at(a).decode()
            used = list(arrays(codes[name], arguments))
            access(stream, name.rpartition("_")[0], used, used[: outputs[name]])
        elif what == RECORD:
            records[a] = dict(mine)
        elif what == WAIT:
            join(mine, records.get(a, {}))
    except BaseException:  # ctypes would print it and go on
        traceback.print_exc()
        found.add("an error in the watcher")


def watch():
    """Begin to watch everything that is issued to the driver."""
    code_of = cuda.GPU._code

    def noted(self, launch, values):
        code = code_of(self, launch, values)
        outputs[code.stem] = len(launch.outputs)
        return code

    cuda.GPU._code = noted
    driver.fake_watch(issued)


def forget():
    """Forget the races and the work so far, before the next program."""
    found.clear()
    accesses.clear()


def pytest_configure():
    watch()


def pytest_sessionfinish(session):
    if found:
        print("\n".join(["", "races:", *sorted(found)]))
        session.exitstatus = 1
