"""Softmax with cross-entropy: the loss that ends a net."""

from dataclasses import dataclass
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.shapes import image, one
from snref.plans import PLANNED, Launch, Shape, Work

THREADS = 128  # of a block, which has an image


@dataclass(frozen=True)
class Softmax(Layer):
    """Probabilities of the classes, and the mean cross-entropy with the labels.

    forward    y[n,k] = exp(x[n,k]) / sum_j exp(x[n,j])
               losses[n] = -log y[n,label[n]];  loss = 1/N sum_n losses[n]
    backward   dx[n,k] = (y[n,k] - (k = label[n])) / N

    Source: Bishop 2006, sections 4.3.4 and 5.2.
    """

    checkpoint: ClassVar[bool] = True
    loss: ClassVar[bool] = True
    gain: ClassVar[float] = 0.1  # the first probabilities differ little

    def output_shape(self, *inputs: Shape) -> Shape:
        shape = one(inputs)
        if len(shape) < 2:
            raise ValueError(f"an input of shape {shape}: it must be (N, classes)")
        return shape

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"losses": (inputs[0][0],), "loss": (1,)}

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, labels, losses = node.x, node.saved["labels"], node.saved["losses"]
        return (
            Launch(
                "softmax.forward",
                (node.y,),
                (x,),
                view="rows",
                grid=(x.shape[0],),
                block=(THREADS,),
                flops=5 * x.size,
            ),
            Launch(
                "softmax.losses",
                (losses,),
                (x, labels),
                view="rows",
                grid=(x.shape[0],),
                block=(THREADS,),
                flops=4 * x.size,
            ),
            Launch(
                "softmax.mean",
                (node.saved["loss"],),
                (losses,),
                block=(THREADS,),
                flops=x.shape[0],
                bytes_accessed=losses.nbytes,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y, dx = node.x, node.y, node.dx
        if dx is None:
            return ()
        return (
            Launch(
                "softmax.backward",
                (dx,),
                (y, node.saved["labels"]),
                (1 / x.shape[0],),
                view="rows",
                retained=node.original(x),
                may_overwrite=((dx, y, "gradients"),),
                grid=(x.shape[0],),
                block=(THREADS,),
                flops=2 * x.size,
                bytes_accessed=2 * x.nbytes,
            ),
        )


@dataclass(frozen=True)
class PixelSoftmax(Layer):
    """Softmax with cross-entropy for every pixel: x (N, K, H, W), labels (N, H, W).

    forward    y[n,k,i] = exp(x[n,k,i]) / sum_j exp(x[n,j,i]);  the loss is the mean of
               -log y[n,label[n,i],i] over images n and pixels i
    backward   dx[n,k,i] = (y[n,k,i] - (k = label[n,i])) / (N H W)

    Its kernels are not written yet: such a net can be planned only.

    Source: Ronneberger et al. 2015, section 3, without weights.
    """

    checkpoint: ClassVar[bool] = True
    loss: ClassVar[bool] = True
    gain: ClassVar[float] = 0.1  # the first probabilities differ little

    def output_shape(self, *inputs: Shape) -> Shape:
        return image(inputs)

    def labels_shape(self, *inputs: Shape) -> Shape:
        n, _, h, w = inputs[0]
        return (n, h, w)

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"loss": (1,)}

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, labels, loss = node.x, node.y, node.saved["labels"], node.saved["loss"]
        return (
            Launch(
                f"{PLANNED}pixel_softmax.forward",
                (y, loss),
                (x, labels),
                flops=9 * x.size,
                bytes_accessed=2 * x.nbytes + labels.nbytes,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y, labels, dx = node.x, node.y, node.saved["labels"], node.dx
        if dx is None:
            return ()
        return (
            Launch(
                f"{PLANNED}pixel_softmax.backward",
                (dx,),
                (y, labels),
                retained=node.original(x),
                may_overwrite=((dx, y, "gradients"),),
                flops=2 * x.size,
                bytes_accessed=2 * x.nbytes + labels.nbytes,
            ),
        )
