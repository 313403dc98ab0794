"""Dropout."""

from dataclasses import dataclass

from snref.layers.base import Layer, Node, elementwise
from snref.plans import Scalar, Shape, Tensor, Work


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

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        return self._drop("dropout.forward", node, node.y, node.x)

    def inference(self, node: Node) -> tuple[Work, ...]:
        x = node.x
        return elementwise(
            "joins.copy", node.y, x, in_place=(x, "activations"), flops=0
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        # The original does not write this gradient in place.
        return self._drop("dropout.backward", node, node.dx, node.dy)

    def _drop(
        self, kernel: str, node: Node, output: Tensor | None, source: Tensor
    ) -> tuple[Work, ...]:
        scalars: tuple[Scalar, ...] = ("seed", node.number, "iteration", self.ratio)
        if node.part is not None:  # elements are counted over the whole batch
            kernel = f"{kernel}_part"
            size = source.size // node.part.images
            scalars += (node.part.first * size, node.part.batch * size)
        return elementwise(
            kernel,
            output,
            source,
            scalars=scalars,
            in_place=(source, "activations"),
            per_thread=4 if node.part is None else 1,
        )
