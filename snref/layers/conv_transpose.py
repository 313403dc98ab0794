"""Transposed convolution: enlarges an image, as the gradient of a convolution does."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.bias import add_bias, bias_gradient, weights
from snref.layers.conv import choice
from snref.layers.conv_algorithms import Window
from snref.layers.shapes import Pair, check_window, image, pair
from snref.layers.slices import images_of_slice
from snref.plans import Shape, Work


@dataclass(frozen=True)
class ConvTranspose(Layer):
    """A transposed convolution: its forward is the data gradient of ``Conv``.

    forward    y[n,k,i,j] = b[k] + sum_crs x[n,c,p,q] w[c,k,r,s]
                            over the p, q, r, s with ph+r = i, qw+s = j
    backward   dw[c,k,r,s] = sum_npq x[n,c,p,q] dy[n,k,ph+r,qw+s]
               db[k] = sum_nij dy[n,k,i,j]
               dx[n,c,p,q] = sum_krs dy[n,k,ph+r,qw+s] w[c,k,r,s]

    h and w are the strides; without padding or groups.

    Source: Dumoulin and Visin 2016, chapter 4.
    """

    filters: int
    kernel: Pair
    stride: Pair = 1
    bias: bool = True

    checkpoint: ClassVar[bool] = True
    offload: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_window(self.kernel, self.stride, 0)
        if self.filters < 1:
            raise ValueError(f"filters {self.filters}: must be >= 1")

    def output_shape(self, *inputs: Shape) -> Shape:
        n, _, p, q = image(inputs)
        (r, s), (h, w) = pair(self.kernel), pair(self.stride)
        return (n, self.filters, (p - 1) * h + r, (q - 1) * w + s)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        w = inputs[0][1], self.filters, *pair(self.kernel)
        return weights(w, self.filters, self.bias)

    def fans(self, w: Shape) -> tuple[float, float]:
        # w is (inputs, outputs, window); strides leave each output a part of the window
        inputs, outputs, r, s = w
        return inputs * r * s / prod(pair(self.stride)), outputs * r * s

    def part_images(self, *inputs: Shape) -> int:
        return images_of_slice(prod(inputs[0][2:]))

    def forward(self, node: Node) -> tuple[Work, ...]:
        w = node.parameters["w"]
        return choice("data", node.y, node.x, w, self.window) + add_bias(node)

    def backward(self, node: Node) -> tuple[Work, ...]:
        w, dw = node.parameters["w"], node.parameter_gradients["w"]
        return (
            *choice("filter", dw, node.dy, node.x, self.window, node.resumes),
            *bias_gradient(node),
            *choice("forward", node.dx, node.dy, w, self.window),
        )

    @property
    def window(self) -> Window:
        return (*pair(self.stride), 0, 0, 1)
