"""What a layer declares: which tensors each phase reads and writes."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from snref.checking.values import LayerError
from snref.kernels import check_arguments
from snref.layers.base import Declarations, Layer, Node, make_node
from snref.plans import Launch, Run, Shape, Tensor, Work

Phase: TypeAlias = Literal["forward", "backward", "inference", "update"]


def node_of(
    layer: Layer,
    shapes: Sequence[Shape],
    declarations: Declarations = "original",
    unwanted: int | None = None,
) -> Node:
    """Make a node of the layer alone. No gradient is wanted of input ``unwanted``."""
    if layer.shared_parameters():
        raise ValueError(f"{layer}: shares parameters, so it cannot be checked alone")
    name = type(layer).__name__
    ends = [""] if len(shapes) == 1 else [str(i) for i in range(len(shapes))]
    xs = [Tensor(f"{name}.x{e}", s) for e, s in zip(ends, shapes, strict=True)]
    dxs = [
        None if i == unwanted else Tensor(f"{name}.dx{end}", xs[i].shape, "gradient")
        for i, end in enumerate(ends)
    ]
    return make_node(layer, name, 1, tuple(xs), tuple(dxs), declarations, {})


def phases(node: Node) -> Iterator[tuple[Phase, tuple[Work, ...]]]:
    """Yield what the layer launches in each phase.

    Inference is left out where it is forward, and update where it is gradient descent.
    """
    layer = node.layer
    forward = Run(node.name, "forward", layer.forward(node)).work
    inference = Run(node.name, "forward", layer.inference(node)).work
    yield "forward", forward
    if node.dys or layer.loss:  # otherwise nothing before it is trained
        yield "backward", Run(node.name, "backward", layer.backward(node)).work
    if described(inference) != described(forward):
        yield "inference", inference
    if type(layer).update is not Layer.update:
        yield "update", Run(node.name, "update", layer.update(node)).work


def launches_of(work: Sequence[Work]) -> tuple[Launch, ...]:
    """Return the launches, each choice by its first algorithm."""
    return Run("", "forward", tuple(work)).launches


def described(work: Sequence[Work]) -> list[Any]:
    """Describe launches by names: equal for two nodes that launch the same."""
    return [
        (
            launch.kernel,
            [tensor.name for tensor in launch.outputs + launch.inputs],
            (launch.scalars, launch.view, launch.updates, launch.grid, launch.block),
            [(output.name, target.name) for output, target, _ in launch.may_overwrite],
        )
        for launch in launches_of(work)
    ]


def added_up_by_update(node: Node) -> set[Tensor]:
    """Return gradients of parameters that backward leaves to update, if it is static.

    Their update does not read them, but what they are computed from.
    """
    read = Run(node.name, "update", node.layer.update(node)).reads
    found = node.parameter_gradients.values() if node.is_static else ()
    return {gradient for gradient in found if gradient not in read}


def check_flow(node: Node, phase: Phase, work: tuple[Work, ...]) -> None:
    """Check that a phase writes what it must, and reads only what is there."""
    labels = node.saved.get("labels")
    state = {tensor for tensor in node.saved.values() if tensor is not labels}
    parameters = {*node.parameters.values()}
    gradients = {*node.parameter_gradients.values()}
    momenta = {*node.momenta.values()}
    before = {*node.xs, *parameters, *node.saved.values()}
    must = {*node.ys} - {*node.xs}  # a fork that shares has nothing to write
    may, reads = state, before
    if phase == "forward" and node.layer.loss:
        must.add(node.saved["loss"])
    elif phase == "backward":
        must = {dx for dx in node.dxs if dx is not None} | gradients
        must -= added_up_by_update(node)
        may, reads = {*node.scratch.values()}, before | {*node.ys, *node.dys}
    elif phase == "update":
        must, may = parameters, state | momenta
        reads = state | parameters | gradients | momenta
        if added_up_by_update(node):
            reads |= {*node.xs, *node.dys}
    run = Run(node.name, "forward", work)
    for tensor in run.reads:
        if tensor not in reads:
            raise LayerError(f"reads {tensor.name}, which has no value for it to read")
        if phase != "update" and tensor in run.writes:
            raise LayerError(
                f"changes {tensor.name}, which it reads: run again, it would compute "
                "something else; change it in update"
            )
    for tensor in must - {*run.writes}:
        raise LayerError(f"does not write {tensor.name}")
    for tensor in {*run.writes} - must - may:
        raise LayerError(f"writes {tensor.name}, which it may not")
    for launch in launches_of(work):
        _check_launch(launch, run)


def _check_launch(launch: Launch, run: Run) -> None:
    if not launch.is_written:
        raise LayerError(f"kernel {launch.kernel_name} is not written")
    try:
        check_arguments(launch)
    except ValueError as error:
        raise LayerError(str(error)) from None
    for output, target, _ in launch.may_overwrite:
        where = f"kernel {launch.kernel_name}, may_overwrite"
        if output not in launch.outputs:
            raise LayerError(f"{where}: {output.name} is not an output")
        if target not in run.reads:
            raise LayerError(f"{where}: {target.name} is not an input")
        if output.nbytes != target.nbytes:
            raise LayerError(
                f"{where}: {output.name} has {output.nbytes} bytes, {target.name} "
                f"{target.nbytes}"
            )
