"""What a convolution says of its parts and of the ways to compute them."""

from itertools import product

import pytest

from snref.layers import Conv, ConvTranspose, Softmax
from snref.layers.base import Node
from snref.layers.conv_algorithms import (
    DATA,
    FILTER,
    FILTER_STRIDED,
    FORWARD,
    FORWARD_STRIDED,
    SIDE,
    algorithms,
)
from snref.net import Net
from snref.plans import Choice, Tensor

CONVOLUTIONS = [
    Conv(8, 3, padding=1),
    Conv(8, 3, stride=2),
    Conv(8, (1, 7), padding=(0, 3), groups=2),
    Conv(4, 5, stride=(2, 1), padding=(1, 0, 2, 1), groups=4),
    Conv(8, 1),
    Conv(16, 11, stride=4, padding=2),
]


def node(layer: Conv | ConvTranspose) -> Node:
    net = Net("one")
    x = net.input((2, 4, 12, 11))
    x = net.add("conv", layer, x)
    net.add("softmax", Softmax(), x)
    return net.nodes[0]


def choices(layer: Conv | ConvTranspose) -> dict[str, Choice]:
    conv = node(layer)
    work = (*conv.layer.forward(conv), *conv.layer.backward(conv))
    return {piece.part: piece for piece in work if isinstance(piece, Choice)}


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_the_first_algorithm_needs_no_workspace_and_is_chosen(conv: Conv) -> None:
    for choice in choices(conv).values():
        first, *others = choice.algorithms
        assert choice.chosen is first and choice.workspace is None
        assert first.workspace == 0 and first.order == "taps"
        names = [algorithm.name for algorithm in (first, *others)]
        assert {"direct", "tiled", "im2col"} <= set(names)
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_products_are_counted_one_by_one(conv: Conv) -> None:
    filters = conv.parameter_shapes((2, 4, 12, 11))["w"]
    sizes = (*conv.output_shape((2, 4, 12, 11)), *filters[1:])
    products = sum(1 for _ in product(*map(range, sizes)))
    for choice in choices(conv).values():
        assert choice.flops == 2 * products


def test_a_block_computes_the_tile_that_is_in_its_kernels_name() -> None:
    """Filters or channels by pixels of each of 16 threads; weights by filters."""
    for name, (height, width) in {**FORWARD, **FORWARD_STRIDED, **DATA}.items():
        rows, pixels = map(int, name.removeprefix("strided_").split("x"))
        assert (height, width) == (rows, SIDE * pixels), name
    for name, tile in {**FILTER, **FILTER_STRIDED}.items():
        assert tile == tuple(map(int, name.removeprefix("strided_").split("x"))), name


