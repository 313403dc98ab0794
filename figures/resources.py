"""What every kernel takes of a GPU: registers, shared memory, spills, occupancy.

Kernels are compiled to PTX by numba-cuda and assembled by the ptxas that comes with
it (`pip install 'snref[gpu]'`); neither a GPU nor a driver is needed.
"""

import importlib
import pkgutil
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil, prod
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from matplotlib.figure import Figure

import snref.kernels
from snref.device.views import viewed
from snref.layers.base import Declarations
from snref.net import route
from snref.nets import find
from snref.parts import cut, groups, route_in_parts
from snref.plans import Launch, Plan, Tensor
from snref.views import BLUE, GREEN, GREY, PAGE, VERMILION

Capability: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Multiprocessor:
    """What the blocks on one multiprocessor share; every one has 65,536 registers.

    Source: CUDA C++ Programming Guide, technical specifications per compute capability.
    """

    threads: int
    blocks: int
    shared: int  # bytes
    reserved: int  # of them, by the system, a block
    granule: int  # bytes by which shared memory is given out


MULTIPROCESSORS: dict[Capability, Multiprocessor] = {
    (6, 1): Multiprocessor(2048, 32, 96 << 10, 0, 256),
    (7, 5): Multiprocessor(1024, 16, 64 << 10, 0, 256),
    (8, 0): Multiprocessor(2048, 32, 164 << 10, 1 << 10, 128),
    (9, 0): Multiprocessor(2048, 32, 228 << 10, 1 << 10, 128),
}
REGISTERS = 65536
WARP = 32

NETS = {"alexnet": 2, "resnet50": 2, "inception_v4": 2, "densenet121": 2, "unet": 2}
NETS |= {"lenet": 64}
DECLARATIONS: tuple[Declarations, ...] = "original", "reuse", "static"
"""Networks, their batches, and declarations that together launch every kernel.

The kernels of parts of the batch are launched by AlexNet in two parts.
"""


@dataclass(frozen=True)
class Use:
    """How a kernel is launched: the types of its arguments and the shape of a block.

    types: the rank of an array of float32; -rank of one of int32; or "int", "float".
    """

    types: tuple[int | str, ...]
    block: tuple[int, ...]


POOL = (4, 4) + 6 * ("int",)
SIMPLE = {
    "versions.product": Use((2, 2, 2), (16, 16)),
    "versions.product_16x16": Use((2, 2, 2), (16, 16)),
    "versions.convolution_16x16": Use((4, 4, 4) + 5 * ("int",), (16, 16)),
    "versions.max_pool": Use(POOL, (256,)),
    "versions.average_pool": Use((*POOL, "int"), (256,)),
}
"""How the simple versions are launched, which no network launches."""


@dataclass(frozen=True)
class Resources:
    """What the assembler reports of a kernel; bytes a block, and a thread's spills."""

    registers: int
    shared: int
    spills: int
    doubles: bool  # whether the code computes in float64


# What there is to compile


def kernels() -> dict[str, Any]:
    """Every kernel of snref, as launches name it: "relu.forward"."""
    found = {}
    package = snref.kernels
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        file = importlib.import_module(module.name)
        for name, value in vars(file).items():
            function = getattr(value, "py_func", None)
            if function is None or function.__module__ != module.name:
                continue
            if not value.targetoptions.get("device"):
                found[f"{module.name.removeprefix('snref.kernels.')}.{name}"] = value
    return found


def uses() -> dict[str, set[Use]]:
    """How the networks launch the kernels, and how the simple versions are launched."""
    found = {name: {use} for name, use in SIMPLE.items()}
    routes = [
        route(find(name, batch).with_options(declarations))
        for (name, batch), declarations in product(NETS.items(), DECLARATIONS)
    ]
    net = find("alexnet", 64)
    routes.append(route_in_parts(net, [(g, cut(net, g, 2)) for g in groups(net, 2)]))
    for each in routes:
        for launch in launches(each):
            types: list[int | str] = [
                tensor_type(tensor, launch)
                for tensor in (*launch.outputs, *launch.inputs)
            ]
            types += [scalar_type(scalar) for scalar in launch.scalars]
            use = Use(tuple(types), launch.block)
            assert isinstance(launch.kernel, str), "our own kernels have names"
            found.setdefault(launch.kernel, set()).add(use)
    return found


def launches(route: Plan) -> Iterator[Launch]:
    """All that a route could launch, with every algorithm of its convolutions."""
    for run in route.runs():
        for work in run.work:
            if isinstance(work, Launch):
                if work.is_written:
                    yield work
                continue
            for algorithm in work.algorithms:
                scratch = Tensor("workspace", (ceil(algorithm.workspace / 4),))
                yield from algorithm.launches(
                    work.output, *work.inputs, scratch if algorithm.workspace else None
                )


def tensor_type(tensor: Tensor, launch: Launch) -> int:
    rank = len(viewed(tensor.shape, launch.view))
    return rank if tensor.dtype == "float32" else -rank


def numba_type(kind: int | str) -> Any:
    """The type of an argument, as Numba names it."""
    from numba import float32, int32, int64
    from numba.types import Array

    if isinstance(kind, int):
        return Array(float32 if kind > 0 else int32, abs(kind), "C")
    return {"int": int64, "float": float32}[kind]


