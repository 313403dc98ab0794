"""``snref profile``: seconds of each run and algorithm, measured on this device."""

import argparse
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from snref.commands import arguments as shared
from snref.net import Net, route
from snref.plans import Alloc, Launch, Part, Phase, Plan, Run, Tensor, extent
from snref.scheduler import PRESETS, schedule
from snref.timing.costs import Costs

if TYPE_CHECKING:
    from snref.device import Device

Key: TypeAlias = tuple[str, ...]

EXAMPLE = "snref profile lenet --batch 16 --out costs.csv"

LARGE, SMALL = 2**26, 2**8  # bytes copied to measure bandwidth, and latency
COARSE = 1e-5  # seconds: a clock of CPU time that ticks less often is of no use
VALUES = {  # of the scalars that launches name; at rate 0 updates change nothing
    "seed": 0,
    "iteration": 0,
    "learning_rate": 0.0,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "bias_decay": 0.0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    parser.add_argument(
        "--out",
        type=shared.output,
        required=True,
        metavar="FILE",
        help="the costs (CSV), for --costs; - is standard output",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="default: the GPU if there is one; the CPU is timed on one thread",
    )
    parser.add_argument(
        "--repeats",
        type=shared.at_least_one,
        default=5,
        metavar="N",
        help="measure N iterations and take each step's least time; default: 5",
    )


def run(arguments: argparse.Namespace) -> int:
    net = shared.net_of(arguments)
    costs = measured(net, arguments.device, arguments.repeats)
    costs.to_csv(arguments.out)
    if arguments.out != "-":
        total = sum(costs.runs.values())
        print(
            f"{costs.source}\n{len(costs.runs)} runs, {total:.4g} s without "
            f"convolutions; {len(costs.algorithms)} algorithms of convolutions\n"
            "no run computes the image's gradient, which training does not need\n"
            f"copies: {costs.to_host / 1e9:.3g} GB/s to the host, "
            f"{costs.to_device / 1e9:.3g} GB/s back"
        )
    return 0


def measured(net: Net, device: str = "auto", repeats: int = 5) -> Costs:
    """Measure every run of a net, and every algorithm of its convolutions.

    One iteration is executed to compile the kernels, and ``repeats`` iterations are
    measured. Each number is the least of them: they are apart in time, so that a busy
    moment of the machine spoils one of them only. The CPU device is timed on one
    thread, in CPU time, which other processes hardly change; a GPU by its own clock.

    The seconds of a run are those of ``snref train``, without the gradient of the
    image. The convolutions that would compute it are timed for plans that count it.
    """
    from snref.training import check_kernels, open_device
    from snref.training.parameters import initial

    check_kernels(net)
    plan = schedule(route(net), replace(PRESETS["liveness"], overwrite="never"))
    there = open_device(device, extent(plan), threads=1, host=LARGE)
    residents = {t: there.resident(a) for t, a in initial(net, 0).items()}
    scratch = _scratch(plan.runs(), there)
    trained = {
        tensor.name
        for run in route(net.with_options(image_gradient=False)).runs()
        for tensor in run.writes
    }
    copies = {nbytes: _copies(nbytes, there) for nbytes in (SMALL, LARGE)}
    watch = _Stopwatch(there)
    for number in range(repeats + 1):
        if number == 1:
            watch.least.clear()  # the first iteration compiled
        _iterate(plan, residents, scratch, trained, watch)
        for nbytes, (out, back) in copies.items():
            watch.time(("out", str(nbytes)), [out])
            watch.time(("back", str(nbytes)), [back])
    runs: dict[tuple[str, Phase], float] = {}
    algorithms: dict[tuple[str, Part, str], float] = {}
    for run in plan.runs():
        runs[run.layer, run.phase] = watch.least[run.layer, run.phase]
        for choice in run.choices:
            for way in choice.algorithms:
                key = run.layer, choice.part, way.name
                algorithms[key] = watch.least[key]
    latency = min(watch.least["out", str(SMALL)], watch.least["back", str(SMALL)])
    to_host, to_device = (
        LARGE / max(1e-9, watch.least[way, str(LARGE)] - latency)
        for way in ("out", "back")
    )
    source = (
        f"measured on {type(there).__name__} ({platform.machine()}), {net.name}, "
        f"batch {net.batch}"
    )
    return Costs(source, runs, algorithms, to_host, to_device, latency)


class _Stopwatch:
    """The least seconds that each piece of work took, by its key."""

    def __init__(self, device: "Device") -> None:
        self.device = device
        self.least: dict[Key, float] = {}
        on_cpu = type(device).__name__ == "CPU"
        fine = on_cpu and _tick(time.process_time) <= COARSE
        self.now = time.process_time if fine else device.now

    def time(self, key: Key, calls: Iterable[Callable[[], object]]) -> None:
        """Do the work of a key once more; no calls take no time."""
        calls = list(calls)
        self.device.synchronize()
        start = self.now()
        for call in calls:
            call()
        self.device.synchronize()
        seconds = self.now() - start if calls else 0.0
        self.least[key] = min(seconds, self.least.get(key, inf))


def _tick(clock: Callable[[], float]) -> float:
    """Return how far a clock advances at once, whatever it says of itself.

    Under a limit of CPU time (``ulimit -t``), Linux brings that clock up to date every
    few milliseconds only.
    """
    start = clock()
    while (now := clock()) == start:
        pass
    return now - start


def _iterate(
    plan: Plan,
    residents: dict[Tensor, Any],
    scratch: tuple[Tensor, Any],
    trained: set[str],
    watch: _Stopwatch,
) -> None:
    """Execute a plan, and time each run without launches that write nothing trained."""
    buffers = residents | {scratch[0]: scratch[1]}

    def call(launch: Launch) -> Callable[[], object]:
        given = [buffers[tensor] for tensor in (*launch.outputs, *launch.inputs)]
        return partial(watch.device.launch(launch, given), VALUES)

    for step in plan.steps:
        if isinstance(step, Alloc):
            assert step.offset is not None
            buffers[step.tensor] = watch.device.view(step.tensor, step.offset)
        if not isinstance(step, Run):
            continue
        for choice in step.choices:
            # The last is the plan's own, so that what follows reads what it would.
            for way in reversed(choice.algorithms):
                used = way.launches(choice.output, *choice.inputs, scratch[0])
                watch.time((step.layer, choice.part, way.name), map(call, used))
        others = [
            piece
            for piece in step.work
            if isinstance(piece, Launch)
            and any(tensor.name in trained for tensor in piece.outputs)
        ]
        watch.time((step.layer, step.phase), map(call, others))


def _scratch(runs: Iterable[Run], device: "Device") -> tuple[Tensor, Any]:
    """Return a workspace, and its buffer, large enough for every algorithm."""
    import numpy as np

    nbytes = max(
        (way.workspace for run in runs for c in run.choices for way in c.algorithms),
        default=0,
    )
    tensor = Tensor("workspace", (-(-nbytes // 4),), "workspace")
    return tensor, device.resident(np.zeros(tensor.shape, np.float32))


def _copies(
    nbytes: int, device: "Device"
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return two functions that copy so many bytes to the host, and back."""
    import numpy as np

    buffer, pieces = device.resident(np.zeros(nbytes, np.uint8)), ((0, nbytes),)
    return (
        partial(device.to_host(buffer, pieces), VALUES),
        partial(device.to_device(buffer, pieces), VALUES),
    )