@pytest.mark.parametrize(
    ("filters", "groups", "first"),
    [(3, 1, "direct"), (4, 1, "tiled"), (6, 2, "direct"), (8, 2, "tiled")],
)
def test_few_filters_share_no_tile(filters: int, groups: int, first: str) -> None:
    x, y, w = (2, 4, 8, 8), (2, filters, 8, 8), (filters, 4 // groups, 1, 1)
    assert algorithms("forward", y, x, w, (1, 1, 0, 0, groups))[0].name == first


def test_winograd_is_for_filters_of_3x3_and_stride_1() -> None:
    def parts(conv: Conv) -> set[str]:
        return {
            part
            for part, choice in choices(conv).items()
            if any(algorithm.name == "winograd" for algorithm in choice.algorithms)
        }

    assert parts(Conv(8, 3, padding=1)) == {"forward", "data"}
    assert parts(Conv(8, 3, stride=2)) == set()
    assert parts(Conv(8, (3, 1))) == set()


def test_the_filter_gradient_comes_before_the_data_gradient() -> None:
    """So that the data gradient may take the memory of x."""
    conv = node(Conv(8, 3))
    work = conv.layer.backward(conv)
    assert [work[0].outputs[0].name, work[-1].outputs[0]] == ["conv.dw", conv.dx]
    assert isinstance(work[-1], Choice) and conv.x not in work[-1].reads


def test_without_a_bias_there_are_no_launches_for_it() -> None:
    with_bias, without = node(Conv(8, 3)), node(Conv(8, 3, bias=False))
    assert len(with_bias.layer.forward(with_bias)) == 2
    assert len(without.layer.forward(without)) == 1
    assert len(with_bias.layer.backward(with_bias)) == 3
    assert len(without.layer.backward(without)) == 2


def test_equal_convolutions_share_their_algorithms() -> None:
    one, other = choices(Conv(8, 3)), choices(Conv(8, 3))
    for part in one:
        assert one[part].algorithms is other[part].algorithms


@pytest.mark.parametrize("part", ["forward", "data", "filter"])
def test_a_transposed_convolution_has_the_parts_of_a_convolution_swapped(
    part: str,
) -> None:
    transposed = node(ConvTranspose(3, 2, stride=2))
    made = choices(ConvTranspose(3, 2, stride=2))
    large, small = transposed.y.shape, transposed.x.shape
    filters = transposed.parameters["w"].shape
    shapes = {
        "forward": (small, large, filters),
        "data": (large, small, filters),
        "filter": (filters, large, small),
    }
    expected = algorithms(part, *shapes[part], (2, 2, 0, 0, 1))  # type: ignore[arg-type]
    assert made[part].algorithms is expected
    assert {part: choice.output.name for part, choice in made.items()} == {
        "data": "conv.y",
        "filter": "conv.dw",
        "forward": "data.dy",
    }


@pytest.mark.parametrize(
    ("x", "filters", "window"),
    [
        ((2048, 64, 224, 224), (64, 64, 1, 1), (1, 1, 0, 0, 1)),
        ((4096, 3, 128, 128), (96, 3, 3, 3), (1, 1, 1, 1, 1)),
        ((16384, 64, 32, 32), (64, 64, 3, 3), (1, 1, 1, 1, 1)),
        ((128, 512, 32, 32), (512, 1, 3, 3), (1, 1, 1, 1, 512)),
        ((512, 144, 56, 56), (144, 1, 3, 3), (1, 1, 1, 1, 144)),
        ((4096, 3, 229, 229), (64, 3, 7, 7), (2, 2, 3, 3, 1)),
    ],
)
def test_grids_of_large_batches_are_those_that_gpus_have(
    x: tuple[int, ...], filters: tuple[int, ...], window: tuple[int, ...]
) -> None:
    down, across, top, left, _ = window
    image = (
        (x[2] + 2 * top - filters[2]) // down + 1,
        (x[3] + 2 * left - filters[3]) // across + 1,
    )
    y = (x[0], filters[0], *image)
    parts = {"forward": (y, x, filters), "data": (x, y, filters)}
    parts["filter"] = (filters, x, y)
    for part, shapes in parts.items():
        tensors = [Tensor(str(i), shape) for i, shape in enumerate(shapes)]
        for way in algorithms(part, *shapes, window):  # type: ignore[arg-type]
            scratch = (
                Tensor("scratch", (way.workspace // 4,)) if way.workspace else None
            )
            for launch in way.launches(*tensors, scratch):
                x_blocks, *others = launch.grid
                assert x_blocks < 2**31 and max(others, default=1) <= 65535, launch


def test_the_algorithms_of_many_nets_do_not_fill_the_memory() -> None:
    filters = (4, 4, 3, 3)
    for batch in range(1, 4200):
        images = (batch, 4, 5, 5)
        algorithms("forward", images, images, filters, (1, 1, 1, 1, 1))
    assert algorithms.cache_info().currsize <= 4096
    images = (4199, 4, 5, 5)
    latest = algorithms("forward", images, images, filters, (1, 1, 1, 1, 1))
    again = algorithms("forward", images, images, filters, (1, 1, 1, 1, 1))
    assert latest is again
