"""Pooling: the largest or the mean value of every window of a channel."""

from dataclasses import dataclass

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

MOST_PLANES = 65536  # blocks; they go on with other channels
WIDEST = 64  # columns of a window, of which the backward's blocks keep a row


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
        n, c, *x = image(inputs)
        stride = step(self.stride, self.kernel)
        return (n, c, *positions(tuple(x), self.kernel, stride, self.padding))

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        return (
            Launch(
                "pool.max_forward",
                (y,),
                (x,),
                window(self.kernel, self.stride, self.padding),
                grid=planes(x),
                block=strip(y),
                flops=taps(self.kernel) * (y.nbytes // 4),
                bytes_accessed=x.nbytes + y.nbytes,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y, dy, dx = node.x, node.y, node.dy, node.dx
        if dx is None:
            return ()
        return (
            Launch(
                "pool.max_backward",
                (dx,),
                (x, dy),
                window(self.kernel, self.stride, self.padding),
                # cuDNN asks for y, too; the kernel finds the maxima again.
                retained=(y,) if node.declarations == "original" else (),
                grid=planes(x),
                block=strip(y),
                flops=2 * taps(self.kernel) * (y.nbytes // 4),
                bytes_accessed=2 * x.nbytes + dy.nbytes,
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
        if self.kernel is None:
            if self.stride is not None or self.padding != 0:
                raise ValueError("a stride or padding needs a kernel")
            return
        check_padding(self.kernel, step(self.stride, self.kernel), self.padding)

    def output_shape(self, *inputs: Shape) -> Shape:
        n, c, *x = image(inputs)
        kernel = (x[0], x[1]) if self.kernel is None else self.kernel
        stride = step(self.stride, kernel)
        return (n, c, *positions(tuple(x), kernel, stride, self.padding))

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        kernel = self.kernel_on(x)
        flops, bytes_accessed = taps(kernel) * (y.nbytes // 4), x.nbytes + y.nbytes
        if self.is_global(x):
            return (
                Launch(
                    "pool.global_average_forward",
                    (y,),
                    (x,),
                    view="channels",
                    grid=grid_of(y.nbytes // 4),
                    flops=flops,
                    bytes_accessed=bytes_accessed,
                ),
            )
        scalars = window(kernel, self.stride, self.padding)
        return (
            Launch(
                "pool.average_forward",
                (y,),
                (x,),
                (*scalars, int(self.count_padding)),
                grid=planes(x),
                block=strip(y),
                flops=flops,
                bytes_accessed=bytes_accessed,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y, dy, dx = node.x, node.y, node.dy, node.dx
        if dx is None:
            return ()
        # cuDNN asks for x and y for every kind of pooling.
        retained = (x, y) if node.declarations == "original" else ()
        kernel = self.kernel_on(x)
        flops, bytes_accessed = taps(kernel) * (y.nbytes // 4), x.nbytes + y.nbytes
        if self.is_global(x):
            return (
                Launch(
                    "pool.global_average_backward",
                    (dx,),
                    (dy,),
                    view="channels",
                    retained=retained,
                    grid=planes(x),
                    block=strip(y),
                    flops=flops,
                    bytes_accessed=bytes_accessed,
                ),
            )
        scalars = window(kernel, self.stride, self.padding)
        return (
            Launch(
                "pool.average_backward",
                (dx,),
                (dy,),
                (*scalars, int(self.count_padding)),
                retained=retained,
                grid=planes(x),
                block=strip(y),
                flops=flops,
                bytes_accessed=bytes_accessed,
            ),
        )

    def kernel_on(self, x: Tensor) -> tuple[int, int]:
        return (x.shape[2], x.shape[3]) if self.kernel is None else pair(self.kernel)

    def is_global(self, x: Tensor) -> bool:
        """Whether the one window is the whole image."""
        return self.kernel_on(x) == x.shape[2:] and sides(self.padding) == (0, 0, 0, 0)


def step(stride: Pair | None, kernel: Pair) -> Pair:
    """The stride; by default the kernel, so that windows do not overlap."""
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
    """The scalars of a launch; how far padding goes at the end follows from shapes."""
    top, _, left, _ = sides(padding)
    return (*pair(kernel), *pair(step(stride, kernel)), top, left)


def taps(kernel: Pair) -> int:
    """Values in a window."""
    r, s = pair(kernel)
    return r * s


def planes(x: Tensor) -> tuple[int, ...]:
    """Grid of pooling: a block for a channel of an image."""
    return (min(x.shape[0] * x.shape[1], MOST_PLANES),)


def strip(y: Tensor) -> tuple[int, ...]:
    """Block of pooling: one row of threads, which divide the windows of a row."""
    return (32,) if y.shape[3] <= 32 else (64,)
