"""Fork: a value that several layers read."""

from dataclasses import dataclass
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.joins import total
from snref.layers.shapes import one
from snref.plans import Launch, Shape, Work, grid_of


@dataclass(frozen=True)
class Fork(Layer):
    """y_i = x;  dx = sum_i dy_i, in the order of the branches.

    With copies every branch gets a tensor of its own, as in the original; without,
    every y_i is x itself, and forward has nothing to do.

    Source: Wang et al. 2018 (SuperNeurons), figure 1.
    """

    branches: int
    copies: bool = True

    checkpoint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.branches < 2:
            raise ValueError(f"branches {self.branches}: must be >= 2")

    def output_shape(self, *inputs: Shape) -> Shape:
        return one(inputs)

    def forward(self, node: Node) -> tuple[Work, ...]:
        if not self.copies:
            return ()
        x = node.x
        return tuple(
            Launch(
                "joins.copy",
                (y,),
                (x,),
                view="flat",
                grid=grid_of(x.nbytes // 4),
                bytes_accessed=2 * x.nbytes,
            )
            for y in node.ys
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        dx, dys = node.dx, node.dys
        if dx is None:
            return ()
        return total(dx, dys, "gradients")
