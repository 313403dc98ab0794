"""Long sums: their errors, and the order that makes them resumable.

The errors are those of equal terms, the worst for float32: every addition rounds the
same way.
"""

from dataclasses import replace

import numpy as np
import pytest

from snref.kernels import batchnorm, bias, linear, pool, softmax
from snref.layers import Conv, Linear
from snref.layers.base import Node, Part
from snref.layers.bias import bias_gradient as launches_of_bias
from snref.layers.conv_algorithms import algorithms
from snref.layers.slices import images_of_slice
from snref.plans import Launch, Tensor

from .reference import Array, assert_same_bits, execute, launch
from .test_conv import CASES, Case, computation
from .test_linear import node_of

EPS = float(np.finfo(np.float32).eps)
BLOCKED = 5e-6  # the error that sums with compensated blocks stay below
TILED = 2e-5  # and filter gradients
CHANNELS = (2,), (batchnorm.PIXELS, batchnorm.IMAGES)


def parts_of(node: Node, images: int) -> tuple[Node, Node]:
    """The node of a layer on the first images of its batch, and on the others."""

    def on(part: Part) -> Node:
        def cut(tensor: Tensor) -> Tensor:
            return Tensor(tensor.name, (part.images, *tensor.shape[1:]), tensor.kind)

        return replace(
            node,
            xs=(cut(node.x),),
            ys=(cut(node.y),),
            dys=(cut(node.dy),),
            part=part,
        )

    batch = node.x.shape[0]
    return on(Part(0, 0, images, batch)), on(Part(1, images, batch - images, batch))


def filter_of(node: Node) -> list[Launch]:
    """The launch of a fully connected layer's filter gradient."""
    work = node.layer.backward(node)
    return [w for w in work if isinstance(w, Launch) and "filter" in str(w.kernel)]


def constant(*shape: int, value: float = 0.1) -> Array:
    return np.full(shape, value, np.float32)


def error(actual: Array, exact: float) -> float:
    """The largest relative error."""
    return float(np.abs(actual.astype(np.float64) / exact - 1).max())


def global_average(x: Array) -> Array:
    return launch(pool.global_average_forward, (1,), (32,), [(*x.shape[:2], 1)], [x])[0]


def bias_gradient(dy: Array) -> Array:
    images = images_of_slice(dy.shape[2])
    at = (2,), (bias.BLOCK,)
    return launch(bias.backward, *at, [dy.shape[1]], [dy], [images, 0])[0]


def bias_gradient_of_rows(dy: Array) -> Array:
    at = (1,), (bias.BLOCK,)
    scalars = [images_of_slice(1), 0]
    return launch(bias.backward_rows, *at, [dy.shape[1]], [dy], scalars)[0]


def linear_gradient(x: Array, dy: Array) -> Array:
    shape = dy.shape[1], x.shape[1]
    return launch(linear.filter_64x64, (2, 2), (16, 16), [shape], [x, dy], [0])[0]


TENTH = float(np.float32(0.1))


@pytest.mark.parametrize("side", (7, 224, 512, 4096))
def test_a_mean_over_a_large_image_is_exact_to_a_few_units(side: int) -> None:
    assert error(global_average(constant(1, 1, side * side)), TENTH) < BLOCKED


def test_a_mean_with_an_infinity_is_infinite() -> None:
    x = constant(1, 1, 1000)
    x[0, 0, 100] = np.inf
    assert global_average(x)[0, 0, 0] == np.inf


def test_a_filter_gradient_over_a_large_image() -> None:
    case = Case((1, 1, 512, 512), (2, 1, 3, 3))
    for way in case.menu("filter"):
        (dw,) = computation(way, case.w)(constant(*case.x), constant(*case.y))
        assert error(dw, TENTH**2 * 510 * 510) < TILED, way.name


def test_bias_gradients_over_large_images_and_batches() -> None:
    assert error(bias_gradient(constant(1, 2, 512 * 512)), TENTH * 512**2) < BLOCKED
    assert error(bias_gradient(constant(150, 2, 3025)), TENTH * 150 * 3025) < BLOCKED
    assert error(bias_gradient_of_rows(constant(5000, 3)), TENTH * 5000) < BLOCKED


def test_a_linear_gradient_over_a_large_batch() -> None:
    dw = linear_gradient(constant(5000, 3), constant(5000, 2))
    assert error(dw, TENTH**2 * 5000) < TILED


def test_batch_norm_over_large_images() -> None:
    x = constant(2, 1, 512 * 512)
    x[:, :, ::2] = 0.3  # equal terms of the variance, too
    mean, variance = launch(batchnorm.statistics, *CHANNELS, [1, 1], [x])
    exact = x.astype(np.float64)
    assert error(mean, exact.mean()) < BLOCKED
    assert error(variance, exact.var()) < BLOCKED
    zero, one = constant(1, value=0), constant(1, value=1)
    inputs = [constant(*x.shape), constant(*x.shape), zero, one]
    dgamma, dbeta = launch(batchnorm.reduce, *CHANNELS, [1, 1], inputs, [0.0])
    assert error(dbeta, TENTH * x.size) < BLOCKED
    assert error(dgamma, TENTH**2 * x.size) < BLOCKED


def test_losses_of_many_classes_and_of_a_large_batch() -> None:
    at = (1,), (softmax.THREADS,)
    (loss,) = launch(softmax.mean, *at, [1], [constant(65536)])
    assert error(loss, TENTH) < TILED
    (y,) = launch(softmax.forward, *at, [(1, 131072)], [constant(1, 131072)])
    assert error(y, 1 / 131072) < TILED


# The order: slices are summed for themselves, then added one after the other.


