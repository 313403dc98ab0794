"""Fully connected layer and bias, as their layers launch them."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from snref import simt
from snref.kernels import linear as kernels
from snref.kernels import sgd
from snref.layers import Conv, Linear
from snref.layers.base import Layer, Node
from snref.layers.bias import add_bias, bias_gradient
from snref.layers.linear import LARGE, tiles
from snref.plans import Launch, Shape, Tensor

from .reference import (
    Array,
    Compute,
    assert_close,
    assert_reads,
    assert_repeatable,
    assert_same_bits,
    central_difference,
    execute,
)

# Images, inputs, outputs: small batches and large ones, most no multiple of a tile.
SIZES = [(1, 1, 1), (3, 37, 19), (20, 300, 130), (70, 75, 131), (64, 64, 64)]
OUTPUTS = [(3, 19), (70, 131), (2, 7, 5, 3), (3, 130, 11, 13)]


def node_of(layer: Layer, x: Shape) -> Node:
    """The layer in a net of its own."""
    y = layer.output_shape(x)
    shapes = layer.parameter_shapes(x)
    return Node(
        name="layer",
        number=1,
        layer=layer,
        xs=(Tensor("x", x),),
        ys=(Tensor("y", y),),
        dxs=(Tensor("dx", x, "gradient"),),
        dys=(Tensor("dy", y, "gradient"),),
        parameters={p: Tensor(p, s, "parameter") for p, s in shapes.items()},
        parameter_gradients={p: Tensor(f"d{p}", s) for p, s in shapes.items()},
        momenta={},
        saved={},
    )


def launch_of(work: Sequence[object], kernel: str) -> Launch:
    (found,) = (
        piece
        for piece in work
        if isinstance(piece, Launch) and piece.kernel.startswith(kernel)
    )
    return found


def computation(launch: Launch) -> Compute:
    """A launch as a function of its inputs; what it updates comes first."""

    def compute(*arrays: Array, threads: int | None = None) -> list[Array]:
        given = dict(zip(launch.reads, arrays, strict=True))
        return execute((launch,), given, launch.outputs, threads)

    return compute


def linear(part: str, images: int, inputs: int, outputs: int) -> Compute:
    node = node_of(Linear(outputs, bias=False), (images, inputs))
    work = node.layer.forward(node) if part == "forward" else node.layer.backward(node)
    return computation(launch_of(work, f"linear.{part}"))


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("images", "inputs", "outputs"), SIZES)
def test_linear_is_three_matrix_products(
    images: int, inputs: int, outputs: int, rng: np.random.Generator
) -> None:
    x, w, dy = (
        normal(rng, images, inputs),
        normal(rng, outputs, inputs),
        normal(rng, images, outputs),
    )
    exact = [value.astype(np.float64) for value in (x, w, dy)]
    size = images, inputs, outputs
    (y,) = linear("forward", *size)(x, w)
    (dx,) = linear("data", *size)(dy, w)
    (dw,) = linear("filter", *size)(x, dy)
    assert_close(y, exact[0] @ exact[1].T, inputs)
    assert_close(dx, exact[2] @ exact[1], outputs)
    assert_close(dw, exact[2].T @ exact[0], images)


@pytest.mark.parametrize("part", ["forward", "data", "filter"])
@pytest.mark.parametrize(("images", "inputs", "outputs"), SIZES[2:4])
def test_linear_repeats_to_the_bit_and_reads_its_inputs(
    part: str, images: int, inputs: int, outputs: int, rng: np.random.Generator
) -> None:
    shapes = {
        "forward": ((images, inputs), (outputs, inputs)),
        "data": ((images, outputs), (outputs, inputs)),
        "filter": ((images, inputs), (images, outputs)),
    }[part]
    compute = linear(part, images, inputs, outputs)
    arrays = [normal(rng, *shape) for shape in shapes]
    assert_repeatable(compute, *arrays)
    assert_reads(compute, *arrays)


@pytest.mark.parametrize(("images", "inputs", "outputs"), SIZES)
def test_a_step_without_memory_for_dw_has_the_bits_of_one_with_it(
    images: int, inputs: int, outputs: int, rng: np.random.Generator
) -> None:
    x, dy = normal(rng, images, inputs), normal(rng, images, outputs)
    w, v = normal(rng, outputs, inputs), normal(rng, outputs, inputs)
    (dw,) = linear("filter", images, inputs, outputs)(x, dy)
    rates = [np.float32(rate) for rate in (0.05, 0.9, 5e-4)]
    w0, v0 = w.copy(), v.copy()
    simt.compile(sgd.update)[(3,), (256,)](*(a.reshape(-1) for a in (w, v, dw)), *rates)
    grid = tiles(outputs, inputs, LARGE)
    simt.compile(kernels.descend_64x64)[grid, (16, 16)](w0, v0, x, dy, *rates)
    assert_same_bits(w0, w)
    assert_same_bits(v0, v)


def test_linear_gradients_are_central_differences(rng: np.random.Generator) -> None:
    images, inputs, outputs = 3, 7, 5
    x, w, dy = (
        normal(rng, images, inputs),
        normal(rng, outputs, inputs),
        normal(rng, images, outputs),
    )
    (dx,) = linear("data", images, inputs, outputs)(dy, w)
    (dw,) = linear("filter", images, inputs, outputs)(x, dy)
    assert_close(dx, central_difference(lambda x: x @ w.T, x, dy), outputs)
    assert_close(dw, central_difference(lambda w: x @ w.T, w, dy), images)


def test_linear_takes_images_of_any_shape(rng: np.random.Generator) -> None:
    node = node_of(Linear(6), (2, 3, 4, 5))
    forward = launch_of(node.layer.forward(node), "linear.forward")
    x, w = normal(rng, 2, 3, 4, 5), normal(rng, 6, 60)
    (y,) = computation(forward)(x, w)
    exact = x.reshape(2, 60).astype(np.float64) @ w.astype(np.float64).T
    assert_close(y, exact, 60)


def biased(shape: Shape) -> tuple[Launch, Launch]:
    """The launches of a bias for outputs of this shape."""
    if len(shape) == 2:
        node = node_of(Linear(shape[1]), (shape[0], 4))
    else:
        node = node_of(Conv(shape[1], 1), (shape[0], 1, *shape[2:]))
    (forward,), (backward,) = add_bias(node), bias_gradient(node)
    return forward, backward


@pytest.mark.parametrize("shape", OUTPUTS)
def test_bias_is_added_to_every_pixel_of_its_channel(
    shape: Shape, rng: np.random.Generator
) -> None:
    forward, backward = (computation(launch) for launch in biased(shape))
    y, b, dy = normal(rng, *shape), normal(rng, shape[1]), normal(rng, *shape)
    spread = b.reshape(1, -1, *(1 for _ in shape[2:]))
    (sum_,) = forward(y, b)
    assert np.array_equal(sum_, y + spread)
    others = cast(tuple[int, ...], (0, *range(2, len(shape))))
    (db,) = backward(dy)
    assert_close(db, dy.astype(np.float64).sum(others), dy.size // shape[1])


@pytest.mark.parametrize("shape", OUTPUTS)
def test_bias_repeats_to_the_bit_and_reads_its_inputs(
    shape: Shape, rng: np.random.Generator
) -> None:
    forward, backward = (computation(launch) for launch in biased(shape))
    y, b, dy = normal(rng, *shape), normal(rng, shape[1]), normal(rng, *shape)
    assert_repeatable(forward, y, b)
    assert_repeatable(backward, dy)
    assert_reads(forward, y, b)
    assert_reads(backward, dy)


def test_pytorch_agrees(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    images, inputs, outputs = 20, 300, 130
    x, w, b, dy = (
        normal(rng, images, inputs),
        normal(rng, outputs, inputs),
        normal(rng, outputs),
        normal(rng, images, outputs),
    )
    theirs = [torch.from_numpy(v).requires_grad_() for v in (x, w, b)]
    y = torch.nn.functional.linear(*theirs)
    y.backward(torch.from_numpy(dy))
    forward, backward = (computation(launch) for launch in biased((images, outputs)))
    size = images, inputs, outputs
    ours = (
        *forward(*linear("forward", *size)(x, w), b),
        *linear("data", *size)(dy, w),
        *linear("filter", *size)(x, dy),
        *backward(dy),
    )
    expected = (y.detach(), *(t.grad for t in (theirs[0], theirs[1], theirs[2])))
    for actual, value in zip(ours, expected, strict=True):
        assert_close(actual, value.numpy().astype(np.float64), 2 * inputs)
