"""Pooling: the largest or the mean value of every window of a channel."""

from dataclasses import dataclass
from math import prod

from snref.layers.base import Layer, Node
from snref.layers.shapes import (
    Padding,
    Pair,
    check_window,
    image,
    pair,
    positions,
    sides,
)
from snref.plans import Launch, Scalar, Shape, Tensor, Work, grid_of

MOST_PLANES = 65536  # blocks; if there are more channels, each block takes several
WIDEST = 64  # columns of a window; a block of the backward keeps a row of them


@dataclass(frozen=True)
class MaxPool(Layer):
    """The largest value of every window; windows may overlap.

    forward    y[n,c,p,q] = max_rs x[n,c,ph+r,qw+s]       (h, w: strides)
    backward   dx[n,c,i,j] = sum of dy[n,c,p,q] over the windows (p, q) whose first
               maximum is at (i, j)

    stride None is the kernel's size. Padding is never the maximum.

    Source: Krizhevsky et al. 2012, section 3.4.
    """

    kernel: Pair
    stride: Pair | None = None
    padding: Padding = 0

    def __post_init__(self) -> None:
        check_padding(self.kernel, step(self.stride, self.kernel), self.padding)

    def output_shape(self, *inputs: Shape) -> Shape:
        return pooled(image(inputs), self.kernel, self.stride, self.padding)

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        return self._launch("pool.max_forward", node, node.y, (node.x,))

    def scratch_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"indices": self.output_shape(*inputs)}

    def backward(self, node: Node) -> tuple[Work, ...]:
        inputs = node.x, node.dy
        size, stride = pair(self.kernel), pair(step(self.stride, self.kernel))
        apart = all(s >= k for s, k in zip(stride, size, strict=True))
        if node.is_static and apart:
            kernel = "pool.max_backward_apart"
            return self._launch(kernel, node, node.dx, inputs, flops=2, over_x=True)
        if node.reuses and node.dx is not None:
            # The places of all maxima first, so that dx may take the memory of x.
            indices = node.scratch["indices"]
            return (
                *self._launch("pool.max_indices", node, indices, (node.x,)),
                *self._launch("pool.max_scatter", node, node.dx, (indices, node.dy)),
            )
        # cuDNN asks for y, too; the kernel finds the maxima again.
        return self._launch(
            "pool.max_backward", node, node.dx, inputs, node.original(node.y), flops=2
        )

    def _launch(
        self,
        kernel: str,
        node: Node,
        output: Tensor | None,
        inputs: tuple[Tensor, ...],
        retained: tuple[Tensor, ...] = (),
        flops: int = 1,
        over_x: bool = False,
    ) -> tuple[Work, ...]:
        if output is None:
            return ()
        return (
            Launch(
                kernel,
                (output,),
                inputs,
                window(self.kernel, self.stride, self.padding),
                retained=retained,
                may_overwrite=((output, node.x, "activations"),) if over_x else (),
                grid=planes(node.x),
                block=strip(node.y),
                flops=flops * prod(pair(self.kernel)) * node.y.size,
            ),
        )


@dataclass(frozen=True)
class AveragePool(Layer):
    """The mean value of every window; windows may overlap.

    forward    y[n,c,p,q] = 1/m sum_rs x[n,c,ph+r,qw+s]       (h, w: strides)
    backward   dx[n,c,i,j] = sum of dy[n,c,p,q]/m over the windows (p, q) that hold
               (i, j)

    m counts the window's values, those in the padding only with count_padding.
    kernel None is the whole image; stride None is the kernel's size.

    Source: Lin et al. 2014, section 3.2 (over the whole image).
    """

    kernel: Pair | None = None
    stride: Pair | None = None
    padding: Padding = 0
    count_padding: bool = False

    def __post_init__(self) -> None:
        if self.kernel is not None:
            check_padding(self.kernel, step(self.stride, self.kernel), self.padding)
        elif self.stride is not None or self.padding != 0:
            raise ValueError("a stride or padding needs a kernel")

    def output_shape(self, *inputs: Shape) -> Shape:
        x = image(inputs)
        return pooled(x, self._kernel_on(x), self.stride, self.padding)

    def part_images(self, *inputs: Shape) -> int:
        return 1

    def forward(self, node: Node) -> tuple[Work, ...]:
        return self._launch("forward", node, node.y, node.x)

    def backward(self, node: Node) -> tuple[Work, ...]:
        # cuDNN asks for x and y for every kind of pooling.
        retained = node.original(node.x, node.y)
        return self._launch("backward", node, node.dx, node.dy, retained)

    def _launch(
        self,
        direction: str,
        node: Node,
        output: Tensor | None,
        source: Tensor,
        retained: tuple[Tensor, ...] = (),
    ) -> tuple[Work, ...]:
        if output is None:
            return ()
        x, y = node.x, node.y
        kernel = self._kernel_on(x.shape)
        whole = kernel == x.shape[2:] and sides(self.padding) == (0, 0, 0, 0)
        if whole:
            scalars: tuple[Scalar, ...] = ()
        else:
            scalars = window(kernel, self.stride, self.padding)
            scalars += (int(self.count_padding),)
        thread_an_output = whole and direction == "forward"
        return (
            Launch(
                f"pool.{'global_' if whole else ''}average_{direction}",
                (output,),
                (source,),
                scalars,
                view="channels" if whole else "shape",
                retained=retained,
                grid=grid_of(y.size) if thread_an_output else planes(x),
                block=(256,) if thread_an_output else strip(y),
                flops=prod(kernel) * y.size,
            ),
        )

    def _kernel_on(self, x: Shape) -> tuple[int, int]:
        return (x[2], x[3]) if self.kernel is None else pair(self.kernel)


def pooled(x: Shape, kernel: Pair, stride: Pair | None, padding: Padding) -> Shape:
    """Return the shape of the output for images of shape x."""
    return (*x[:2], *positions(x[2:], kernel, step(stride, kernel), padding))


def step(stride: Pair | None, kernel: Pair) -> Pair:
    """Return the stride; by default the kernel's size: no window overlaps another."""
    return kernel if stride is None else stride


def check_padding(kernel: Pair, stride: Pair, padding: Padding) -> None:
    """Raise ValueError unless every window holds a value of the image."""
    check_window(kernel, stride, padding)
    (r, s), (top, bottom, left, right) = pair(kernel), sides(padding)
    if s > WIDEST:
        raise ValueError(f"kernel {kernel}: must be at most {WIDEST} wide")
    if max(top, bottom) >= r or max(left, right) >= s:
        raise ValueError(f"padding {padding}: must be less than the kernel, {kernel}")


def window(kernel: Pair, stride: Pair | None, padding: Padding) -> tuple[Scalar, ...]:
    """Return the scalars of a launch. Padding at the end follows from the shapes."""
    top, _, left, _ = sides(padding)
    return (*pair(kernel), *pair(step(stride, kernel)), top, left)


def planes(x: Tensor) -> tuple[int, ...]:
    """Return the grid of pooling: a block for each channel of an image."""
    return (min(x.shape[0] * x.shape[1], MOST_PLANES),)


def strip(y: Tensor) -> tuple[int, ...]:
    """Return the block: one row of threads, which divide the windows of a row."""
    return (32,) if y.shape[3] <= 32 else (64,)
