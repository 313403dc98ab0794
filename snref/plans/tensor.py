"""A tensor is a value of the net: its name, its shape, what it is for. Never data."""

from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = Literal["float32", "int32", "float16"]
Kind: TypeAlias = Literal[
    "input",  # the images and the labels of a batch
    "activation",  # y: the output of a layer's forward
    "gradient",  # dy: the derivative of the loss by an activation
    "workspace",  # scratch of a convolution algorithm
    "parameter",
    "parameter_gradient",
    "momentum",
    "state",  # resident and small: batch means, running statistics, the loss
]

ALIGNMENT = 256  # bytes; where cudaMalloc places and what coalesced access likes
ITEM_BYTES = {"float32": 4, "int32": 4, "float16": 2}
SCHEDULED = frozenset(("activation", "gradient", "workspace"))


def aligned(nbytes: int) -> int:
    """Round bytes up to the alignment of the device, 256.

    >>> aligned(1), aligned(256), aligned(257)
    (256, 256, 512)
    """
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value of the net: what it is called, how large it is. Never the data.

    Two tensors are the same only if they are the same object: names are for people.

    >>> Tensor("conv1.y", (200, 96, 55, 55)).nbytes
    232320000
    """

    name: str
    shape: Shape
    kind: Kind = "activation"
    dtype: DType = "float32"
    nbytes: int = field(init=False, repr=False)
    aligned_bytes: int = field(
        init=False, repr=False
    )  # nbytes, rounded up to the alignment
    scheduled: bool = field(init=False, repr=False)  # the rest stays on the device

    def __post_init__(self) -> None:
        nbytes = ITEM_BYTES[self.dtype] * prod(self.shape)
        object.__setattr__(self, "nbytes", nbytes)
        object.__setattr__(self, "aligned_bytes", aligned(nbytes))
        object.__setattr__(self, "scheduled", self.kind in SCHEDULED)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def is_data(self) -> bool:
        """Whether the papers count it: a layer's output or a data gradient."""
        return self.kind in ("activation", "gradient")
