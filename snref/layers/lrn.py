"""Local response normalization across channels."""

from dataclasses import dataclass
from math import inf

from snref.layers.base import Layer, Node
from snref.layers.shapes import image, rows
from snref.plans import Launch, Scalar, Shape, Work, grid_of

THREADS = 64  # of a block
LARGEST = 15  # channels that a thread of the backward keeps


@dataclass(frozen=True)
class LRN(Layer):
    """Divide each channel by a power of a sum over neighbouring channels of the pixel.

    forward    d_c = k + alpha/size sum_j x_j^2  over the ``size`` channels j around c
               y_c = x_c d_c^-beta
    backward   dx_c = dy_c d_c^-beta
                      - 2 alpha beta/size x_c sum_j dy_j x_j d_j^(-beta-1)

    alpha/size is written alpha in Krizhevsky et al. 2012, section 3.3: their 1e-4 is
    5e-4 here, as in cuDNN.
    """

    size: int = 5
    alpha: float = 5e-4
    beta: float = 0.75
    k: float = 2.0

    def __post_init__(self) -> None:
        odd = isinstance(self.size, int) and self.size % 2 == 1
        if not odd or not 1 <= self.size <= LARGEST:
            raise ValueError(f"size {self.size}: must be odd, 1 to {LARGEST}")
        if not 0 < self.k < inf:
            raise ValueError(f"k {self.k}: must be > 0")
        for name in "alpha", "beta":  # so that the divisor is a number > 0
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} {getattr(self, name)}: must be >= 0")

    def output_shape(self, *inputs: Shape) -> Shape:
        return image(inputs)

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        x = node.x
        return (
            Launch(
                "lrn.forward",
                (node.y,),
                (x,),
                self._scalars,
                view="channels",
                grid=pixels(x.shape),
                block=(THREADS,),
                flops=(2 * self.size + 4) * x.size,  # a power counts as one
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        if dx is None:
            return ()
        return (
            Launch(
                "lrn.backward",
                (dx,),
                (x, dy),
                self._scalars,
                view="channels",
                # The original reads y, too, and lists the gradient twice: dx is dy.
                retained=node.original(node.y, dy),
                may_overwrite=((dx, dy, "gradients"),),
                grid=pixels(x.shape),
                block=(THREADS,),
                flops=(4 * self.size + 10) * x.size,
            ),
        )

    @property
    def _scalars(self) -> tuple[Scalar, ...]:
        return (self.size, self.alpha, self.beta, self.k)


def pixels(shape: Shape) -> tuple[int, ...]:
    """Return the grid of a kernel with a thread for all channels of a pixel."""
    n, _, h, w = shape
    return (*grid_of(h * w, THREADS), rows(n))
