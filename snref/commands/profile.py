"""``snref profile``: seconds of each run and algorithm, measured on this device."""

import argparse
import platform
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from snref.commands import arguments as shared
from snref.net import Net, route
from snref.plans import Launch, Part, Phase, Run, Tensor, extent
from snref.scheduler import PRESETS, schedule
from snref.timing.costs import Costs

if TYPE_CHECKING:
    from snref.device import Device

EXAMPLE = "snref profile lenet --batch 16 --out costs.csv"

LARGE, SMALL = 2**26, 2**8  # bytes copied to measure bandwidth, and latency
VALUES = {  # of what launches name; at rate 0 repeated updates change nothing
    "seed": 0,
    "iteration": 0,
    "learning_rate": 0.0,
    "momentum": 0.0,
    "weight_decay": 0.0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="the costs (CSV), for --costs; - is standard output",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="default: the GPU if there is one",
    )
    parser.add_argument(
        "--repeats",
        type=shared.at_least_one,
        default=5,
        metavar="N",
        help="take the least of so many; default: 5",
    )


def run(arguments: argparse.Namespace) -> int:
    costs = measured(shared.net_of(arguments), arguments.device, arguments.repeats)
    costs.to_csv(arguments.out)
    if arguments.out != "-":
        total = sum(costs.runs.values())
        print(
            f"{costs.source}\n{len(costs.runs)} runs, {total:.4g} s without "
            f"convolutions; {len(costs.algorithms)} algorithms of convolutions\n"
            f"copies: {costs.to_host / 1e9:.3g} GB/s to the host, "
            f"{costs.to_device / 1e9:.3g} GB/s back"
        )
    return 0


def measured(net: Net, device: str = "auto", repeats: int = 5) -> Costs:
    """Seconds of every run of a net, and of every algorithm of its convolutions.

    One iteration is run, every kernel of it once more than ``repeats``: the first may
    have to be compiled. Each time is the least of the others, until the device is done.
    """
    from snref.training import open_device
    from snref.training.execution import Execution
    from snref.training.parameters import initial

    plan = schedule(route(net), PRESETS["liveness"])
    there = open_device(device, extent(plan))
    residents = {t: there.resident(a) for t, a in initial(net, 0).items()}
    scratch = _scratch(plan.runs(), there)
    execution = Execution(there, residents, VALUES)

    def seconds(launches: Iterable[Launch]) -> float:
        calls = [
            (
                launch,
                [
                    scratch[1] if tensor is scratch[0] else execution.buffers[tensor]
                    for tensor in (*launch.outputs, *launch.inputs)
                ],
                [execution.value(scalar) for scalar in launch.scalars],
            )
            for launch in launches
        ]

        def all_of_them() -> None:
            for launch, buffers, scalars in calls:
                there.launch(launch, buffers, scalars)

        return _least(all_of_them, there, repeats) if calls else 0.0

    runs: dict[tuple[str, Phase], float] = {}
    algorithms: dict[tuple[str, Part, str], float] = {}
    for step in plan.steps:
        if not isinstance(step, Run):
            execution.run([step])
            continue
        for choice in step.choices:
            # The last is the plan's own, so that what follows reads what it would.
            for way in reversed(choice.algorithms):
                used = way.launches(choice.output, *choice.inputs, scratch[0])
                algorithms[step.layer, choice.part, way.name] = seconds(used)
        others = (piece for piece in step.work if isinstance(piece, Launch))
        runs[step.layer, step.phase] = seconds(others)
    to_host, to_device, latency = _copies(there, repeats)
    source = f"measured on {type(there).__name__} ({platform.machine()}), {net.name}"
    return Costs(
        f"{source}, batch {net.batch}", runs, algorithms, to_host, to_device, latency
    )


def _scratch(runs: Iterable[Run], device: "Device") -> tuple[Tensor, object]:
    """Workspace enough for every algorithm."""
    import numpy as np

    nbytes = max(
        (way.workspace for run in runs for c in run.choices for way in c.algorithms),
        default=0,
    )
    tensor = Tensor("workspace", (-(-nbytes // 4),), "workspace")
    return tensor, device.resident(np.zeros(tensor.shape, np.float32))


def _copies(device: "Device", repeats: int) -> tuple[float, float, float]:
    """Bytes per second to the host and back, and the seconds that any copy takes."""
    import numpy as np

    def seconds(nbytes: int) -> tuple[float, float]:
        tensor = Tensor("copied", (nbytes // 4,))
        buffer = device.resident(np.zeros(tensor.shape, np.float32))
        host = device.to_host(tensor, buffer)
        return (
            _least(lambda: device.to_host(tensor, buffer), device, repeats),
            _least(lambda: device.to_device(host, tensor, buffer), device, repeats),
        )

    latency = min(seconds(SMALL))
    out, back = (max(1e-9, taken - latency) for taken in seconds(LARGE))
    return LARGE / out, LARGE / back, latency


def _least(do: Callable[[], object], device: "Device", repeats: int) -> float:
    """The least seconds of so many, once it has been done before."""
    do()
    device.synchronize()
    times = []
    for _ in range(repeats):
        start = device.now()
        do()
        device.synchronize()
        times.append(device.now() - start)
    return min(times)
