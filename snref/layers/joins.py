"""Joins: layers with several inputs. Their sum, or one after another."""

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from snref.layers.base import Layer, Node, elementwise
from snref.layers.shapes import rows, several
from snref.plans import Launch, Overwrite, Shape, Tensor, Work, grid_of


@dataclass(frozen=True)
class Add(Layer):
    """y = sum_i x_i, in the order of the inputs;  dx_i = dy.

    Source: He et al. 2016, section 3.2.
    """

    checkpoint: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        shape, *others = several(inputs)
        for other in others:
            if other != shape:
                raise ValueError(f"inputs of shapes {shape} and {other}: must be equal")
        return shape

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        return total(node.y, node.xs, "activations")

    def backward(self, node: Node) -> tuple[Work, ...]:
        dy, first, *others = node.dy, *node.dxs
        copies = [elementwise("joins.copy", dx, dy, flops=0) for dx in others]
        # The first gradient may lie on dy itself, so it comes last.
        last = elementwise("joins.copy", first, dy, in_place=(dy, "gradients"), flops=0)
        return (*(launch for copy in copies for launch in copy), *last)


@dataclass(frozen=True)
class Concat(Layer):
    """The channels of all inputs, one input after another, image by image.

    forward    y[n,o_i+c] = x_i[n,c]       (o_i: channels of the inputs before)
    backward   dx_i[n,c] = dy[n,o_i+c]

    Source: Szegedy et al. 2015, section 4.
    """

    checkpoint: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        shape, *others = several(inputs)
        for other in others:
            if (other[0], *other[2:]) != (shape[0], *shape[2:]):
                raise ValueError(
                    f"inputs of shapes {shape} and {other}: must be equal but for the "
                    "channels"
                )
        return (shape[0], sum(x[1] for x in inputs), *shape[2:])

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        count = len(node.xs)
        return tuple(
            part("joins.concat", node.y, x, x, offset, (i, count))
            for i, (x, offset) in enumerate(zip(node.xs, offsets(node.xs), strict=True))
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        return tuple(
            part("joins.split", dx, node.dy, dx, offset)
            for dx, offset in zip(node.dxs, offsets(node.xs), strict=True)
            if dx is not None
        )


def part(
    kernel: str,
    output: Tensor,
    source: Tensor,
    smaller: Tensor,
    offset: int,
    portion: tuple[int, int] | None = None,
) -> Launch:
    """Copy the smaller tensor to or from its place in every image of the other."""
    images, size = smaller.shape[0], smaller.size
    return Launch(
        kernel,
        (output,),
        (source,),
        (offset,),
        view="rows",
        portion=portion,
        grid=(*grid_of(size // images), rows(images)),
        bytes_accessed=2 * smaller.nbytes,
    )


def total(y: Tensor, xs: tuple[Tensor, ...], setting: Overwrite) -> tuple[Launch, ...]:
    """Compute y = x_0 + x_1 + ..., added from left to right; y may lie on x_0."""
    launches = elementwise("joins.add", y, *xs[:2], in_place=(xs[0], setting))
    for x in xs[2:]:
        launches += elementwise("joins.accumulate", y, x, updates=True)
    return launches


def offsets(xs: tuple[Tensor, ...]) -> list[int]:
    """Return where in an image of the output the values of every input begin."""
    return list(accumulate((x.size // x.shape[0] for x in xs[:-1]), initial=0))
