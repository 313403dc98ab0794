"""The base class of layers: its shapes, and the launches of its phases.

A layer *declares* what its backward reads. That one line decides every number of
both papers, so it is the most visible line of a layer's file (``snref/layers``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, Literal, TypeAlias

from snref.layers.shapes import one
from snref.plans import (
    Kernel,
    Kind,
    Launch,
    Overwrite,
    Scalar,
    Shape,
    Tensor,
    Work,
    grid_of,
    record,
)

Declarations: TypeAlias = Literal["original", "lean", "reuse", "static"]
REUSING: tuple[Declarations, ...] = "reuse", "static"  # gradients over activations


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive images of a batch, on which a layer runs by itself.

    index   counts the parts of the batch from 0
    first   the first of the images, counted from 0
    images  how many they are
    batch   how many the whole batch has

    >>> Part(1, 8, 8, 20).resumes
    True
    """

    index: int
    first: int
    images: int
    batch: int

    @property
    def resumes(self) -> bool:
        """Return whether sums over the batch go on from those of the part before."""
        return self.index > 0


@record
class Node:
    """A layer in a net, with its tensors.

    number        counts the net's layers from 1, as the paper's route does; the same
                  under all options of the net
    xs, x         inputs; the first of them
    ys, y         outputs; the first of them. Only a fork has several
    dxs, dx       gradients of the inputs; None where no gradient is wanted
    dys, dy       gradients of the outputs; a loss has none
    parameters    trained tensors, by name: "w", "b"
    parameter_gradients, momenta   of the parameters, by the same names
    saved         small tensors that stay on the device, by name: what forward leaves
                  for backward or for evaluation, such as batch means; a loss has
                  "labels" and "loss" there, too
    scratch       small tensors of int32 that a launch of backward leaves for a later
                  one, by name; they are scheduled
    declarations  "original", "lean", "reuse" or "static"
    part          the part of the batch that the tensors are of; None: all of it
    """

    name: str
    number: int
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
    scratch: Mapping[str, Tensor] = field(default_factory=dict)
    part: Part | None = None

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

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return all tensors of the node but the gradients of its outputs."""
        return (
            *self.xs,
            *self.parameters.values(),
            *self.parameter_gradients.values(),
            *self.momenta.values(),
            *self.saved.values(),
            *self.scratch.values(),
            *self.ys,
            *[dx for dx in self.dxs if dx is not None],
        )

    @property
    def reuses(self) -> bool:
        """Return whether a gradient may take the memory of any activation.

        So backward reads no output that is the input of the next layer, whose gradient
        lies there by then, and reads its own input before it writes.
        """
        return self.declarations in REUSING

    @property
    def is_static(self) -> bool:
        """Return whether every activation has one region throughout, as in Caffe.

        Nothing is computed again or copied. So an output may lie on the input that
        only its layer reads, and no gradient of a parameter needs memory of its own if
        the update can add it up in the momentum.
        """
        return self.declarations == "static"

    @property
    def resumes(self) -> bool:
        """Return whether the gradients of parameters hold the sum of earlier parts."""
        return self.part is not None and self.part.resumes

    def original(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors under the original declarations, and none under lean.

        For ``retained``: what the paper's authors declared and the kernel never reads.
        """
        return tensors if self.declarations == "original" else ()


