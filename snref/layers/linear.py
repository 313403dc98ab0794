"""Fully connected layer."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.bias import add_bias, bias_gradient
from snref.layers.shapes import one
from snref.plans import Launch, Shape, Work

SIDE = 16  # a block is 16 x 16 threads; what it computes is in its kernel's name
LARGE = (64, 64)
SMALL = (16, 256)  # for batches so small that a larger tile would be mostly empty


@dataclass(frozen=True)
class Linear(Layer):
    """Every output is a weighted sum of all inputs of its image.

    forward    y[n,k] = b[k] + sum_c x[n,c] w[k,c]
    backward   dw[k,c] = sum_n dy[n,k] x[n,c];  db[k] = sum_n dy[n,k]
               dx[n,c] = sum_k dy[n,k] w[k,c]

    c runs over all values of an image, whatever its shape.

    Source: Rumelhart et al. 1986.
    """

    outputs: int
    bias: bool = True

    checkpoint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.outputs < 1:
            raise ValueError(f"outputs {self.outputs}: must be >= 1")

    def output_shape(self, *inputs: Shape) -> Shape:
        return (one(inputs)[0], self.outputs)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        shapes: dict[str, Shape] = {"w": (self.outputs, prod(inputs[0][1:]))}
        if self.bias:
            shapes["b"] = (self.outputs,)
        return shapes

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, w = node.x, node.y, node.parameters["w"]
        outputs, inputs = w.shape
        tile = tile_for(x.shape[0])
        product = Launch(
            f"linear.forward_{tile[0]}x{tile[1]}",
            (y,),
            (x, w),
            view="rows",
            grid=tiles(x.shape[0], outputs, tile),
            block=(SIDE, SIDE),
            flops=2 * x.shape[0] * outputs * inputs,
        )
        return (product, *add_bias(node))

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        w, dw = node.parameters["w"], node.parameter_gradients["w"]
        outputs, inputs = w.shape
        flops = 2 * x.shape[0] * outputs * inputs
        filter_gradient = Launch(
            "linear.filter_64x64",
            (dw,),
            (x, dy),
            view="rows",
            grid=tiles(outputs, inputs, LARGE),
            block=(SIDE, SIDE),
            flops=flops,
        )
        if dx is None:
            return (filter_gradient, *bias_gradient(node))
        tile = tile_for(x.shape[0])
        data_gradient = Launch(
            f"linear.data_{tile[0]}x{tile[1]}",
            (dx,),
            (dy, w),
            view="rows",
            may_overwrite=((dx, x, "activations"),),
            grid=tiles(x.shape[0], inputs, tile),
            block=(SIDE, SIDE),
            flops=flops,
        )
        return (filter_gradient, *bias_gradient(node), data_gradient)


def tile_for(images: int) -> tuple[int, int]:
    """The tile that wastes least on so many images."""
    return SMALL if images <= 2 * SMALL[0] else LARGE


def tiles(rows: int, columns: int, tile: tuple[int, int]) -> tuple[int, int]:
    """Blocks for a product of so many rows and columns, columns first.

    >>> tiles(100, 1000, LARGE)
    (16, 2)
    """
    return -(-columns // tile[1]), -(-rows // tile[0])
