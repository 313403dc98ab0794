"""Fully connected layer."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from snref.layers.base import Layer, Node, descend
from snref.layers.bias import add_bias, bias_gradient, weights
from snref.layers.shapes import one
from snref.layers.slices import images_of_slice
from snref.plans import Launch, Part, Shape, Tensor, Work

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
        return weights((self.outputs, prod(inputs[0][1:])), self.outputs, self.bias)

    def part_images(self, *inputs: Shape) -> int:
        return images_of_slice(1)

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, w = node.x, node.parameters["w"]
        tile = tile_for(x.shape[0])
        return (
            *product("forward", node.y, (x, w), w.shape[1], tile),
            *add_bias(node),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        w, dw = node.parameters["w"], node.parameter_gradients["w"]
        tile = tile_for(x.shape[0])
        if self.descends_at_once(node):
            dx_alone = product("data", dx, (dy, w), self.outputs, tile)
            return (*bias_gradient(node), *dx_alone)
        return (
            *product("filter", dw, (x, dy), x.shape[0], LARGE, node.resumes),
            *bias_gradient(node),
            *product("data", dx, (dy, w), self.outputs, tile),
        )

    def update(self, node: Node) -> tuple[Work, ...]:
        if not self.descends_at_once(node):
            return super().update(node)
        b = node.parameters.get("b")
        momenta, gradients = node.momenta, node.parameter_gradients
        biases = () if b is None else (descend(b, momenta["b"], gradients["b"]),)
        return (product_and_descent(node), *biases)

    def descends_at_once(self, node: Node) -> bool:
        """Return whether w is updated without memory for dw: where w is larger than x.

        The second paper's rule by size: of x and w, the smaller one's gradient comes
        first, into memory of its own, and the larger one's takes memory that is there.
        Where x is larger, dw is first and dx lies on x. Where w is, dx is first and dw
        is added to the momentum, element by element.
        """
        return node.is_static and node.parameters["w"].size > node.x.size


def product_and_descent(node: Node) -> Launch:
    """Launch the product dw and the step of w in one kernel, which keeps no dw."""
    x, dy, w = node.x, node.dy, node.parameters["w"]
    rows, columns = w.shape
    return Launch(
        "linear.descend_64x64",
        (w, node.momenta["w"]),
        (x, dy),
        ("learning_rate", "momentum", "weight_decay"),
        view="rows",
        updates=True,
        grid=tiles(rows, columns, LARGE),
        block=(SIDE, SIDE),
        flops=(2 * x.shape[0] + 6) * w.size,
    )


def product(
    part: Part,
    output: Tensor | None,
    inputs: tuple[Tensor, Tensor],
    terms: int,
    tile: tuple[int, int],
    resumes: bool = False,
) -> tuple[Launch, ...]:
    """Launch a matrix product whose elements are sums of so many terms.

    resumes  of a filter gradient: whether it goes on from what the output holds
    """
    if output is None:
        return ()
    rows, columns = output.shape[0], output.size // output.shape[0]
    return (
        Launch(
            f"linear.{part}_{tile[0]}x{tile[1]}",
            (output,),
            inputs,
            (int(resumes),) if part == "filter" else (),
            view="rows",
            updates=resumes,
            grid=tiles(rows, columns, tile),
            block=(SIDE, SIDE),
            flops=2 * rows * columns * terms,
        ),
    )


def tile_for(images: int) -> tuple[int, int]:
    """Return the tile that wastes least on so many images."""
    return SMALL if images <= 2 * SMALL[0] else LARGE


def tiles(rows: int, columns: int, tile: tuple[int, int]) -> tuple[int, int]:
    """Return the grid of a product of so many rows and columns, columns first.

    >>> tiles(100, 1000, LARGE)
    (16, 2)
    """
    return -(-columns // tile[1]), -(-rows // tile[0])
