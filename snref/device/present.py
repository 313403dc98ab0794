"""Which GPU is here, whether a kernel runs on it, and what would help if none does.

The driver is asked first, by its own library alone: what it answers decides which
packages are needed. Then four elements are copied, added and copied back.
"""

import ctypes
import os
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

from snref.device import Device
from snref.plans import Launch, Tensor

# The extras gpu and gpu13 of pyproject.toml, for whoever did not install from a clone.
PIP = {
    12: "pip install 'numba-cuda[cu12]==0.30.*' 'cuda-core==1.2.*' "
    "'cuda-bindings==12.9.*' 'numpy<2.5'",
    13: "pip install 'numba-cuda[cu13]==0.30.*' 'cuda-core==1.2.*' "
    "'cuda-bindings==13.*' 'numpy<2.5'",
}
OLDEST_DRIVER = {12: 12000, 13: 13000}  # by what it says its CUDA is
Capability: TypeAlias = tuple[int, int]
OLDEST: dict[int, Capability] = {12: (5, 0), 13: (7, 5)}  # that a CUDA compiles for
ONLY_13: tuple[Capability, ...] = ((8, 8), (11, 0))  # and every one from 13.0 on

A, B = (1.0, 2.0, 3.0, 4.0), (10.0, 20.0, 30.0, 40.0)
EXPECTED = [11.0, 22.0, 33.0, 44.0]
_X, _Y, _Z = (Tensor(name, (4,)) for name in "xyz")
SLAB = 3 * _X.aligned_bytes  # of a device that ``four_sums`` is computed on
HOST = _X.nbytes

_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


@dataclass(frozen=True)
class Finding:
    """What was found out about a device.

    works   whether a kernel computed the right numbers. None: there is no such device
            here that could be used, and nothing is wrong with that
    repair  a command, or a few words, that may help
    """

    says: str
    works: bool | None
    repair: str | None = None


def find_gpu() -> Finding:
    """Find out whether the first GPU that the driver shows can be used."""
    for name in ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_CUDA"):
        if os.environ.get(name, "0") not in ("", "0"):
            return Finding(f"{name} is set: no GPU is used", None, f"unset {name}")
    windows = sys.platform == "win32"
    try:
        driver = ctypes.CDLL("nvcuda.dll" if windows else "libcuda.so.1")
    except OSError:
        return Finding("no NVIDIA driver here; the CPU device does", None)
    number = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(number))
    supports = number.value
    called = f"driver for CUDA {supports // 1000}.{supports % 1000 // 10}"
    if result := driver.cuInit(0):
        if "CUDA_VISIBLE_DEVICES" in os.environ and result == _NO_DEVICE:
            hidden = f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']}"
            says = f"{called}, which shows no device: {hidden}"
            return Finding(says, None, "unset CUDA_VISIBLE_DEVICES")
        if result == _NO_DEVICE:
            return Finding(f"{called}, which finds no device", None)
        return Finding(
            f"{called}, which fails with error {result}", False, "nvidia-smi"
        )
    capability = _capability(driver)
    title = f"{called}, compute capability {capability[0]}.{capability[1]}"
    if supports < OLDEST_DRIVER[12]:
        repair = "install NVIDIA's driver 525 or newer"
        return Finding(f"{title}: CUDA 12 is the oldest that works", False, repair)
    if capability < OLDEST[12]:
        says = f"{title}: 5.0 is the oldest that kernels are compiled for"
        return Finding(says, None)
    wants = 13 if capability in ONLY_13 or capability >= (13, 0) else 12
    if supports < OLDEST_DRIVER[wants]:
        repair = "install NVIDIA's driver 580 or newer"
        return Finding(f"{title}: CUDA {wants} is needed for it", False, repair)
    installed = _installed()
    if installed is None:
        return Finding(f"{title}: numba-cuda is not installed", False, PIP[wants])
    if (
        (installed < 13 and wants == 13)
        or capability < OLDEST[installed]
        or supports < OLDEST_DRIVER[installed]
    ):
        says = f"{title}: the packages of CUDA {installed} are installed"
        return Finding(f"{says}, those of CUDA {wants} are needed", False, PIP[wants])
    return _tried(title, wants)


def _capability(driver: ctypes.CDLL) -> Capability:
    """Ask the driver for the compute capability of its first device."""
    device, value = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), 0)
    found = []
    for attribute in (_MAJOR, _MINOR):
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        found.append(value.value)
    return found[0], found[1]


def _installed() -> int | None:
    """Return which CUDA the installed packages are for: 12, 13, or None."""
    try:
        version("numba-cuda")
        return int(version("cuda-bindings").partition(".")[0])
    except PackageNotFoundError:
        return None


def _tried(title: str, cuda: int) -> Finding:
    """Run the kernel on the GPU."""
    try:
        from snref.device.cuda import GPU

        gpu = GPU(SLAB, HOST)
        says, right = four_sums(gpu)
    except MemoryError as error:
        return Finding(f"{title}: {_line(error)}", False, "nvidia-smi")
    except Exception as error:  # whatever it is, it is asked for here
        return Finding(f"{title}: {_line(error)}", False, PIP[cuda])
    says = f"{gpu.name}, {title}, {gpu.free_bytes} bytes free; {says}"
    return Finding(says, right, None if right else PIP[cuda])


def four_sums(device: Device) -> tuple[str, bool]:
    """Add four numbers to four; return what to say of them, and whether it is right.

    The sums go to the host's memory and back, as a plan's tensors do.
    """
    import numpy as np

    x, y, z = (device.view(t, i * t.aligned_bytes) for i, t in enumerate((_X, _Y, _Z)))
    device.write(x, np.array(A, np.float32))
    device.write(y, np.array(B, np.float32))
    launch = Launch("joins.add", (_Z,), (_X, _Y), view="flat")
    pieces = ((0, HOST),)
    for command in (
        device.launch(launch, (z, x, y)),
        device.to_host(z, pieces),
        device.to_device(x, pieces),
    ):
        command({})
        device.synchronize()
    found = device.read(x).tolist()
    sums = ", ".join(f"{number:g}" for number in found)
    right = found == EXPECTED
    return f"four sums: {sums}{'' if right else f', expected {EXPECTED}'}", right


def _line(problem: object) -> str:
    """Return the problem in one line."""
    return " ".join(str(problem).split()) or type(problem).__name__
