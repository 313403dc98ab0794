"""The one device: its context, streams and events. All work is done in order.

A stream runs each command before the call returns, so waiting for it is free and its
callbacks run at once. Events tell real time, of this CPU.
"""

import asyncio
import itertools
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from snref.simt.limits import BLOCK, GRID, THREADS

from .refusals import refuse

# Limits of every GPU that CUDA 12 and 13 share; launches are held to them.
ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": THREADS,
    **{f"MAX_BLOCK_DIM_{axis}": n for axis, n in zip("XYZ", BLOCK, strict=True)},
    **{f"MAX_GRID_DIM_{axis}": n for axis, n in zip("XYZ", GRID, strict=True)},
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
    "TOTAL_CONSTANT_MEMORY": 64 * 1024,
    "WARP_SIZE": 32,
    "COMPUTE_CAPABILITY_MAJOR": 7,
    "COMPUTE_CAPABILITY_MINOR": 5,
    "KERNEL_EXEC_TIMEOUT": 0,
    "TCC_DRIVER": 0,
    "UNIFIED_ADDRESSING": 1,
    "CONCURRENT_KERNELS": 0,
    "COOPERATIVE_LAUNCH": 1,
    "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
    "PCI_BUS_ID": 0,
    "PCI_DEVICE_ID": 0,
    "PCI_DOMAIN_ID": 0,
}


class MemoryInfo(NamedTuple):
    """Bytes of this machine's memory; infinite where the system does not say."""

    free: float
    total: float


class Device:
    """The CPU as device 0; `with device:` makes it the current one, as it always is."""

    id = 0
    name = f"snref.simt on {platform.processor() or platform.machine()}"
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    compute_capability = (7, 5)
    supports_float16 = True
    MULTIPROCESSOR_COUNT = os.cpu_count() or 1

    def __getattr__(self, name: str) -> int:
        try:
            return ATTRIBUTES[name]
        except KeyError:
            raise AttributeError(f"device attribute {name}") from None

    def __repr__(self) -> str:
        return f"<CUDA device 0 '{self.name}'>"

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def get_primary_context(self) -> "Context":
        """The only context."""
        return context

    def reset(self) -> None:
        """Nothing to reset: memory belongs to its arrays."""


class DeviceList(list[Device]):
    """The list of all devices, one."""

    current = property(lambda self: self[0])


class Stream:
    """A queue of commands, each done when its call returns."""

    _handles = itertools.count(1)

    def __init__(self, handle: int | None = None) -> None:
        self.handle = next(self._handles) if handle is None else handle

    def __int__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        return f"<CUDA stream {self.handle}>"

    def synchronize(self) -> None:
        """Nothing is pending."""

    @contextmanager
    def auto_synchronize(self) -> Iterator["Stream"]:
        """Wait for the stream at the end of the block."""
        yield self

    def add_callback(self, callback: Callable[..., Any], arg: Any = None) -> None:
        """Call `callback(stream, status, arg)`, status 0 for success."""
        callback(self, 0, arg)

    def async_done(self) -> "asyncio.Future[Stream]":
        """A future that is done: to be awaited in a running event loop."""
        future = asyncio.get_running_loop().create_future()
        future.set_result(self)
        return future


class Event:
    """A moment in a stream."""

    def __init__(self, timing: bool = True) -> None:
        self.timing = timing
        self.seconds: float | None = None

    def record(self, stream: Any = 0) -> None:
        """The moment is now: all commands before it are done."""
        self.seconds = time.perf_counter()

    def query(self) -> bool:
        """Whether the moment has passed."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = 0) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, evtend: "Event") -> float:
        """Milliseconds from this event to a later one."""
        if self.seconds is None or evtend.seconds is None:
            refuse("elapsed_time", "event-timing")
        if not (self.timing and evtend.timing):
            refuse("elapsed_time", "event-timing")
        return 1000 * (evtend.seconds - self.seconds)


class Context:
    """The only context, always current."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def get_memory_info(self) -> MemoryInfo:
        """Free and total bytes of this machine's memory."""
        return MemoryInfo(_memory("SC_AVPHYS_PAGES"), _memory("SC_PHYS_PAGES"))

    def get_max_potential_block_size(self, **kernel: Any) -> tuple[int, int]:
        """Blocks, and threads of each, for a kernel that leaves their number open."""
        return 1, 128

    def create_stream(self) -> Stream:
        """A new stream."""
        return Stream()

    def create_event(self, timing: bool = True) -> Event:
        """A new event."""
        return Event(timing)

    def get_default_stream(self) -> Stream:
        """Stream 0."""
        return Stream(0)

    @contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Memory is freed with its last array, here and everywhere."""
        yield

    def _nothing(self) -> None:
        """Nothing to do: the context is always current and nothing is pending."""

    push = pop = reset = synchronize = _nothing


class Linker:
    """Stands in for the linker: there is no code for a GPU to link."""

    lto = False

    @classmethod
    def new(cls, *args: Any, **options: Any) -> "Linker":
        """The only linker."""
        return cls()


class Runtime:
    """Stands in for the CUDA runtime, of which there is none."""

    def get_version(self) -> tuple[int, int]:
        """(-1, -1)."""
        return -1, -1

    def is_supported_version(self) -> bool:
        """True: nothing depends on it."""
        return True


def _memory(pages: str) -> float:
    try:
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows; a name it does not know
        return float("inf")


device = Device()
context = Context(device)
gpus = DeviceList([device])


def current_context(devnum: int | None = None) -> Context:
    """The only context; KernelError for a device other than 0."""
    if devnum:
        refuse(f"device {devnum}", "one-device")
    return context


def current_device(devnum: int = 0) -> Device:
    """Device 0."""
    return device


def select_device(device_id: int) -> Device:
    """Device 0; KernelError for another one."""
    return current_context(device_id).device


def detect() -> bool:
    """Print the list of devices; whether one can be used."""
    print("Found 1 CUDA devices")
    print(f"id 0    {device.name:>20} {'[SUPPORTED]':>40}")
    print(f"{'Compute Capability':>40}: {device.compute_capability} (stands in)")
    print("Summary:\n\t1/1 devices are supported")
    return True


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Milliseconds between two recorded events."""
    return evtstart.elapsed_time(evtend)


def require_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: there always is a context."""
    return function


@contextmanager
def defer_cleanup() -> Iterator[None]:
    """Nothing to defer."""
    yield


def nothing(*args: Any, **options: Any) -> None:
    """synchronize, close, profile_start, profile_stop: nothing is pending."""
