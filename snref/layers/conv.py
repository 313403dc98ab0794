"""Convolution. The algorithms that can compute it are in conv_algorithms.py."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.bias import add_bias, bias_gradient, weights
from snref.layers.conv_algorithms import Window, algorithms
from snref.layers.shapes import (
    Padding,
    Pair,
    check_window,
    image,
    pair,
    positions,
    sides,
)
from snref.layers.slices import images_of_slice
from snref.plans import Choice, Part, Shape, Tensor, Work


@dataclass(frozen=True)
class Conv(Layer):
    """A convolution: each output is a weighted sum of a window of its group's channels.

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
        w = self.filters, channels, *pair(self.kernel)
        return weights(w, self.filters, self.bias)

    def fans(self, w: Shape) -> tuple[float, float]:
        fan_in, fan_out = super().fans(w)
        return fan_in, fan_out / self.groups

    def part_images(self, *inputs: Shape) -> int:
        return images_of_slice(prod(self.output_shape(*inputs)[2:]))

    def forward(self, node: Node) -> tuple[Work, ...]:
        w = node.parameters["w"]
        return choice("forward", node.y, node.x, w, self.window) + add_bias(node)

    def backward(self, node: Node) -> tuple[Work, ...]:
        w, dw = node.parameters["w"], node.parameter_gradients["w"]
        # dw first: it is the last to read x, whose memory dx may then take.
        return (
            *choice("filter", dw, node.x, node.dy, self.window, node.resumes),
            *bias_gradient(node),
            *choice("data", node.dx, node.dy, w, self.window),
        )

    @property
    def window(self) -> Window:
        top, _, left, _ = sides(self.padding)
        return (*pair(self.stride), top, left, self.groups)


def choice(
    part: Part,
    output: Tensor | None,
    a: Tensor,
    b: Tensor,
    window: Window,
    resumes: bool = False,
) -> tuple[Work, ...]:
    """Compute a part of a convolution, by its first algorithm for now.

    The output and the inputs are (y, x, w) for forward, (dx, dy, w) for data and
    (dw, x, dy) for filter. None, a gradient that is not wanted, needs no work.

    resumes  of a filter gradient: whether it goes on from what the output holds
    """
    if output is None:
        return ()
    more = {"resumes": True} if resumes else {}  # only then: all others share a menu
    menu = algorithms(part, output.shape, a.shape, b.shape, window, **more)
    return (Choice(part, output, (a, b), menu, menu[0], updates=resumes),)
