"""Every kernel compiles for real GPUs, without one, and fits them well."""

import inspect

import pytest

from figures import resources
from figures.resources import MULTIPROCESSORS, Capability

KERNELS = resources.kernels()
USES = resources.uses()
REASON = "# occupancy:"  # opens the comment of a kernel that fills less than half

compiles = pytest.mark.skipif(
    resources.missing() is not None, reason=str(resources.missing())
)


def test_the_networks_launch_every_kernel_and_nothing_else() -> None:
    assert set(USES) == set(KERNELS)


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
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_kernel_fills_half_of_a_gpu_or_says_why_not(name: str) -> None:
    least = min(
        resources.occupancy(
            resources.resources(name, use.types, capability), use.block, capability
        )
        for use in USES[name]
        for capability in MULTIPROCESSORS
    )
    explained = REASON in inspect.getsource(KERNELS[name].py_func)
    assert explained or least >= 0.5, f"occupancy {least:.0%}"


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
