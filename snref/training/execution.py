"""Execution: the steps of a plan, one after the other, on a device.

No decision is made here. All of them stand in the plan, and the bytes in use on the
device are those that the plan predicted, step by step.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from snref.device import Buffer, Command, Device, Pieces, Values
from snref.device.host import place_on_host
from snref.device.order import Order, ordered, stream_of
from snref.plans import Alloc, Free, Launch, Offload, Plan, Prefetch, Run, Step, Tensor


@dataclass(frozen=True)
class Trace:
    """What was measured while a plan ran, a number a step.

    nbytes   bytes of the slab in use once the step was issued
    seconds  the device's clock when it was, from the plan's first step
    """

    nbytes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def peak(self) -> int:
        """The largest number of bytes in use."""
        return max(self.nbytes, default=0)


class LaunchError(RuntimeError):
    """A kernel could not be compiled or launched. Names the layer and the kernel."""


def execute(
    plan: Plan,
    device: Device,
    residents: Mapping[Tensor, Buffer],
    values: Values | None = None,
) -> Trace:
    """Run a placed plan once.

    residents  buffers of all that the scheduler does not allocate: parameters, their
               gradients and momenta, states, the batch; launches write into them
    values     of the names that launches give as scalars: iteration, learning_rate ...

    Raises KeyError if a resident or a value is missing, and ValueError for an address
    outside the device's slab.
    """
    execution = Execution(plan, device, residents)
    execution.run(values or {})
    return execution.trace()


class Execution:
    """A plan made ready on a device, to be run any number of times.

    Each step becomes a few commands once; a run issues them in order.
    """

    def __init__(
        self, plan: Plan, device: Device, residents: Mapping[Tensor, Buffer]
    ) -> None:
        self.plan, self.device = plan, device
        self.buffers = dict(residents)  # where tensors are at the step under way
        on_host = place_on_host(plan.steps)
        if on_host.nbytes > device.host:
            raise MemoryError(
                f"the plan copies {on_host.nbytes} bytes to the host, and the device "
                f"was given {device.host} there"
            )
        calls = [launch for run in plan.runs() for launch in run.launches]
        self._names = {s for call in calls for s in call.scalars if isinstance(s, str)}
        self._commands = list(self._prepared(residents, on_host.pieces))
        if device.asynchronous:
            self._add_waits(ordered(plan.steps, on_host.pieces))
        self.restart()

    def restart(self) -> None:
        """Begin with the plan's first step again."""
        self.position = 0
        self._nbytes: list[int] = []
        self._seconds: list[float] = []
        self._start = self.device.now()

    def run(self, values: Values, until: int | None = None) -> None:
        """Issue the next steps, up to but not including the one at ``until``."""
        if missing := self._names - values.keys():
            raise KeyError(", ".join(sorted(missing)))
        device = self.device
        for commands in self._commands[self.position : until]:
            for command in commands:
                command(values)
            self._nbytes.append(device.in_use)
            self._seconds.append(device.now() - self._start)
            self.position += 1

    def abandon(self) -> None:
        """Free all that is allocated, as if the plan ended here."""
        self.device.synchronize()
        self.device.in_use = 0
        for tensor in [t for t in self.buffers if t.scheduled]:
            del self.buffers[tensor]
        self.restart()

    def trace(self) -> Trace:
        """Return what was measured, once all is done."""
        self.device.synchronize()
        return Trace(tuple(self._nbytes), tuple(self._seconds))

    def _prepared(
        self, residents: Mapping[Tensor, Buffer], pieces: Mapping[Step, Pieces]
    ) -> Iterator[list[Command]]:
        """Yield the commands of each step, in order."""
        device, places = self.device, dict(residents)
        for step in self.plan.steps:
            match step:
                case Run():
                    yield [
                        _launch(device, step, launch, places)
                        for launch in step.launches
                    ]
                case Alloc(tensor, offset):
                    if offset is None:
                        raise ValueError(f"{tensor.name} has no address yet")
                    places[tensor] = device.view(tensor, offset)
                    yield [
                        partial(_allocate, device, self.buffers, tensor, places[tensor])
                    ]
                case Free(tensor):
                    gone = partial(_free, device, self.buffers, tensor)
                    yield [device.free(places.pop(tensor)), gone]
                case Offload(tensor):
                    yield [device.to_host(places[tensor], pieces[step])]
                case Prefetch(tensor):
                    yield [device.to_device(places[tensor], pieces[step])]

    def _add_waits(self, order: Order) -> None:
        """Add the commands by which streams wait for each other."""
        steps, end = self.plan.steps, len(self.plan.steps)
        streams = {i: stream_of(step) for i, step in enumerate(steps)}
        streams[end] = "compute"
        before: dict[int, list[Command]] = defaultdict(list)
        after: dict[int, list[Command]] = defaultdict(list)
        for position, waits in enumerate((*order.waits, order.last)):
            for earlier in waits:
                record, wait = self.device.ordered(streams[earlier], streams[position])
                after[earlier].append(record)
                before[position].append(wait)
        for position, commands in enumerate(self._commands):
            commands[:] = before[position] + commands + after[position]
        if steps:
            self._commands[-1] += before[end]


# Functions, not methods: commands that held their Execution would be a cycle, and the
# memory of a GPU would wait for the garbage collector.


def _allocate(
    device: Device,
    buffers: dict[Tensor, Buffer],
    tensor: Tensor,
    buffer: Buffer,
    values: Values,
) -> None:
    buffers[tensor] = buffer
    device.in_use += tensor.aligned_bytes


def _free(
    device: Device, buffers: dict[Tensor, Buffer], tensor: Tensor, values: Values
) -> None:
    del buffers[tensor]
    device.in_use -= tensor.aligned_bytes


def _launch(
    device: Device, run: Run, launch: Launch, places: Mapping[Tensor, Buffer]
) -> Command:
    """Prepare a launch that is named by what goes wrong with it."""
    buffers = [places[tensor] for tensor in launch.outputs + launch.inputs]

    def failed(error: Exception) -> LaunchError:
        where = f"layer {run.layer!r}, {run.phase}: kernel {launch.kernel_name}"
        return LaunchError(f"{where}: {error}")

    try:
        command = device.launch(launch, buffers)
    except Exception as error:
        raise failed(error) from error

    def call(values: Values) -> None:
        try:
            command(values)
        except Exception as error:
            raise failed(error) from error

    return call