class Layer:
    """The base class of layers. A layer is a frozen dataclass of its settings.

    Write ``forward`` and ``backward``: each returns the launches of a phase, in order
    (``Launch``; ``elementwise`` makes the simplest). Write ``output_shape`` unless
    there is one input and the output has its shape; ``parameter_shapes`` if something
    is trained; ``saved_shapes`` for what forward leaves behind; ``part_images`` if it
    may run on some images of a batch alone; ``inference`` and ``update`` where they
    are not forward and gradient descent. Parameters of two or more dimensions begin as
    training's ``init`` says; all else begins at 0, or at 1 where it is called "gamma"
    or "running_variance". A checkpoint has the parameters and what ``update`` writes.

    checkpoint  costly: its output is kept, or copied out, rather than computed again.
                Set it for a layer of several inputs: without it the layer is computed
                again from its first input's checkpoint, and keeps what its others need
    offload     large and costly: its output is worth two copies over PCIe
    loss        ends a net: has labels and no reader, and writes saved["loss"]
    gain        factor of the deviation of the weights before this layer, when they are
                initialised (He et al. 2015, section 2.2); None: the next layer's holds

    A launch calls ``kernel(*outputs, *inputs, *scalars)``. The kernel is a
    ``@cuda.jit`` function, or its name: "mine:square" is ``square`` in mine.py. It gets

    - each tensor as a contiguous array of float32 (labels are int32), whose shape the
      launch's ``view`` says: "shape" is the tensor's own, "rows" (N, rest), "channels"
      (N, C, rest), "flat" one dimension. A tensor of one dimension stays as it is;
    - each scalar as an int or, if it is a fraction, as float32. A string names a value
      of the run: "seed", "iteration", "learning_rate", "momentum", "weight_decay",
      "bias_decay".

    What holds for launches, ``check_layer`` checks:

    - Forward may run again (recomputation), so it must write the same bits each time
      and change nothing else. Draw random numbers from (seed, ``node.number``,
      iteration, element); change a running mean in ``update``.
    - Backward reads only what its launches list. A tensor that it does not list may
      have been freed. Where ``node.dx`` is None, it does not compute that gradient.
      ``retained=node.original(...)`` lists what the code of the paper's authors keeps
      though the kernel does not read it; an own layer has no such code.
    - ``may_overwrite`` (``in_place`` of ``elementwise``) allows an output to lie on
      the memory of an input: each element must be read before it is written, by the
      thread that writes it, and no later launch of the phase may read the input.

    >>> from dataclasses import dataclass
    >>> from numba import cuda
    >>> import snref
    >>> @cuda.jit
    ... def square(y, x):
    ...     for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
    ...         y[i] = x[i] * x[i]
    >>> @cuda.jit
    ... def square_backward(dx, x, dy):
    ...     for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
    ...         dx[i] = 2 * x[i] * dy[i]
    >>> @dataclass(frozen=True)
    ... class Square(snref.Layer):
    ...     def forward(self, node):
    ...         return snref.elementwise(square, node.y, node.x)
    ...     def backward(self, node):
    ...         return snref.elementwise(square_backward, node.dx, node.x, node.dy)
    >>> snref.check_layer(Square(), (3, 5))
    """

    checkpoint: ClassVar[bool] = False
    offload: ClassVar[bool] = False
    loss: ClassVar[bool] = False
    gain: ClassVar[float | None] = None

    def output_shape(self, *inputs: Shape) -> Shape:
        """Return the shape of the output; by default that of the only input.

        Raises ValueError if the inputs do not fit the layer.
        """
        return one(inputs)

    def output_tensors(self, name: str, xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the output tensors for these inputs: one, but for a fork."""
        return (Tensor(f"{name}.y", self.output_shape(*(x.shape for x in xs))),)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        """Return the shapes of the trained tensors, by name."""
        return {}

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        """Return the shapes of the small tensors kept beside the parameters."""
        return {}

    def scratch_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        """Return the shapes of ``node.scratch``, under "reuse" and "static"."""
        return {}

    def shared_parameters(self) -> dict[str, tuple[str, str]]:
        """Return which parameters of an earlier layer this one uses, too.

        A dictionary from this layer's name for a parameter to (the layer that owns
        it, its name there).
        """
        return {}

    def fans(self, w: Shape) -> tuple[float, float]:
        """Return fan-in and fan-out of a weight tensor of this shape.

        They are how many products each output sums, and how many each input is in. By
        default w is (outputs, inputs, window ...).
        """
        return prod(w[1:]), w[0] * prod(w[2:])

    def part_images(self, *inputs: Shape) -> int | None:
        """Return of how many images a part of the batch is a multiple; None: no parts.

        A layer that says so may run on consecutive images alone (``node.part``), and
        computes the same bits for them. Where it sums over the batch, it adds a part's
        sum to what the gradient holds if ``node.resumes``.
        """
        return None

    def labels_shape(self, *inputs: Shape) -> Shape:
        """Return the shape of the labels that a loss reads: a class for each image."""
        return inputs[0][:1]

    def forward(self, node: Node) -> tuple[Work, ...]:
        """Return the launches that compute node.ys from node.xs."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward")

    def backward(self, node: Node) -> tuple[Work, ...]:
        """Return the launches that compute node.dxs and the parameter gradients."""
        raise NotImplementedError(f"{type(self).__name__} has no method backward")

    def inference(self, node: Node) -> tuple[Work, ...]:
        """Return the launches that compute node.ys when the net is evaluated."""
        return self.forward(node)

    def update(self, node: Node) -> tuple[Work, ...]:
        """Return the launches that end an iteration: a step for every parameter."""
        return tuple(
            descend(w, node.momenta[name], node.parameter_gradients[name])
            for name, w in node.parameters.items()
        )


