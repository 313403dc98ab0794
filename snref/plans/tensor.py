"""A tensor is a value of the net: its name, its shape, what it is for. Never data."""

from math import prod
from typing import Final, Literal, TypeAlias

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


class Tensor:
    """A value of the net: what it is called, how large it is. Never the data.

    Two tensors are the same only if they are the same object: names are for people.

    size           elements
    nbytes         bytes; aligned_bytes: the same rounded up
    scheduled      whether a plan allocates and frees it; the rest stays on the device
    is_data        whether the papers count it: a y or a dy

    >>> Tensor("conv1.y", (200, 96, 55, 55)).nbytes
    232320000
    """

    __slots__ = (
        *("name", "shape", "kind", "dtype"),
        *("size", "nbytes", "aligned_bytes", "scheduled", "is_data"),
    )

    def __init__(
        self,
        name: str,
        shape: Shape,
        kind: Kind = "activation",
        dtype: DType = "float32",
    ) -> None:
        size = prod(shape)
        nbytes = ITEM_BYTES[dtype] * size
        self.name: Final = name
        self.shape: Final = shape
        self.kind: Final = kind
        self.dtype: Final = dtype
        self.size: Final = size
        self.nbytes: Final = nbytes
        self.aligned_bytes: Final = aligned(nbytes)
        self.scheduled: Final = kind in SCHEDULED
        self.is_data: Final = kind in DATA

    def __repr__(self) -> str:
        settings = f"kind={self.kind!r}, dtype={self.dtype!r}"
        return f"Tensor(name={self.name!r}, shape={self.shape!r}, {settings})"