def scalar_type(scalar: int | float | str) -> str:
    if isinstance(scalar, str):
        return "int" if scalar in ("seed", "iteration") else "float"
    return "int" if isinstance(scalar, int) else "float"


# Compiling it


def assembler() -> str | None:
    """The path of ptxas: that of NVIDIA's wheels, or else on the search path."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in (nvidia and nvidia.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*/bin/ptxas*")):
            return str(path)
    return shutil.which("ptxas")


def missing() -> str | None:
    """What is missing here to compile for GPUs, or None."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed: pip install 'snref[gpu]'"
    return None if assembler() else "ptxas was not found"


@cache
def resources(
    name: str, types: tuple[int | str, ...], capability: Capability
) -> Resources:
    """Compile a kernel and assemble it for a compute capability.

    Raises RuntimeError with ptxas's message if it refuses the code.
    """
    ptx = compiled(kernels()[name], types, capability)
    path = assembler()
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        major, minor = capability
        done = subprocess.run(
            [
                path,
                "-v",
                f"-arch=sm_{major}{minor}",
                source,
                "-o",
                source.with_suffix(".cubin"),
            ],
            capture_output=True,
            text=True,
        )
    report = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError(f"{name}, sm_{major}{minor}: {report}")

    def number(pattern: str) -> int:
        return sum(int(value) for value in re.findall(pattern, report))

    return Resources(
        registers=number(r"Used (\d+) registers"),
        shared=number(r"(\d+) bytes smem"),
        spills=number(r"(\d+) bytes spill"),
        doubles=".f64" in ptx,
    )


def compiled(kernel: Any, types: tuple[int | str, ...], capability: Capability) -> str:
    """The kernel in PTX."""
    from numba import cuda
    from numba.cuda import dispatcher

    class StandIn:
        """numba-cuda compiles device functions for the current device."""

        compute_capability = capability

    signature = tuple(map(numba_type, types))
    with patch.object(dispatcher, "get_current_device", StandIn):
        ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=capability)
    return str(ptx)


def occupancy(used: Resources, block: tuple[int, ...], capability: Capability) -> float:
    """The share of a multiprocessor's warps that can be resident."""
    sm = MULTIPROCESSORS[capability]
    warps = ceil(prod(block) / WARP)
    # Registers are given out to a warp, 256 at a time, in four partitions.
    a_warp = ceil(used.registers * WARP / 256) * 256
    by_registers = REGISTERS // a_warp // 4 * 4 // warps
    shared = ceil((used.shared + sm.reserved) / sm.granule) * sm.granule
    by_shared = sm.shared // shared if shared else sm.blocks
    by_threads = sm.threads // (warps * WARP)
    resident = min(sm.blocks, by_registers, by_shared, by_threads)
    return resident * warps * WARP / sm.threads


def measure() -> list[dict[str, Any]]:
    """A row for every kernel, block shape and compute capability.

    Raises RuntimeError where kernels cannot be compiled for GPUs.
    """
    if why := missing():
        raise RuntimeError(why)
    rows = []
    for name, ways in sorted(uses().items()):
        for use in sorted(ways, key=str):
            for capability in MULTIPROCESSORS:
                used = resources(name, use.types, capability)
                rows.append(
                    {
                        "kernel": name,
                        "block": "x".join(map(str, use.block)),
                        "capability": "{}.{}".format(*capability),
                        "registers": used.registers,
                        "shared_bytes": used.shared,
                        "spill_bytes": used.spills,
                        "occupancy": occupancy(used, use.block, capability),
                    }
                )
    return rows


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw each kernel's occupancy on four generations, a point a block shape."""
    names = sorted({row["kernel"] for row in rows})
    half = -(-len(names) // 2)
    figure = Figure(figsize=(PAGE, 0.6 + 0.13 * half))
    panels = figure.subplots(1, 2, sharex=True)
    capabilities = sorted({row["capability"] for row in rows})
    looks = ((GREY, "o"), (BLUE, "s"), (VERMILION, "^"), (GREEN, "D"))
    for axes, shown in zip(panels, (names[:half], names[half:]), strict=True):
        for capability, (colour, marker) in zip(capabilities, looks, strict=True):
            points = [
                (row["occupancy"], shown.index(row["kernel"]))
                for row in rows
                if row["capability"] == capability and row["kernel"] in shown
            ]
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                marker,
                color=colour,
                markerfacecolor="none",
                label=f"compute capability {capability}",
            )
        axes.axvline(0.5, color="#aaaaaa", linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(shown)), shown, fontsize=5.5)
        axes.set_ylim(half - 0.5, -0.5)
        axes.set_xlim(0, 1.04)
        axes.set_xlabel("occupancy: share of the resident warps")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    kernels = {row["kernel"] for row in rows}
    low = {row["kernel"] for row in rows if row["occupancy"] < 0.5}
    spills = {row["kernel"] for row in rows if row["spill_bytes"]}
    return (
        f"Of {len(kernels)} kernels, compiled for four generations of GPUs, "
        f"{len(kernels - low)} keep at least half of the warps resident everywhere, "
        f"and {len(spills) or 'none'} spill registers."
    )
