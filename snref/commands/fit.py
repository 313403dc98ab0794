"""``snref fit``: does a net fit, with which plan, and how large may its batch be?

Optimizer and number format change what is counted, nothing else: the seconds are those
of float32 and of gradient descent with momentum.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import snref
from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.net import Net, route
from snref.nets import find
from snref.planning.quickest import least_time
from snref.planning.reports import resident
from snref.plans import (
    Launch,
    OutOfMemory,
    Plan,
    Run,
    Tensor,
    Work,
    extent,
    lower_bound,
)
from snref.scheduler import Options
from snref.scheduler.in_place import overwrite
from snref.support.garbage import no_garbage_collection
from snref.support.units import mebibytes
from snref.timing import roofline
from snref.timing.costs import Costs
from snref.timing.timeline import simulate

EXAMPLE = "snref fit resnet50 --memory 12GB --optimizer adam"

MOMENTA = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # numbers a parameter
FORMATS = ("fp32", "amp")
DEEPER = (6, 32, 6)  # blocks of a ResNet's other stages, as SuperNeurons deepens it

NOT_COUNTED = (
    "the CUDA context and the code of the kernels (some hundred MiB)",
    "what a framework's allocator keeps beside the tensors",
    "copies of data that a loader holds on the device ahead of use",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    shared.add_memory(parser)
    parser.add_argument(
        "--optimizer",
        choices=list(MOMENTA),
        default="momentum",
        help="how many numbers it keeps a parameter: 0, 1 (default), 2, 2",
    )
    parser.add_argument(
        "--dtype",
        choices=FORMATS,
        default="fp32",
        help="amp: activations and gradients in half precision, but for the loss; "
        "parameters in both; default: fp32",
    )
    parser.add_argument(
        "--deeper",
        action="store_true",
        help="instead of the largest batch, the deepest ResNet: the N of "
        "resnet:6,32,N,6",
    )
    shared.add_machine(parser)
    shared.add_tables(parser, "the table")


@dataclass(frozen=True)
class Counted:
    """How bytes are counted.

    host_memory  bytes of the host that a plan may keep, None for any number
    """

    optimizer: str
    dtype: str
    host_memory: int | None

    def resident(self, net: Net) -> dict[str, int]:
        """Bytes that stay on the device throughout, by what they are."""
        found = resident(net)
        parameters = found["parameter"]
        counted = {
            "parameters": parameters,
            "parameter_gradients": found["parameter_gradient"],
            "optimizer_state": MOMENTA[self.optimizer] * parameters,
            "state": found["state"],
            "input": found["input"],
        }
        if self.dtype == "amp":
            counted["half_precision_parameters"] = parameters // 2
        return counted

    def route(self, net: Net) -> Plan:
        """The route, with tensors of the format."""
        whole = route(net)
        return halved(whole, net.nodes[-1].y) if self.dtype == "amp" else whole

    def least(self, net: Net) -> int:
        """The fewest bytes of device memory in which a plan exists."""
        bound = lower_bound(overwrite(self.route(net), "gradients"))
        return bound + sum(self.resident(net).values())

    def planned(self, net: Net, memory: int, costs: Costs) -> "Fit":
        """The plan of least time. Raises OutOfMemory, in bytes of all the memory."""
        fixed = sum(self.resident(net).values())
        whole = self.route(net)
        try:
            options, made = least_time(
                whole, costs, max(0, memory - fixed), host_capacity=self.host_memory
            )
        except OutOfMemory as error:
            if error.step == "the host":
                raise
            raise OutOfMemory(
                error.step, error.needed + fixed, memory, error.least + fixed
            ) from None
        return Fit(net, made, options, self.resident(net), costs)


@dataclass(frozen=True)
class Fit:
    """A net, and its plan in the memory there is."""

    net: Net
    plan: Plan
    options: Options
    resident: dict[str, int]
    costs: Costs

    @property
    def total(self) -> int:
        """All bytes of device memory: resident, and the slab."""
        return sum(self.resident.values()) + extent(self.plan)

    @property
    def says(self) -> str:
        options = self.options
        seconds = simulate(self.plan, self.costs).seconds
        return (
            f"recompute {options.recompute or 'off'}, transfers {options.transfers}; "
            f"{seconds:.4g} s an iteration on {self.costs.source}"
        )


def halved(whole: Plan, loss: Tensor) -> Plan:
    """The route with activations and gradients in half precision, but for the loss.

    >>> net = find("lenet", 2)
    >>> half = halved(route(net), net.nodes[-1].y)
    >>> lower_bound(half) / lower_bound(route(net))
    0.5
    """
    halves: dict[Tensor, Tensor] = {}

    def half(tensor: Tensor) -> Tensor:
        if not tensor.is_data or tensor is loss:
            return tensor
        if tensor not in halves:
            halves[tensor] = Tensor(tensor.name, tensor.shape, tensor.kind, "float16")
        return halves[tensor]

    def work(piece: Work) -> Work:
        if isinstance(piece, Launch):
            return replace(
                piece,
                outputs=tuple(map(half, piece.outputs)),
                inputs=tuple(map(half, piece.inputs)),
                retained=tuple(map(half, piece.retained)),
                may_overwrite=tuple(
                    (half(output), half(target), when)
                    for output, target, when in piece.may_overwrite
                    if half(output).dtype == half(target).dtype  # not over the loss
                ),
            )
        first, second = piece.inputs
        return replace(
            piece, output=half(piece.output), inputs=(half(first), half(second))
        )

    steps = tuple(
        replace(step, work=tuple(map(work, step.work)))
        for step in whole.steps
        if isinstance(step, Run)
    )
    return Plan(steps, (*whole.history, "half precision"))


def largest(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, if every smaller one does; 0 if none does.

    >>> largest(lambda n: n <= 1000)
    1000
    """
    high = 1
    while fits(high):
        high *= 2
    low = high // 2  # fits, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def run(arguments: argparse.Namespace) -> int:
    if arguments.memory is None:
        raise ValueError("--memory SIZE says in how much the net is to fit")
    if arguments.deeper and not arguments.net.startswith("resnet"):
        raise ValueError(f"--deeper is for a ResNet, not for {arguments.net}")
    counted = Counted(arguments.optimizer, arguments.dtype, arguments.host_memory)
    with no_garbage_collection():
        return _run(arguments, counted)


