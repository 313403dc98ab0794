"""An iteration: a plan for batches of one size, and the buffers it works on."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.device import Buffer, Device, Values
from snref.net import Net
from snref.planning.reports import RESIDENT
from snref.plans import Launch, Plan, Run, Tensor, memory
from snref.training.execution import Execution

Array: TypeAlias = NDArray[Any]


class NotFinite(ArithmeticError):
    """A number became infinite or NaN. Names the iteration and the first tensor."""


class Iteration:
    """A plan on a device, which trains or evaluates a net on a batch.

    residents  the buffers of resident tensors, by name. They may be those of a larger
               batch: then the smaller tensors use the beginning of its buffers.
    """

    def __init__(
        self, net: Net, plan: Plan, device: Device, residents: Mapping[str, Buffer]
    ) -> None:
        self.net, self.plan, self.device = net, plan, device
        self.peak = 0  # bytes of the slab in use at most, as the device counted them
        self._predicted = tuple(memory(plan, workspace=True))
        self._residents: dict[Tensor, Buffer] = {}
        for tensor in net.tensors(*RESIDENT):
            buffer = residents[tensor.name]
            if buffer.shape != tensor.shape:
                buffer = device.first(buffer, tensor.shape)
            self._residents[tensor] = buffer
        last = net.nodes[-1]
        self._images = self._residents[net.nodes[0].x]
        self._labels = self._residents[last.saved["labels"]]
        self._loss = self._residents[last.saved["loss"]]
        self._probabilities = last.y
        self._execution = Execution(plan, device, self._residents)
        # The steps before the first update compute the loss and change no parameter.
        # Another planner may put updates between backward runs, but not before the
        # loss; only running statistics could be updated so early.
        runs = {i: step for i, step in enumerate(plan.steps) if isinstance(step, Run)}
        loss = next(i for i, run in runs.items() if run.layer == last.name)
        updates = [i for i, run in runs.items() if run.phase == "update" and i > loss]
        self._first_update = min(updates, default=max(runs) + 1)

    def launches(self) -> Iterator[Launch]:
        """Yield all launches of the plan, in order."""
        for step in self.plan.steps:
            if isinstance(step, Run):
                yield from step.launches

    def train(self, images: Array, labels: Array, values: Values) -> float:
        """Train on a batch, and return its loss.

        values   the scalars that launches name (``RUN_VALUES``)

        Raises NotFinite if the loss is infinite or NaN; no parameter has changed then.
        """
        self._begin(images, labels, values)
        loss = float(self.device.read(self._loss)[0])
        if not np.isfinite(loss):
            self._execution.abandon()
            raise NotFinite(
                f"iteration {values['iteration'] + 1}: the loss is {loss}; "
                f"{self._first_fault(values)}"
            )
        self._end(values)
        return loss

    def evaluate(self, images: Array, labels: Array, values: Values) -> Array:
        """Return the probabilities of a batch, of shape (N, classes)."""
        self._begin(images, labels, values)
        found = self.device.read(self._execution.buffers[self._probabilities])
        self._end(values)
        return found.reshape(len(images), -1)

    def _begin(self, images: Array, labels: Array, values: Values) -> None:
        self.device.write(self._images, images)
        self.device.write(self._labels, labels)
        self._execution.restart()
        self._execution.run(values, self._first_update)

    def _end(self, values: Values) -> None:
        self._execution.run(values)
        trace = self._execution.trace()
        if trace.nbytes != self._predicted:
            raise AssertionError("the device counted other bytes than were planned")
        self.peak = max(self.peak, trace.peak)

    def _first_fault(self, values: Values) -> str:
        """Compute the iteration again, and name the first tensor that is not finite."""
        for tensor, buffer in self._residents.items():
            if tensor.kind == "parameter" and not self._finite(buffer):
                return f"{tensor.name} is not finite since the update before"
        execution = self._execution
        try:
            for position, step in enumerate(self.plan.steps[: self._first_update]):
                execution.run(values, position + 1)
                if not isinstance(step, Run):
                    continue
                for tensor in step.writes:
                    buffer = execution.buffers[tensor]
                    if tensor.kind != "workspace" and not self._finite(buffer):
                        return (
                            f"the first tensor with a value that is not finite is "
                            f"{tensor.name}, of {step.layer} {step.phase}"
                        )
        finally:
            execution.abandon()
        return "every tensor before it is finite"

    def _finite(self, buffer: Buffer) -> bool:
        return bool(np.isfinite(self.device.read(buffer)).all())


def classes(net: Net) -> int:
    """Return how many classes the loss of a net distinguishes."""
    return prod(net.nodes[-1].x.shape[1:])