def make_node(
    layer: Layer,
    name: str,
    number: int,
    xs: tuple[Tensor, ...],
    dxs: tuple[Tensor | None, ...],
    declarations: Declarations,
    before: Mapping[str, Node],
) -> Node:
    """Make the node of a layer that reads xs, with all its other tensors.

    before: the net's nodes so far by name, whose parameters the layer may share.
    """

    def named(
        shapes: dict[str, Shape], kind: Kind, before: str = "", after: str = ""
    ) -> dict[str, Tensor]:
        return {
            key: Tensor(f"{name}.{before}{key}{after}", shape, kind)
            for key, shape in shapes.items()
        }

    shapes = [x.shape for x in xs]
    own = layer.parameter_shapes(*shapes)
    parameters = named(own, "parameter")
    reuses = declarations in REUSING
    kind: Kind = "merged_gradient" if reuses else "parameter_gradient"
    gradients = named(own, kind, before="d")
    for key, (owner, its_key) in layer.shared_parameters().items():
        parameters[key] = before[owner].parameters[its_key]
        gradients[key] = before[owner].parameter_gradients[its_key]
    saved = named(layer.saved_shapes(*shapes), "state")
    scratch = {
        key: Tensor(f"{name}.{key}", shape, "gradient", "int32")
        for key, shape in layer.scratch_shapes(*shapes).items()
        if reuses
    }
    ys = layer.output_tensors(name, xs)
    dys = tuple(
        Tensor(f"{name}.dy{i if len(ys) > 1 else ''}", y.shape, "gradient")
        for i, y in enumerate(ys)
    )
    trained = parameters or any(dx is not None for dx in dxs)  # it, or what is before
    if layer.loss or not trained:
        dys = ()
    if layer.loss:
        if "loss" not in saved:
            raise ValueError(f"the loss {name!r} has no saved tensor 'loss'")
        labels = layer.labels_shape(*shapes)
        saved["labels"] = Tensor("labels", labels, "input", "int32")
    momenta = named(own, "momentum", after=".momentum")
    return Node(
        *(name, number, layer, xs, ys, dxs, dys),
        *(parameters, gradients, momenta, saved, declarations, scratch),
    )


def elementwise(
    kernel: Kernel,
    output: Tensor | None,
    *inputs: Tensor,
    scalars: tuple[Scalar, ...] = (),
    in_place: tuple[Tensor, Overwrite] | None = None,
    retained: tuple[Tensor, ...] = (),
    updates: bool = False,
    flops: int = 1,
    per_thread: int = 1,
) -> tuple[Launch, ...]:
    """Launch a kernel with a thread for each element of the output.

    The kernel gets every tensor as an array of one dimension (``view="flat"``).

    output      None, a gradient that nobody wants, needs no launch
    in_place    (input, setting): the output may lie on this input's memory
    flops       floating-point operations for each element
    per_thread  elements that each thread computes

    >>> x, y = Tensor("x", (4, 1000)), Tensor("y", (4, 1000))
    >>> [launch] = elementwise("relu.forward", y, x, in_place=(x, "activations"))
    >>> launch.grid, launch.block, launch.flops, launch.bytes_accessed
    ((16,), (256,), 4000, 32000)
    >>> elementwise("relu.backward", None, y, y)
    ()
    """
    if output is None:
        return ()
    if in_place is not None and (not isinstance(in_place, tuple) or len(in_place) != 2):
        raise ValueError(
            f"in_place {in_place!r:.40}: must be (input, setting), such as "
            '(node.dy, "gradients")'
        )
    size = output.size
    return (
        Launch(
            kernel,
            (output,),
            inputs,
            scalars,
            view="flat",
            updates=updates,
            retained=retained,
            may_overwrite=() if in_place is None else ((output, *in_place),),
            grid=grid_of(-(-size // per_thread)),
            flops=flops * size,
        ),
    )


def descend(w: Tensor, v: Tensor, dw: Tensor) -> Launch:
    """Launch a step of stochastic gradient descent with momentum (``kernels/sgd.py``).

    g = dw + weight_decay w;  v = momentum v + g;  w = w - learning_rate v

    A parameter of one dimension, such as a bias, has a weight decay of its own.
    """
    decay = "weight_decay" if len(w.shape) > 1 else "bias_decay"
    return Launch(
        "sgd.update",
        (w, v),
        (dw,),
        ("learning_rate", "momentum", decay),
        view="flat",
        updates=True,
        grid=grid_of(w.size),
        flops=6 * w.size,
    )
