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
    "merged_gradient",  # of a parameter, too; used at once, so that all can share bytes
    "momentum",
    "state",  # resident and small: batch means, running statistics, the loss
]

ALIGNMENT = 256  # bytes; where cudaMalloc places and what coalesced access likes
ITEM_BYTES = {"float32": 4, "int32": 4, "float16": 2}
DATA = frozenset(("activation", "gradient"))
SCHEDULED = DATA | {"workspace", "merged_gradient"}
DW = frozenset(("parameter_gradient", "merged_gradient"))


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
    aligned_bytes: int = field(init=False, repr=False)  # nbytes, rounded up
    scheduled: bool = field(init=False, repr=False)  # the rest stays on the device
    is_data: bool = field(init=False, repr=False)  # the papers count it: y or dy

    def __post_init__(self) -> None:
        nbytes = ITEM_BYTES[self.dtype] * prod(self.shape)
        set_field = object.__setattr__  # the class is frozen
        set_field(self, "nbytes", nbytes)
        set_field(self, "aligned_bytes", aligned(nbytes))
        set_field(self, "scheduled", self.kind in SCHEDULED)
        set_field(self, "is_data", self.kind in DATA)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)
