"""Dropout."""

from dataclasses import dataclass

from snref.layers.base import Layer, Node
from snref.layers.shapes import one
from snref.plans import Launch, Shape, Work, grid_of


@dataclass(frozen=True)
class Dropout(Layer):
    """y = m x / (1 - ratio);  dx = m dy / (1 - ratio);  m = 0 with probability ratio.

    The mask m is not stored: it is a function of seed, layer, iteration and element,
    so that a forward that runs again draws the same one.

    Source: Srivastava et al. 2014, scaled in training as in their section 10.
    """

    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < 1:
            raise ValueError(f"ratio {self.ratio}: must be >= 0 and < 1")

    def output_shape(self, *inputs: Shape) -> Shape:
        return one(inputs)

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        size = x.nbytes // 4
        return (
            Launch(
                "dropout.forward",
                (y,),
                (x,),
                ("seed", node.number, "iteration", self.ratio),
                view="flat",
                may_overwrite=((y, x, "activations"),),
                grid=grid_of((size + 3) // 4),
                flops=size,
                bytes_accessed=2 * x.nbytes,
            ),
        )

    def inference(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        return (
            Launch(
                "joins.copy",
                (y,),
                (x,),
                view="flat",
                may_overwrite=((y, x, "activations"),),
                grid=grid_of(x.nbytes // 4),
                bytes_accessed=2 * x.nbytes,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        if dx is None:
            return ()
        size = x.nbytes // 4
        return (
            Launch(
                "dropout.backward",
                (dx,),
                (dy,),
                ("seed", node.number, "iteration", self.ratio),
                view="flat",
                # The original does not write this gradient in place.
                may_overwrite=((dx, dy, "activations"),),
                grid=grid_of((size + 3) // 4),
                flops=size,
                bytes_accessed=2 * x.nbytes,
            ),
        )
