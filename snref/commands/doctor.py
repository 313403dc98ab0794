"""``snref doctor``: what is here, what works, and what would repair what does not."""

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import snref
from snref.commands.ready import PACKAGES, NotReady, check, repair
from snref.device.present import HOST, SLAB, Finding, find_gpu, four_sums

EXAMPLE = "snref doctor --report"

NEEDED = ("numpy", "numba", "llvmlite", "matplotlib")
OPTIONAL = ("numba-cuda", "cuda-core", "cuda-bindings", "torch", "onnx", "scipy")
# What the doctor does on the CPU device, for another process.
SUMS = """
from snref.device import cpu, present
assert present.four_sums(cpu.CPU(present.SLAB, present.HOST))[1]
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        action="store_true",
        help="also what else a report of a fault should say: settings, paths, cores",
    )


def run(arguments: argparse.Namespace) -> int:
    for line in _versions():
        print(line)
    findings = {"cpu": _cpu(), "cuda": find_gpu()}
    print()
    for device, found in findings.items():
        mark = {True: "works", False: "FAILS", None: "none"}[found.works]
        print(f"{device:5} {mark:6} {found.says}")
    missing = [PACKAGES] if None in map(_version, NEEDED) else []
    helpful = [found.repair for found in findings.values() if found.repair]
    repairs = list(dict.fromkeys([*missing, *helpful]))
    print("\nto repair:" if repairs else "\nnothing to repair")
    for line in repairs:
        print(f"  {line}")
    if arguments.report:
        print()
        for line in _report():
            print(line)
    return 1 if any(found.works is False for found in findings.values()) else 0


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
        return Finding(_line(error), False, error.repair)
    try:
        from snref.device.cpu import CPU

        says, right = four_sums(CPU(SLAB, HOST))
    except Exception as error:  # whatever it is, it is what the doctor is asked for
        return Finding(_line(error), False, repair(SUMS))
    return Finding(f"{os.cpu_count()} cores; {says}", right)


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
