"""Every kernel compiles for real GPUs, without one, and fits them well."""

import re
from sys import modules

import pytest

from figures import resources
from figures.resources import MULTIPROCESSORS, Capability
from snref.kernels.versions import VERSIONS

KERNELS = resources.kernels()
USES = resources.uses()
# A module whose kernels fill less than half of a GPU says how much they fill, and why.
STATED = re.compile(r"^Occupancy: at least (\d+) %\.", re.MULTILINE)

compiles = pytest.mark.skipif(
    resources.missing() is not None, reason=str(resources.missing())
)


def test_the_networks_launch_every_kernel_but_the_simple_versions() -> None:
    assert set(USES) == set(KERNELS)
    listed = {name for names in VERSIONS.values() for name in names}
    simple = {name for name in KERNELS if name.startswith("versions.")}
    assert simple == listed & simple == set(resources.SIMPLE)
    assert listed <= set(KERNELS)


@pytest.mark.ptx
@compiles
@pytest.mark.parametrize("capability", MULTIPROCESSORS, ids="{0[0]}.{0[1]}".format)
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_kernel_assembles_in_float32_without_spills(
    name: str, capability: Capability
) -> None:
    for types in {use.types for use in USES[name]}:
        used = resources.resources(name, types, capability)
        assert not used.doubles
        assert used.spills == 0
        assert used.shared <= 48 << 10


@pytest.mark.ptx
@compiles
@pytest.mark.parametrize(
    "module", sorted({k.py_func.__module__ for k in KERNELS.values()})
)
def test_kernels_fill_half_of_a_gpu_or_as_much_as_their_module_says(
    module: str,
) -> None:
    least = min(
        resources.occupancy(
            resources.resources(name, use.types, capability), use.block, capability
        )
        for name, kernel in KERNELS.items()
        if kernel.py_func.__module__ == module
        for use in USES[name]
        for capability in MULTIPROCESSORS
    )
    stated = STATED.search(modules[module].__doc__ or "")
    if stated is None:
        assert least >= 0.5
    else:
        assert int(stated[1]) == int(100 * least)


def test_occupancy_is_what_cuda_s_calculator_says() -> None:
    # 256 threads, 40 registers: 6 blocks of 8 warps; 12 KiB of shared memory: 8 blocks.
    used = resources.Resources(registers=40, shared=12 << 10, spills=0, doubles=False)
    assert resources.occupancy(used, (256,), (6, 1)) == 0.75
    # 32 threads: never more than 32 blocks.
    used = resources.Resources(registers=16, shared=0, spills=0, doubles=False)
    assert resources.occupancy(used, (32,), (9, 0)) == 0.5
    # 64 KiB of shared memory: 5 blocks of 12 KiB on a Turing.
    used = resources.Resources(registers=32, shared=12 << 10, spills=0, doubles=False)
    assert resources.occupancy(used, (32, 4), (7, 5)) == 5 * 128 / 1024
