"""Where a plan runs: the methods that every device has.

Overlap is the device's business, and one rule gives it: a copy waits for the compute
issued before it; a launch waits for the copies of the tensors it touches; the memory
of a released tensor waits for its copy out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from snref.plans import Launch, Shape, Tensor

if TYPE_CHECKING:  # planning does without numpy
    from numpy.typing import NDArray

Buffer: TypeAlias = Any  # a tensor's bytes on the device, as the device likes them
HostCopy: TypeAlias = Any  # and on the host


class Device(Protocol):
    """A slab of memory, kernels, and copies to and from the host.

    Calls may return before their work is done; ``synchronize`` waits for all of it.

    slab            bytes that there are
    in_use          bytes viewed and not yet released, each tensor rounded up to 256
    resident_bytes  bytes outside the slab, of all that ``resident`` was given
    """

    slab: int
    in_use: int
    resident_bytes: int

    def resident(self, array: "NDArray[Any]") -> Buffer:
        """A buffer outside the slab, for what the scheduler does not allocate."""
        ...

    def first(self, buffer: Buffer, shape: Shape) -> Buffer:
        """The first elements of a resident buffer, under another shape."""
        ...

    def read(self, buffer: Buffer) -> "NDArray[Any]":
        """A copy of what a buffer holds, once all that was issued is done."""
        ...

    def write(self, buffer: Buffer, array: "NDArray[Any]") -> None:
        """Overwrite what a buffer holds."""
        ...

    def view(self, tensor: Tensor, offset: int) -> Buffer:
        """The tensor's bytes, from this offset of the slab on."""
        ...

    def prepare(
        self, launches: Iterable[Launch], values: Mapping[str, int | float]
    ) -> None:
        """Make ready for launches to come; values are of scalars given by name."""
        ...

    def launch(
        self,
        launch: Launch,
        buffers: Sequence[Buffer],
        scalars: Sequence[int | float],
    ) -> None:
        """Run a kernel on its outputs, then its inputs, then its scalars."""
        ...

    def to_host(self, tensor: Tensor, buffer: Buffer) -> HostCopy:
        """Begin the copy to the host."""
        ...

    def to_device(self, host: HostCopy, tensor: Tensor, buffer: Buffer) -> None:
        """Begin the copy back."""
        ...

    def release(self, tensor: Tensor, buffer: Buffer) -> None:
        """Take the bytes back; others may have them once no copy reads them."""
        ...

    def synchronize(self) -> None:
        """Wait until everything issued is done."""
        ...

    def now(self) -> float:
        """Seconds on the device's clock, from an arbitrary start."""
        ...
