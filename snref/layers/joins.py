"""Joins: layers with several inputs. Their sum, or one after another."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from snref.layers.base import Layer, Node
from snref.layers.shapes import rows, several
from snref.plans import Launch, Shape, Tensor, Work, grid_of


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

    def forward(self, node: Node) -> tuple[Work, ...]:
        return total(node.y, node.xs, "activations")

    def backward(self, node: Node) -> tuple[Work, ...]:
        dy, dxs = node.dy, node.dxs
        size = dy.nbytes // 4
        # The first gradient may be dy itself, so it comes last. Others are copies.
        return tuple(
            Launch(
                "joins.copy",
                (dx,),
                (dy,),
                view="flat",
                may_overwrite=((dx, dy, "gradients"),) if i == 0 else (),
                grid=grid_of(size),
                bytes_accessed=2 * dy.nbytes,
            )
            for i, dx in (*enumerate(dxs[1:], 1), (0, dxs[0]))
            if dx is not None
        )


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

    def forward(self, node: Node) -> tuple[Work, ...]:
        y = node.y
        return tuple(
            Launch(
                "joins.concat",
                (y,),
                (x,),
                (offset,),
                view="rows",
                portion=(i, len(node.xs)),
                grid=images(x),
                bytes_accessed=2 * x.nbytes,
            )
            for i, (x, offset) in enumerate(zip(node.xs, offsets(node.xs), strict=True))
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        dy = node.dy
        return tuple(
            Launch(
                "joins.split",
                (dx,),
                (dy,),
                (offset,),
                view="rows",
                grid=images(dx),
                bytes_accessed=2 * dx.nbytes,
            )
            for dx, offset in zip(node.dxs, offsets(node.xs), strict=True)
            if dx is not None
        )


def total(
    y: Tensor, xs: tuple[Tensor, ...], setting: Literal["gradients", "activations"]
) -> tuple[Launch, ...]:
    """y = x_0 + x_1 + ..., added from left to right; y may lie on x_0."""
    size = y.nbytes // 4
    grid = grid_of(size)
    first = Launch(
        "joins.add",
        (y,),
        xs[:2],
        view="flat",
        may_overwrite=((y, xs[0], setting),),
        grid=grid,
        flops=size,
        bytes_accessed=3 * y.nbytes,
    )
    if len(xs) == 2:
        return (first,)
    others = (
        Launch(
            "joins.accumulate",
            (y,),
            (x,),
            view="flat",
            updates=True,
            grid=grid,
            flops=size,
            bytes_accessed=3 * y.nbytes,
        )
        for x in xs[2:]
    )
    return (first, *others)


def offsets(xs: tuple[Tensor, ...]) -> list[int]:
    """Where in an image of the output the values of every input begin."""
    starts = [0]
    for x in xs[:-1]:
        starts.append(starts[-1] + x.nbytes // 4 // x.shape[0])
    return starts


def images(x: Tensor) -> tuple[int, ...]:
    """Grid of a kernel with a row of blocks for every image."""
    return (*grid_of(x.nbytes // 4 // x.shape[0]), rows(x.shape[0]))