def in_slices(total: Array, parts: list[Array]) -> None:
    """The total is the sum of the parts, each added to what is there, to the bit."""
    resumed = parts[0]
    for part in parts[1:]:
        resumed = resumed + part
    assert_same_bits(total, resumed)


@pytest.mark.parametrize("name", ["3x3, slices", "3x3, slices, groups", "1x1, many"])
def test_a_filter_gradient_goes_on_from_the_images_before(
    name: str, rng: np.random.Generator
) -> None:
    images = images_of_slice(CASES[name].y[2] * CASES[name].y[3])
    whole = of_batch(CASES[name], 2 * images + 1)
    x, dy = whole.inputs("filter", rng)
    parts = []
    for n in range(0, len(x), images):
        part = of_batch(whole, len(x[n : n + images]))
        (way, *_) = part.menu("filter")
        parts += computation(way, part.w)(x[n : n + images], dy[n : n + images])
    for way in whole.menu("filter"):
        (total,) = computation(way, whole.w)(x, dy)
        in_slices(total, parts)


@pytest.mark.parametrize("name", ["3x3, slices", "3x3, slices, groups", "1x1, many"])
def test_every_way_to_a_filter_gradient_adds_to_what_is_there(
    name: str, rng: np.random.Generator
) -> None:
    images = images_of_slice(CASES[name].y[2] * CASES[name].y[3])
    whole, part = (of_batch(CASES[name], n * images + 1) for n in (4, 2))
    x, dy = whole.inputs("filter", rng)
    here = slice(2 * images, None)
    before = of_batch(whole, 2 * images)
    stored = computation(before.menu("filter")[0], before.w)(
        *(v[: 2 * images] for v in (x, dy))
    )[0]
    expected = computation(whole.menu("filter")[0], whole.w)(x, dy)[0]
    window = whole.window
    ways = algorithms("filter", *part.shapes("filter"), window, resumes=True)
    assert [way.name for way in ways] == [way.name for way in whole.menu("filter")]
    for way in ways:
        tensors = [Tensor("dw", whole.w), Tensor("x", part.x), Tensor("dy", part.y)]
        size = (way.workspace // 4,)
        launches = way.launches(*tensors, Tensor("s", size) if size[0] else None)
        given = dict(zip(tensors, (stored, x[here], dy[here]), strict=True))
        assert_same_bits(execute(launches, given, tensors[:1])[0], expected)
        assert any(a.updates and tensors[0] in a.outputs for a in launches)


def of_batch(case: Case, images: int) -> Case:
    return replace(case, x=(images, *case.x[1:]))


def test_other_gradients_go_on_from_the_images_before(rng: np.random.Generator) -> None:
    def random(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    dy = random(20, 3, 169)  # slices of 8 images
    cut = [slice(0, 8), slice(8, 16), slice(16, 20)]
    in_slices(bias_gradient(dy), [bias_gradient(dy[s]) for s in cut])
    x, dy = random(70, 19), random(70, 5)  # slices of 32 images
    cut = [slice(0, 32), slice(32, 64), slice(64, 70)]
    parts = [bias_gradient_of_rows(dy[s]) for s in cut]
    in_slices(bias_gradient_of_rows(dy), parts)
    in_slices(linear_gradient(x, dy), [linear_gradient(x[s], dy[s]) for s in cut])


def test_biases_and_linear_layers_add_to_what_is_there(
    rng: np.random.Generator,
) -> None:
    """As their layers launch them, for the second part of a batch."""
    for layer, shape, images in (
        (Conv(3, 3, padding=1), (20, 2, 13, 13), 8),
        (Linear(5), (70, 19), 32),
    ):
        whole = node_of(layer, shape)
        x, dy = (rng.standard_normal(t.shape, np.float32) for t in (whole.x, whole.dy))
        db = whole.parameter_gradients["b"]
        first, second = parts_of(whole, images)
        expected = execute(launches_of_bias(whole), {whole.dy: dy}, [db])
        stored = execute(launches_of_bias(first), {first.dy: dy[:images]}, [db])
        given = {db: stored[0], second.dy: dy[images:]}
        assert_same_bits(execute(launches_of_bias(second), given, [db])[0], expected[0])
        if isinstance(layer, Linear):
            dw = whole.parameter_gradients["w"]
            ((total,), (before,)) = (
                execute(filter_of(node), {node.x: x[: len(part)], node.dy: part}, [dw])
                for node, part in ((whole, dy), (first, dy[:images]))
            )
            given = {dw: before, second.x: x[images:], second.dy: dy[images:]}
            assert_same_bits(execute(filter_of(second), given, [dw])[0], total)


def test_our_errors_are_within_a_small_multiple_of_those_of_pytorch(
    rng: np.random.Generator,
) -> None:
    torch = pytest.importorskip("torch")
    x = rng.random((1, 1, 512 * 512), dtype=np.float32)
    exact = x.astype(np.float64)
    ours = error(bias_gradient(x), exact.sum())
    theirs = error(torch.from_numpy(x).sum().numpy(), exact.sum())
    assert ours <= 4 * max(theirs, EPS)
    ours = error(global_average(constant(1, 1, 224 * 224)), TENTH)
    theirs = error(torch.full((224, 224), 0.1).mean().numpy(), TENTH)
    assert ours <= 8 * max(theirs, EPS)
    case = Case((1, 1, 512, 512), (1, 1, 3, 3))
    image, dy = constant(*case.x), constant(*case.y)
    (ours_dw,) = computation(case.menu("filter")[0], case.w)(image, dy)
    w = torch.zeros(case.w, requires_grad=True)
    torch.nn.functional.conv2d(torch.from_numpy(image), w).backward(
        torch.from_numpy(dy)
    )
    exact_dw = TENTH**2 * 510 * 510
    assert error(ours_dw, exact_dw) <= 4 * max(error(w.grad.numpy(), exact_dw), EPS)
