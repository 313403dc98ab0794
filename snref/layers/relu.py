"""Rectified linear unit."""

from dataclasses import dataclass

from snref.layers.base import Layer, Node
from snref.layers.shapes import one
from snref.plans import Launch, Shape, Work, grid_of


@dataclass(frozen=True)
class ReLU(Layer):
    """y = max(x, 0);  dx = dy where x > 0, else 0.

    x and y are positive at the same places: either tells where the gradient passes.
    The gradient takes y, which the backward of y's reader has mostly just used.

    Source: Krizhevsky et al. 2012, section 3.1.
    """

    def output_shape(self, *inputs: Shape) -> Shape:
        return one(inputs)

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        size = x.nbytes // 4
        return (
            Launch(
                "relu.forward",
                (y,),
                (x,),
                view="flat",
                may_overwrite=((y, x, "activations"),),
                grid=grid_of(size),
                flops=size,
                bytes_accessed=2 * x.nbytes,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y, dy, dx = node.x, node.y, node.dy, node.dx
        if dx is None:
            return ()
        size = x.nbytes // 4
        return (
            Launch(
                "relu.backward",
                (dx,),
                (y, dy),
                view="flat",
                retained=(x,) if node.declarations == "original" else (),
                may_overwrite=((dx, dy, "gradients"),),
                grid=grid_of(size),
                flops=size,
                bytes_accessed=3 * x.nbytes,
            ),
        )
