"""``snref doctor``: what is here, what works, and what would repair what does not."""

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import snref
from snref.commands.ready import NotReady, check
from snref.device import Device
from snref.plans import Launch, Tensor

EXAMPLE = "snref doctor --report"

NEEDED = ("numpy", "numba", "llvmlite", "matplotlib")
OPTIONAL = ("numba-cuda", "cuda-core", "torch", "onnx", "scipy", "pytest")
GPU_EXTRA = "pip install 'numba-cuda[cu12]==0.30.*' 'numpy<2.5'"
BASE = "pip install --upgrade 'numpy>=1.26' 'numba>=0.66,<0.69' 'matplotlib>=3.8'"

# A kernel on four elements: y = a + b.
A, B = (1.0, 2.0, 3.0, 4.0), (10.0, 20.0, 30.0, 40.0)
EXPECTED = [11.0, 22.0, 33.0, 44.0]


@dataclass(frozen=True)
class Finding:
    """A device, and whether a kernel computed the right numbers on it.

    works   None: there is none, and nothing is wrong with that
    repair  a command that may help
    """

    device: str
    says: str
    works: bool | None
    repair: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        action="store_true",
        help="also what else a report of a fault should say: settings, paths, cores",
    )


def run(arguments: argparse.Namespace) -> int:
    for line in _versions():
        print(line)
    findings = (_cpu(), _gpu())
    print()
    for found in findings:
        mark = {True: "works", False: "FAILS", None: "none"}[found.works]
        print(f"{found.device:5} {mark:6} {found.says}")
    missing = [BASE] if None in map(_version, NEEDED) else []
    helpful = [found.repair for found in findings if found.repair]
    repairs = list(dict.fromkeys([*missing, *helpful]))
    print("\nto repair:" if repairs else "\nnothing to repair")
    for repair in repairs:
        print(f"  {repair}")
    if arguments.report:
        print()
        for line in _report():
            print(line)
    return 1 if any(found.works is False for found in findings) else 0


def _versions() -> Iterator[str]:
    """The versions of what snref needs, and of what it can use."""
    yield f"snref {snref.__version__}"
    yield f"Python {platform.python_version()} on {platform.platform()}"
    for name in NEEDED:
        yield f"{name} {_version(name) or 'MISSING'}"
    found = [f"{name} {_version(name)}" for name in OPTIONAL if _version(name)]
    absent = [name for name in OPTIONAL if not _version(name)]
    yield f"optional: {', '.join(found) or 'none'}; not installed: {', '.join(absent)}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> Finding:
    """Run the kernel on the CPU device."""
    try:
        check()
    except NotReady as error:
        repair = BASE if error.__cause__ else None  # no package repairs a limit
        return Finding("cpu", _line(error), False, repair)
    try:
        from snref.device.cpu import CPU

        says, right = _try(CPU(_SLAB))
    except Exception as error:  # whatever it is, it is what the doctor is asked for
        return Finding("cpu", _line(error), False, BASE)
    return Finding("cpu", f"{os.cpu_count()} cores; {says}", right)


def _gpu() -> Finding:
    """The kernel on a GPU, or why there is none."""
    try:
        from numba import config, cuda
    except Exception as error:  # a broken llvmlite raises OSError and others
        return Finding("cuda", f"cannot be imported: {_line(error)}", False, BASE)
    whose = getattr(cuda, "implementation", "unknown")
    if getattr(config, "ENABLE_CUDASIM", False):
        says = "this process simulates CUDA (NUMBA_ENABLE_CUDASIM): no GPU is used"
        return Finding("cuda", says, None)
    driver = _driver()
    if not cuda.is_available():
        if driver is None:
            return Finding("cuda", "no NVIDIA driver here; the CPU device does", None)
        reason = _line(cuda.cuda_error() or "its libraries are not all found")
        says = f"driver {driver}, but Numba's CUDA ({whose}) has none: {reason}"
        return Finding("cuda", says, False, GPU_EXTRA)
    try:
        from snref.device.cuda import GPU

        name = cuda.get_current_device().name
        free, total = cuda.current_context().get_memory_info()
        says, right = _try(GPU(_SLAB))
    except Exception as error:
        says = f"driver {driver}, Numba's CUDA ({whose}): {_line(error)}"
        return Finding("cuda", says, False, GPU_EXTRA)
    title = name.decode() if isinstance(name, bytes) else str(name)
    return Finding(
        "cuda",
        f"{title}, {free} of {total} bytes free, driver {driver}, Numba's CUDA "
        f"({whose}); {says}",
        right,
        None if right else GPU_EXTRA,
    )


def _driver() -> str | None:
    """The version of NVIDIA's driver, "found" if it does not say; None without one."""
    said = Path("/proc/driver/nvidia/version")
    if said.is_file():
        words = said.read_text(errors="replace").split()
        return next((word for word in words if word[:1].isdigit()), "found")
    system = Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32")
    if sys.platform == "win32" and (system / "nvcuda.dll").is_file():
        return "found"
    return "found" if Path("/usr/lib/wsl/lib/libcuda.so.1").is_file() else None


_X, _Y, _Z = (Tensor(name, (4,)) for name in "xyz")
_SLAB = 3 * _X.aligned_bytes


def _try(there: Device) -> tuple[str, bool]:
    """Four sums on a device: what to say of them, and whether they are right."""
    import numpy as np

    x, y, z = (there.view(t, i * t.aligned_bytes) for i, t in enumerate((_X, _Y, _Z)))
    there.write(x, np.array(A, np.float32))
    there.write(y, np.array(B, np.float32))
    launch = Launch("joins.add", (_Z,), (_X, _Y), view="flat")
    there.launch(launch, (z, x, y), ())
    found = there.read(z).tolist()
    sums = ", ".join(f"{number:g}" for number in found)
    right = found == EXPECTED
    return (f"four sums: {sums}{'' if right else f', expected {EXPECTED}'}", right)


def _report() -> Iterator[str]:
    """What else tells one machine from another."""
    from snref.simt import cache

    yield f"python   {sys.executable}"
    yield f"snref    {Path(snref.__file__).parent}"
    yield f"machine  {platform.machine()}, {os.cpu_count()} cores"
    yield f"kernels  {cache.folder()}"
    for name in sorted(os.environ):
        if name.startswith(("NUMBA_", "SNREF_", "CUDA_")):
            yield f"{name}={os.environ[name]}"


def _line(problem: object) -> str:
    """The problem in one line."""
    return " ".join(str(problem).split()) or type(problem).__name__
