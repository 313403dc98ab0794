"""Where a plan runs: what every device can do.

A device prepares each piece of work once, as a command, and runs the command as often
as it is asked to. On a device that copies while it computes, ``order`` says which
commands wait for which others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from snref.device.order import Stream
from snref.plans import Launch, Shape, Tensor

if TYPE_CHECKING:  # planning does without numpy
    from numpy.typing import NDArray

Buffer: TypeAlias = Any  # a tensor's bytes on a device; it has a shape
Values: TypeAlias = Mapping[str, int | float]  # of the scalars that launches name
Command: TypeAlias = Callable[[Values], object]
Pieces: TypeAlias = Sequence[tuple[int, int]]  # of the host's memory: offset, bytes


class Device(Protocol):
    """A slab of memory, kernels, and copies to and from the memory of the host.

    Commands may return before their work is done; ``synchronize`` waits for all of it.

    slab            bytes of device memory that plans place tensors in
    host            bytes of host memory that plans copy tensors to
    in_use          bytes of the slab in use, each tensor rounded up to 256
    resident_bytes  bytes of device memory outside the slab, of all residents
    asynchronous    whether copies run beside kernels, so that commands have to wait
    """

    slab: int
    host: int
    in_use: int
    resident_bytes: int
    asynchronous: bool

    def resident(self, array: "NDArray[Any]") -> Buffer:
        """Copy an array to memory outside the slab; return the buffer."""
        ...

    def first(self, buffer: Buffer, shape: Shape) -> Buffer:
        """Return the first elements of a resident buffer, under another shape."""
        ...

    def view(self, tensor: Tensor, offset: int) -> Buffer:
        """Return the tensor's bytes in the slab, which begin at this offset.

        Raises ValueError if they do not lie in the slab.
        """
        ...

    def read(self, buffer: Buffer) -> "NDArray[Any]":
        """Wait until everything issued is done; return a copy of a buffer's values."""
        ...

    def write(self, buffer: Buffer, array: "NDArray[Any]") -> None:
        """Overwrite a buffer's values."""
        ...

    def prepare(self, launches: Iterable[Launch], values: Values) -> None:
        """Begin to compile the kernels of launches to come, on other cores."""
        ...

    def launch(self, launch: Launch, buffers: Sequence[Buffer]) -> Command:
        """Prepare the launch of a kernel on its outputs, inputs and scalars."""
        ...

    def to_host(self, buffer: Buffer, pieces: Pieces) -> Command:
        """Prepare a copy of a buffer to pieces of the host's memory."""
        ...

    def to_device(self, buffer: Buffer, pieces: Pieces) -> Command:
        """Prepare a copy from pieces of the host's memory to a buffer."""
        ...

    def free(self, buffer: Buffer) -> Command:
        """Prepare what becomes of a tensor's bytes when the plan frees them."""
        ...

    def ordered(self, after: "Stream", before: "Stream") -> tuple[Command, Command]:
        """Prepare two commands, that record an event and wait for it.

        What is issued to the stream ``before`` after the second command begins when
        all is done that was issued to ``after`` before the first.
        """
        ...

    def synchronize(self) -> None:
        """Wait until everything issued is done."""
        ...

    def now(self) -> float:
        """Return seconds on the device's clock, from an arbitrary start."""
        ...