def _run(arguments: argparse.Namespace, counted: Counted) -> int:
    net = shared.net_of(arguments)
    memory: int = arguments.memory

    def costs(net: Net) -> Costs:
        if arguments.costs:
            return Costs.from_csv(arguments.costs)
        return roofline.costs(route(net), roofline.machine(arguments.device))

    def fitted(net: Net) -> Fit | OutOfMemory:
        try:
            return counted.planned(net, memory, costs(net))
        except OutOfMemory as error:
            return error

    def fits(net: Net) -> bool:
        if counted.least(net) > memory:
            return False
        return counted.host_memory is None or isinstance(fitted(net), Fit)

    def other(size: int) -> Net:
        """The net with another batch, or another depth."""
        if not arguments.deeper:
            return net.with_batch(size)
        first, second, last = DEEPER
        name = f"resnet:{first},{second},{size},{last}"
        deep = find(name, net.batch, arguments.input_size)
        return deep.with_options(arguments.declarations, arguments.fork)

    asked = fitted(net)
    most = largest(lambda size: fits(other(size)))
    best = fitted(other(most)) if most else None
    what = "N of the deepest resnet:6,32,N,6" if arguments.deeper else "largest batch"
    rows = list(_rows(asked if isinstance(asked, Fit) else None))
    text = "\n".join(_lines(net, memory, counted, asked, what, most, best))
    put(
        arguments,
        text,
        Table(("what", "bytes"), rows),
        _report(net, memory, counted, asked, arguments.deeper, most, best),
    )
    return 0 if isinstance(asked, Fit) else 1


def _rows(fit: Fit | None) -> Iterator[tuple[str, int]]:
    """What a plan needs, in bytes."""
    if fit is None:
        return
    for kind, nbytes in fit.resident.items():
        yield kind.replace("_", " "), nbytes
    yield "activations, gradients, workspace: the slab", extent(fit.plan)
    yield "total", fit.total


def _lines(
    net: Net,
    memory: int,
    counted: Counted,
    asked: Fit | OutOfMemory,
    what: str,
    most: int,
    best: Fit | OutOfMemory | None,
) -> Iterator[str]:
    shape = " x ".join(map(str, net.input_shape))
    verdict = "fits" if isinstance(asked, Fit) else "does not fit"
    yield (
        f"{net.name}, input {shape}, optimizer {counted.optimizer}, {counted.dtype}: "
        f"{verdict} in {memory:,} bytes ({mebibytes(memory)} MiB)"
    )
    if isinstance(asked, Fit):
        yield ""
        for name, nbytes in _rows(asked):
            yield f"  {name:44} {nbytes:>16,} {mebibytes(nbytes):>12}"
        yield f"  {asked.says}"
    else:
        option = "--host-memory" if asked.step == "the host" else "--memory"
        yield f"the least {option} that works is {asked.least:,} ({asked.step})"
    yield ""
    yield f"{what}: {most or 'none'}"
    if isinstance(best, Fit):
        if what.startswith("N"):
            layers = 3 * (sum(DEEPER) + most) + 2
            yield f"  of {layers:,} convolutions and products in a row"
        yield f"  {best.total:,} bytes in all; {best.says}"
    yield ""
    yield f"not counted: {'; '.join(NOT_COUNTED)}"


def _report(
    net: Net,
    memory: int,
    counted: Counted,
    asked: Fit | OutOfMemory,
    deeper: bool,
    most: int,
    best: Fit | OutOfMemory | None,
) -> dict[str, Any]:
    def entry(fit: Fit | OutOfMemory | None) -> dict[str, Any] | None:
        if isinstance(fit, Fit):
            return {
                "fits": True,
                "resident": fit.resident,
                "extent_bytes": extent(fit.plan),
                "total_bytes": fit.total,
                "recompute": fit.options.recompute,
                "transfers": fit.options.transfers,
                "modelled": {
                    "device": fit.costs.source,
                    "seconds": simulate(fit.plan, fit.costs).seconds,
                },
            }
        if fit is None:
            return None
        return {"fits": False, "step": fit.step, "least_bytes": fit.least}

    return {
        "schema": "snref.fit/1",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "input": net.input_shape,
        "memory_bytes": memory,
        "host_memory_bytes": counted.host_memory,
        "optimizer": counted.optimizer,
        "dtype": counted.dtype,
        "unit": "bytes",
        "counts": "all device memory of a plan: resident tensors and its slab",
        "not_counted": NOT_COUNTED,
        "asked": entry(asked),
        "searched": "depth" if deeper else "batch",
        "largest": most,
        "at_largest": entry(best),
    }
