"""Batch normalization."""

from dataclasses import dataclass
from math import inf, prod

from snref.layers.base import Layer, Node
from snref.layers.shapes import one, rows
from snref.plans import Launch, Shape, Tensor, Work, grid_of

BLOCK = (32, 8)  # pixels by images, of the channel that a block sums
STRIP = 64  # threads of its other kernels, along the pixels of a channel


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Shift and scale every channel to a learned mean and deviation.

    With m values in a channel of the batch, mean u, variance v = 1/m sum (x - u)^2,
    and z = (x - u) / sqrt(v + epsilon):

    forward    y = gamma z + beta
    backward   dgamma = sum dy z;  dbeta = sum dy
               dx = gamma / sqrt(v + epsilon) (dy - dbeta/m - z dgamma/m)
    update     running = (1 - momentum) running + momentum (u or m/(m-1) v)

    The running statistics, which evaluation uses, are updated in update and not in
    forward: a forward that runs again must not update them a second time.

    Source: Ioffe and Szegedy 2015, algorithm 1.
    """

    epsilon: float = 1e-5
    momentum: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < inf:
            raise ValueError(f"epsilon {self.epsilon}: must be > 0")
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum {self.momentum}: must be >= 0 and <= 1")

    def output_shape(self, *inputs: Shape) -> Shape:
        shape = one(inputs)
        if len(shape) < 2:
            raise ValueError(f"an input of shape {shape}: it must be (N, C, ...)")
        return shape

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        channels = inputs[0][1:2]
        return {"gamma": channels, "beta": channels}

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        channels = inputs[0][1:2]
        names = "mean", "variance", "running_mean", "running_variance"
        return dict.fromkeys(names, channels)

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, saved = node.x, node.saved
        mean, variance = saved["mean"], saved["variance"]
        return (
            Launch(
                "batchnorm.statistics",
                (mean, variance),
                (x,),
                view="channels",
                grid=(x.shape[1],),
                block=BLOCK,
                flops=4 * x.size,
                bytes_accessed=x.nbytes,
            ),
            self._normalize(node, mean, variance),
        )

    def inference(self, node: Node) -> tuple[Work, ...]:
        saved = node.saved
        return (
            self._normalize(node, saved["running_mean"], saved["running_variance"]),
        )

    def _normalize(self, node: Node, mean: Tensor, variance: Tensor) -> Launch:
        """Compute y from x by these statistics."""
        x, y, parameters = node.x, node.y, node.parameters
        return Launch(
            "batchnorm.forward",
            (y,),
            (x, mean, variance, parameters["gamma"], parameters["beta"]),
            (self.epsilon,),
            view="channels",
            may_overwrite=((y, x, "activations"),),
            grid=planes(x),
            block=(STRIP,),
            flops=4 * x.size,
            bytes_accessed=2 * x.nbytes,
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        mean, variance = node.saved["mean"], node.saved["variance"]
        gradients = node.parameter_gradients
        dgamma, dbeta = gradients["gamma"], gradients["beta"]
        reduce = Launch(
            "batchnorm.reduce",
            (dgamma, dbeta),
            (x, dy, mean, variance),
            (self.epsilon,),
            view="channels",
            grid=(x.shape[1],),
            block=BLOCK,
            flops=5 * x.size,
            bytes_accessed=2 * x.nbytes,
        )
        if dx is None:
            return (reduce,)
        gamma = node.parameters["gamma"]
        return (
            reduce,
            Launch(
                "batchnorm.backward",
                (dx,),
                (x, dy, mean, variance, gamma, dgamma, dbeta),
                (self.epsilon,),
                view="channels",
                may_overwrite=((dx, dy, "activations"),),
                grid=planes(x),
                block=(STRIP,),
                flops=8 * x.size,
                bytes_accessed=3 * x.nbytes,
            ),
        )

    def update(self, node: Node) -> tuple[Work, ...]:
        saved, x = node.saved, node.x
        running = Launch(
            "batchnorm.running",
            (saved["running_mean"], saved["running_variance"]),
            (saved["mean"], saved["variance"]),
            (self.momentum, x.size // x.shape[1]),
            updates=True,
            grid=grid_of(x.shape[1]),
            flops=8 * x.shape[1],
        )
        return (running, *super().update(node))


def planes(x: Tensor) -> tuple[int, ...]:
    """Return the grid of a kernel with rows of blocks for a channel of four images."""
    n, channels, *image = x.shape
    return (*grid_of(prod(image), STRIP), channels, rows((n + 3) // 4))
