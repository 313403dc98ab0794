"""Convolution, and the algorithms that can compute it."""

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import ClassVar, TypeAlias

from snref.layer import (
    Algorithm,
    Choice,
    Launch,
    Layer,
    Node,
    Part,
    Scalar,
    Work,
    grid_of,
)
from snref.layers.bias import add_bias, bias_gradient
from snref.layers.shapes import (
    Padding,
    Pair,
    check_window,
    image,
    pair,
    positions,
    rows,
    sides,
)
from snref.tensor import Shape, Tensor

# The scalars of a launch: strides down and across, padding of top and left, groups.
Window: TypeAlias = tuple[int, int, int, int, int]

TILE = 16  # a block of 16 x 16 threads computes as many outputs


@dataclass(frozen=True)
class Conv(Layer):
    """Every output is a weighted sum of a window of its group's channels.

    forward    y[n,k,p,q] = b[k] + sum_crs x[n,c,ph+r,qw+s] w[k,c,r,s]
    backward   dw[k,c,r,s] = sum_npq dy[n,k,p,q] x[n,c,ph+r,qw+s]
               db[k] = sum_npq dy[n,k,p,q]
               dx[n,c,i,j] = sum_krs dy[n,k,p,q] w[k,c,r,s]
                             over the p, q, r, s with ph+r = i, qw+s = j

    h and w are the strides; x is 0 in the padding: one number, (height, width) or
    (top, bottom, left, right). Filter k sees the channels c of its group only.

    Source: LeCun et al. 1998, section II; groups: Krizhevsky et al. 2012, section 3.5.
    """

    filters: int
    kernel: Pair
    stride: Pair = 1
    padding: Padding = 0
    groups: int = 1
    bias: bool = True

    checkpoint: ClassVar[bool] = True
    offload: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_window(self.kernel, self.stride, self.padding)
        if self.filters < 1:
            raise ValueError(f"filters {self.filters}: must be >= 1")
        if self.groups < 1 or self.filters % self.groups:
            raise ValueError(
                f"groups {self.groups}: must divide {self.filters} filters"
            )

    def output_shape(self, *inputs: Shape) -> Shape:
        n, c, *x = image(inputs)
        if c % self.groups:
            raise ValueError(f"groups {self.groups}: must divide {c} channels")
        size = positions(tuple(x), self.kernel, self.stride, self.padding)
        return (n, self.filters, *size)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        channels = inputs[0][1] // self.groups
        shapes: dict[str, Shape] = {"w": (self.filters, channels, *pair(self.kernel))}
        if self.bias:
            shapes["b"] = (self.filters,)
        return shapes

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, w = node.x, node.y, node.parameters["w"]
        return (choice("forward", y, x, w, self.window), *add_bias(node))

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        w, dw = node.parameters["w"], node.parameter_gradients["w"]
        # dw first: it is the last to read x, whose memory dx may then take.
        filter_gradient = choice("filter", dw, x, dy, self.window)
        if dx is None:
            return (filter_gradient, *bias_gradient(node))
        data_gradient = choice("data", dx, dy, w, self.window)
        return (filter_gradient, *bias_gradient(node), data_gradient)

    @property
    def window(self) -> Window:
        top, _, left, _ = sides(self.padding)
        return (*pair(self.stride), top, left, self.groups)


def choice(part: Part, output: Tensor, a: Tensor, b: Tensor, window: Window) -> Choice:
    """A part of a convolution, by its first algorithm for now.

    The output and the inputs are (y, x, w) for forward, (dx, dy, w) for data and
    (dw, x, dy) for filter.
    """
    menu = algorithms(part, output.shape, a.shape, b.shape, window)
    return Choice(part, output, (a, b), menu, menu[0])


@cache
def algorithms(
    part: Part, output: Shape, a: Shape, b: Shape, window: Window
) -> tuple[Algorithm, ...]:
    """The ways to compute a part of a convolution; the first needs no workspace."""
    x, w, y = {
        "forward": (a, b, output),
        "data": (output, b, a),
        "filter": (a, output, b),
    }[part]
    flops = 2 * prod(y) * prod(w[1:])
    moved = 4 * (prod(x) + prod(w) + prod(y))
    return (
        _single(f"conv.tiled.{part}", window, tiles(part, output), flops, moved),
        _single(f"conv.direct.{part}", window, threads(part, output), flops, moved),
    )


def _single(
    kernel: str,
    scalars: tuple[Scalar, ...],
    geometry: tuple[tuple[int, ...], tuple[int, ...]],
    flops: int,
    moved: int,
) -> Algorithm:
    """An algorithm that is one kernel and sums tap by tap, without workspace."""
    grid, block = geometry

    def launches(
        output: Tensor, a: Tensor, b: Tensor, workspace: Tensor | None
    ) -> tuple[Launch, ...]:
        return (
            Launch(
                kernel,
                (output,),
                (a, b),
                scalars,
                grid=grid,
                block=block,
                flops=flops,
                moved=moved,
            ),
        )

    return Algorithm(kernel.split(".")[1], "taps", 0, flops, moved, launches)


def threads(part: Part, output: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Grid and block of a kernel with a thread for every output.

    A row of blocks has the pixels of a channel, or the weights of a filter.
    """
    first, second, *rest = output
    if part == "filter":
        return (*grid_of(second * prod(rest)), rows(first)), (256,)
    return (*grid_of(prod(rest)), rows(first * second)), (256,)


def tiles(part: Part, output: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Grid and block of a kernel with a block for every tile of outputs.

    forward, data: a channel's pixels by all channels, for every image; filter: a
    filter's weights by all filters.
    """
    if part == "filter":
        height, width, planes = output[0], prod(output[1:]), 1
    else:
        height, width, planes = output[1], prod(output[2:]), output[0]
    across, down = (width + TILE - 1) // TILE, (height + TILE - 1) // TILE
    return (across, down, planes), (TILE, TILE)
