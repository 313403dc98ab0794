"""What a layer says of itself: its shapes, and the kernels of its steps.

A layer *declares* what its backward reads. That one line decides every number of
both papers, so it is the most visible line of a layer's file (``snref/layers``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from snref.tensor import Shape, Tensor

Declarations: TypeAlias = Literal["original", "lean"]
Scalar: TypeAlias = int | float | str
View: TypeAlias = Literal["shape", "rows", "channels", "flat"]
Overlay: TypeAlias = tuple[Tensor, Tensor, Literal["gradients", "activations"]]
Part: TypeAlias = Literal["forward", "data", "filter"]

PLANNED = "planned."  # a kernel that is planned for but not written: gpt2 has only such


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One kernel call: ``kernel(*outputs, *inputs, *scalars)``.

    kernel         where it stands under ``snref.kernels``: "relu.forward"
    scalars        a str names a value of the run: "iteration", "learning_rate", ...
    view           how the kernel sees its arrays: "shape" as they are, "rows" as
                   (N, rest), "channels" as (N, C, rest), "flat" as one dimension
    updates        whether the outputs are read, too: y += b
    held           tensors that must be on the device though the kernel is not given
                   them, because the paper's authors declared them
    may_overwrite  (output, input, setting): the output may lie on the input's memory
                   when ``overwrite`` is this setting (or, for "gradients", a wider one)
    flops, moved   floating-point operations; bytes read and written: the roofline
    """

    kernel: str
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    view: View = "shape"
    updates: bool = False
    held: tuple[Tensor, ...] = ()
    may_overwrite: tuple[Overlay, ...] = ()
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (256,)
    flops: int = 0
    moved: int = 0

    @property
    def reads(self) -> tuple[Tensor, ...]:
        if self.updates:
            return self.outputs + self.inputs + self.held
        return self.inputs + self.held


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """One way to compute a part of a convolution. Shared by layers of equal shapes.

    order      the order in which products are summed: same order, same bits
    workspace  bytes of scratch
    launches   (output, first input, second input, workspace or None) -> kernel calls
    """

    name: str
    order: str
    workspace: int
    flops: int
    moved: int
    launches: Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Launch, ...]] = (
        field(repr=False)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A part of a convolution's step that can be computed in several ways.

    The first algorithm needs no workspace and is the one chosen until
    ``scheduler.algorithms`` knows how many bytes are free.
    """

    part: Part
    output: Tensor
    inputs: tuple[Tensor, Tensor]
    algorithms: tuple[Algorithm, ...]
    chosen: Algorithm
    workspace: Tensor | None = None

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (self.output,)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        return self.inputs

    @property
    def flops(self) -> int:
        return self.chosen.flops

    @property
    def moved(self) -> int:
        return self.chosen.moved

    @property
    def launches(self) -> tuple[Launch, ...]:
        return self.chosen.launches(self.output, *self.inputs, self.workspace)


Work: TypeAlias = Launch | Choice  # what the step of a layer is made of


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A layer in a net, with its tensors.

    Inputs xs, outputs ys (a fork has several, every other layer one), the gradients
    of both (None where nobody wants one), parameters by name ("w", "b"), their
    gradients and momenta by the same names, and ``saved``: small resident tensors
    that forward leaves for backward or for evaluation, such as batch means.
    """

    name: str
    number: int  # counts the net's layers from 1, as the paper's route does
    layer: "Layer"
    xs: tuple[Tensor, ...]
    ys: tuple[Tensor, ...]
    dxs: tuple[Tensor | None, ...]
    dys: tuple[Tensor, ...]
    parameters: Mapping[str, Tensor]
    parameter_gradients: Mapping[str, Tensor]
    momenta: Mapping[str, Tensor]
    saved: Mapping[str, Tensor]
    declarations: Declarations = "original"

    @property
    def x(self) -> Tensor:
        return self.xs[0]

    @property
    def y(self) -> Tensor:
        return self.ys[0]

    @property
    def dx(self) -> Tensor | None:
        return self.dxs[0]

    @property
    def dy(self) -> Tensor:
        return self.dys[0]


class Layer:
    """What a layer must say. Subclasses are frozen dataclasses of settings.

    checkpoint  costly: its output is kept, or copied out, rather than computed again
    offload     large and costly: its output is worth the trip over PCIe
    loss        ends a net: has labels, and no reader
    """

    checkpoint: ClassVar[bool] = False
    offload: ClassVar[bool] = False
    loss: ClassVar[bool] = False

    def output_shape(self, *inputs: Shape) -> Shape:
        """Shape of the output. Raises ValueError if the inputs do not fit the layer."""
        raise NotImplementedError

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        """Shapes of the trained tensors, by name."""
        return {}

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        """Shapes of the small tensors kept beside the parameters, by name."""
        return {}

    def shared_parameters(self) -> dict[str, tuple[str, str]]:
        """Parameters of an earlier layer that this one uses, too.

        By this layer's name for it: (the layer that owns it, its name there).
        """
        return {}

    def labels_shape(self, *inputs: Shape) -> Shape:
        """Shape of the labels that a loss reads: a class an image."""
        return inputs[0][:1]

    def forward(self, node: Node) -> tuple[Work, ...]:
        """The kernels that compute node.ys from node.xs."""
        raise NotImplementedError

    def backward(self, node: Node) -> tuple[Work, ...]:
        """The kernels that compute node.dxs and the parameter gradients."""
        raise NotImplementedError

    def inference(self, node: Node) -> tuple[Work, ...]:
        """The kernels that compute node.ys when the net is evaluated, not trained."""
        return self.forward(node)

    def update(self, node: Node) -> tuple[Work, ...]:
        """The kernels at the end of an iteration: a step for every parameter."""
        return tuple(
            descend(w, node.momenta[name], node.parameter_gradients[name])
            for name, w in node.parameters.items()
        )


def descend(w: Tensor, v: Tensor, dw: Tensor) -> Launch:
    """A step of stochastic gradient descent with momentum (``kernels/sgd.py``).

    g = dw + weight_decay w;  v = momentum v + g;  w = w - learning_rate v
    """
    size = w.nbytes // 4
    return Launch(
        "sgd.update",
        (w, v),
        (dw,),
        ("learning_rate", "momentum", "weight_decay"),
        view="flat",
        updates=True,
        grid=grid_of(size),
        flops=6 * size,
        moved=5 * w.nbytes,
    )


def grid_of(threads: int, block: int = 256) -> tuple[int, ...]:
    """Blocks with a thread for each of so many elements.

    The kernels' loops would do with fewer. But then a block returns to memory far from
    where it was, once a round, and a CPU that runs it loses half its bandwidth.

    >>> grid_of(1000)
    (4,)
    """
    return (max(1, (threads + block - 1) // block),)
