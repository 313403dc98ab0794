"""Fork: a value that several layers read."""

from dataclasses import dataclass
from typing import ClassVar

from snref.layers.base import Layer, Node, elementwise
from snref.layers.joins import total
from snref.plans import Shape, Tensor, Work


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

    def output_tensors(self, name: str, xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not self.copies:
            return xs * self.branches
        return tuple(Tensor(f"{name}.y{i}", xs[0].shape) for i in range(self.branches))

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        copied = node.ys if self.copies else ()
        return sum((elementwise("joins.copy", y, node.x, flops=0) for y in copied), ())

    def backward(self, node: Node) -> tuple[Work, ...]:
        return () if node.dx is None else total(node.dx, node.dys, "gradients")
