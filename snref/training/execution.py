"""Execution: the steps of a plan, one after the other, on a device.

No decision is made here. All of them stand in the plan, and the bytes that the device
counts are the bytes that the plan predicted, step by step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from snref.device import Buffer, Device, HostCopy
from snref.plans import Alloc, Free, Offload, Plan, Prefetch, Run, Step, Tensor


@dataclass(frozen=True)
class Trace:
    """What a device measured, a number a step.

    nbytes   bytes of the slab in use once the step was issued
    seconds  the device's clock when it was, from the plan's first step
    """

    nbytes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def peak(self) -> int:
        """The largest number of bytes in use."""
        return max(self.nbytes, default=0)


def execute(
    plan: Plan,
    device: Device,
    residents: Mapping[Tensor, Buffer],
    values: Mapping[str, int | float] | None = None,
) -> Trace:
    """Run a placed plan once.

    residents  buffers of all that the scheduler does not allocate: parameters, their
               gradients and momenta, states, the batch; launches write into them
    values     of the names that launches give as scalars: iteration, learning_rate ...

    Raises KeyError if a resident or a value is missing, and ValueError for an address
    outside the device's slab.
    """
    execution = Execution(device, residents, values or {})
    execution.run(plan.steps)
    return execution.trace()


class LaunchError(RuntimeError):
    """A kernel could not be compiled or launched. Names the layer and the kernel."""


class Execution:
    """A plan under way: where its tensors are, on the device and on the host."""

    def __init__(
        self,
        device: Device,
        residents: Mapping[Tensor, Buffer],
        values: Mapping[str, int | float],
    ) -> None:
        self.device = device
        self.values = values
        self.buffers = dict(residents)
        self.hosts: dict[Tensor, HostCopy] = {}
        self.nbytes: list[int] = []
        self.seconds: list[float] = []
        self.start = device.now()

    def run(self, steps: Iterable[Step]) -> None:
        """Execute the next steps."""
        device, buffers, hosts = self.device, self.buffers, self.hosts
        for step in steps:
            match step:
                case Run():
                    for launch in step.launches:
                        arguments = [buffers[t] for t in launch.outputs + launch.inputs]
                        scalars = [self.value(scalar) for scalar in launch.scalars]
                        try:
                            device.launch(launch, arguments, scalars)
                        except Exception as error:
                            raise LaunchError(
                                f"layer {step.layer!r}, {step.phase}: kernel "
                                f"{launch.kernel_name}: {error}"
                            ) from error
                case Alloc(tensor, offset):
                    if offset is None:
                        raise ValueError(f"{tensor.name} has no address yet")
                    buffers[tensor] = device.view(tensor, offset)
                case Free(tensor):
                    device.release(tensor, buffers.pop(tensor))
                case Offload(tensor):
                    hosts[tensor] = device.to_host(tensor, buffers[tensor])
                case Prefetch(tensor):
                    device.to_device(hosts[tensor], tensor, buffers[tensor])
            self.nbytes.append(device.in_use)
            self.seconds.append(device.now() - self.start)

    def value(self, scalar: int | float | str) -> int | float:
        """A scalar of a launch, looked up if it is a name."""
        return self.values[scalar] if isinstance(scalar, str) else scalar

    def abandon(self) -> None:
        """Release all that is allocated, as if the plan ended here."""
        for tensor in [t for t in self.buffers if t.scheduled]:
            self.device.release(tensor, self.buffers.pop(tensor))

    def trace(self) -> Trace:
        """What was measured so far, once it is done."""
        self.device.synchronize()
        return Trace(tuple(self.nbytes), tuple(self.seconds))
