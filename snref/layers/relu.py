"""Rectified linear unit."""

from dataclasses import dataclass
from typing import ClassVar

from snref.layers.base import Layer, Node, elementwise
from snref.plans import Work


@dataclass(frozen=True)
class ReLU(Layer):
    """y = max(x, 0);  dx = dy where x > 0, else 0.

    x and y are positive at the same places: either tells where the gradient passes.
    The gradient reads y, which the backward of y's reader has mostly just used; or x,
    where that backward may have written its own gradient over y.

    Source: Krizhevsky et al. 2012, section 3.1.
    """

    gain: ClassVar[float] = 2**0.5  # it halves the mean square of what it is given

    def forward(self, node: Node) -> tuple[Work, ...]:
        return elementwise(
            "relu.forward", node.y, node.x, in_place=(node.x, "activations")
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        return elementwise(
            "relu.backward",
            node.dx,
            node.x if node.reuses else node.y,
            node.dy,
            retained=node.original(node.x),
            in_place=(node.dy, "gradients"),
        )
