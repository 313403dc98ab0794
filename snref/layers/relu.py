"""Rectified linear unit."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from snref.layers.base import Layer, Node, elementwise
from snref.plans import Shape, Work

BITS = 32  # of a word of signs


@dataclass(frozen=True)
class ReLU(Layer):
    """y = max(x, 0);  dx = dy where x > 0, else 0.

    x and y are positive at the same places: either tells where the gradient passes.
    The gradient reads y, which the backward of y's reader has mostly just used; or x,
    where that backward may have written its own gradient over y; or, under static
    declarations, where y itself lies on x, a bit for each element, which is taken from
    y before that.

    Source: Krizhevsky et al. 2012, section 3.1.
    """

    gain: ClassVar[float] = 2**0.5  # it halves the mean square of what it is given

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        return elementwise(
            "relu.forward", node.y, node.x, in_place=(node.x, "activations")
        )

    def scratch_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"signs": (-(-prod(inputs[0]) // BITS),)}

    def backward(self, node: Node) -> tuple[Work, ...]:
        if node.is_static and node.dx is not None:
            signs = node.scratch["signs"]
            return (
                *elementwise("relu.signs", signs, node.y, flops=BITS),
                *elementwise(
                    "relu.backward_by_signs",
                    node.dx,
                    signs,
                    node.dy,
                    in_place=(node.dy, "gradients"),
                    per_thread=BITS,
                ),
            )
        return elementwise(
            "relu.backward",
            node.dx,
            node.x if node.reuses else node.y,
            node.dy,
            retained=node.original(node.x),
            in_place=(node.dy, "gradients"),
        )
