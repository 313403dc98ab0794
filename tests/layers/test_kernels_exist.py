"""Every launch of every net names a kernel, and gives it what it takes."""

from math import prod

import pytest

from snref.kernels import check_arguments
from snref.net import Net, route
from snref.nets import NAMES, find, random_net
from snref.plans import Launch, Tensor


def launches(net: Net) -> list[Launch]:
    """All that the net could launch, with every algorithm of its convolutions."""
    found = []
    for run in route(net).runs():
        for piece in run.work:
            if isinstance(piece, Launch):
                found.append(piece)
                continue
            for algorithm in piece.algorithms:
                scratch = None
                if algorithm.workspace:
                    size = -(-algorithm.workspace // 4)
                    scratch = Tensor("workspace", (size,), "workspace")
                found += algorithm.launches(piece.output, *piece.inputs, scratch)
    return [launch for launch in found if launch.is_written]


def check(net: Net) -> None:
    for launch in launches(net):
        check_arguments(launch)
        assert 1 <= len(launch.grid) <= 3 and 1 <= len(launch.block) <= 3
        assert all(size >= 1 for size in (*launch.grid, *launch.block))
        assert all(rows <= 65535 for rows in launch.grid[1:])
        assert prod(launch.block) <= 1024


@pytest.mark.parametrize("name", [name for name in NAMES if ":" not in name])
def test_every_launch_of_a_network_has_its_kernel(name: str) -> None:
    check(find(name, 2))
    check(find(name, 2).with_options(declarations="lean"))


def test_every_launch_of_random_nets_has_its_kernel() -> None:
    for seed in range(50):
        check(random_net(seed))
