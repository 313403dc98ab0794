"""Layers, parameters and tensors of the networks, as published."""

from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest

import snref
from snref.layers import Conv, Linear
from snref.net import Net, route
from snref.nets import (
    NAMES,
    alexnet,
    densenet121,
    digits,
    find,
    gpt2,
    inception_v4,
    lenet,
    resnet,
    unet,
    vgg,
)
from snref.scheduler.in_place import overwrite


def parameters(net: Net) -> int:
    return sum(prod(tensor.shape) for tensor in net.tensors("parameter"))


def data_tensors(net: Net) -> int:
    """Distinct outputs and data gradients, in place as the original has it."""
    plan = overwrite(route(net), "gradients")
    return len({t for run in plan.runs() for t in run.working_set if t.is_data})


@pytest.mark.parametrize(
    ("net", "layers", "tensors"),
    [
        (alexnet(200), 23, 36),
        (vgg(16, 32), 39, 62),
        (resnet(50, 32), 191, 332),
        (resnet(101, 32), 378, 655),
        (resnet(152, 32), 565, 978),
        (inception_v4(32), 513, 961),
        (inception_v4(32, original=True), 365, 665),
    ],
    ids=lambda value: value.name if isinstance(value, Net) else "",
)
def test_layers_and_data_tensors_are_those_of_superneurons(
    net: Net, layers: int, tensors: int
) -> None:
    assert len(net.nodes) == layers
    assert data_tensors(net) == tensors


@pytest.mark.parametrize(
    ("net", "count"),
    [
        (lenet(1), 431_080),  # Caffe's
        (alexnet(1), 62_378_344),  # SuperNeurons', without groups
        (vgg(16, 1), 138_357_544),
        (vgg(19, 1), 143_667_240),
        (resnet(50, 1), 25_557_032),
        (resnet(101, 1), 44_549_160),
        (resnet(152, 1), 60_192_808),
        (inception_v4(1), 42_679_816),
        (densenet121(1), 7_978_856),
        (unet(1), 31_030_658),
        (gpt2(1), 124_439_808),
    ],
    ids=lambda value: value.name if isinstance(value, Net) else "",
)
def test_parameters_are_as_published(net: Net, count: int) -> None:
    assert parameters(net) == count


@pytest.mark.parametrize(
    ("net", "products"),
    [(vgg(16, 1, 224), 15.5e9), (resnet(50, 1, 224), 3.86e9), (alexnet(1), 1.13e9)],
    ids=lambda value: value.name if isinstance(value, Net) else "",
)
def test_multiply_adds_are_as_published(net: Net, products: float) -> None:
    """VGG: Canziani et al. 2016; ResNet-50: He et al. 2016, table 1, 3.8 x 10^9."""
    flops = sum(
        node.layer.forward(node)[0].flops
        for node in net.nodes
        if isinstance(node.layer, Conv | Linear)
    )
    assert flops / 2 == pytest.approx(products, rel=0.01)


def test_the_deepest_resnet() -> None:
    blocks = (6, 32, 788, 6)
    net = resnet(blocks, 1)
    depth = sum(isinstance(node.layer, Conv | Linear) for node in net.nodes)
    projections = 4  # not counted as depth
    assert depth - projections == 3 * sum(blocks) + 2 == 2498
    assert len(net.nodes) == 9167
    assert round(parameters(net) / 1e6, 1) == 920.6


@pytest.mark.parametrize(
    ("make", "size", "features"),
    [
        (alexnet, 227, (256, 6, 6)),
        (lambda n, s: vgg(16, n, s), 227, (512, 7, 7)),
        (lambda n, s: vgg(19, n, s), 224, (512, 7, 7)),
        (lenet, 28, (50, 4, 4)),
        (digits, 8, (32, 4, 4)),
    ],
)
def test_the_last_images_of_a_chain(
    make: Callable[[int, int], Net], size: int, features: tuple[int, ...]
) -> None:
    images = [n.y.shape for n in make(3, size).nodes if len(n.y.shape) == 4]
    assert images[-1] == (3, *features)


@pytest.mark.parametrize("size", [224, 227, 256])
def test_stages_of_a_resnet_halve_the_image(size: int) -> None:
    net = resnet(50, 2, size)
    shapes = {node.name: node.y.shape for node in net.nodes}
    last = {2: (256, 56), 3: (512, 28), 4: (1024, 14), 5: (2048, 7)}
    count = {2: 3, 3: 4, 4: 6, 5: 3}
    for stage, (channels, side) in last.items():
        side = side * 256 // 224 if size == 256 else side
        shape = shapes[f"block{stage}_{count[stage]}.relu"]
        assert shape == (2, channels, side, side)


def test_modules_of_inception_have_the_shapes_of_the_figures() -> None:
    shapes = {node.name: node.y.shape[1:] for node in inception_v4(1).nodes}
    for name, shape in {
        "stem.4.concat": (160, 73, 73),
        "stem.5.concat": (192, 71, 71),
        "stem.6.concat": (384, 35, 35),
        "a4.concat": (384, 35, 35),
        "reduction_a.concat": (1024, 17, 17),
        "b7.concat": (1024, 17, 17),
        "reduction_b.concat": (1536, 8, 8),
        "c3.concat": (1536, 8, 8),
    }.items():
        assert shapes[name] == shape


def test_the_layers_of_a_dense_block_grow_by_32_channels() -> None:
    shapes = {node.name: node.y.shape[1:] for node in densenet121(1).nodes}
    assert shapes["dense1_6.concat"] == (256, 56, 56)
    assert shapes["dense2_12.concat"] == (512, 28, 28)
    assert shapes["dense3_24.concat"] == (1024, 14, 14)
    assert shapes["dense4_16.concat"] == (1024, 7, 7)


def test_a_unet_ends_as_large_as_it_began() -> None:
    net = unet(2, 64)
    assert net.nodes[-1].x.shape == (2, 2, 64, 64)
    assert net.nodes[-1].saved["labels"].shape == (2, 64, 64)


def test_the_head_of_gpt2_has_the_table_of_its_embedding() -> None:
    nodes = {node.name: node for node in gpt2(1, 16).nodes}
    head, embedding = nodes["head"], nodes["embedding"]
    assert head.parameters["tokens"] is embedding.parameters["tokens"]
    writers = [
        run.layer
        for run in route(gpt2(1, 16)).runs()
        if any(tensor.name == "embedding.dtokens" for tensor in run.writes)
    ]
    assert writers == ["head", "embedding"]
    updates = [r.layer for r in route(gpt2(1, 16)).runs() if r.phase == "update"]
    assert "head" not in updates and updates.count("embedding") == 1


@pytest.mark.parametrize(
    ("name", "batch", "size", "message"),
    [
        ("alexnet", 0, None, "batch 0: must be >= 1"),
        ("alexnet", 1, 0, "input size 0: must be >= 1"),
        ("alexnet", 1, 8, "smaller than the kernel of 11x11"),
        ("alexnut", 1, None, "there are lenet, alexnet, .*, random:SEED"),
        ("resnet", 1, None, "no net is called 'resnet'"),
        ("resnet:1,2,3", 1, None, "'resnet:1,2,3': .* 4 whole numbers"),
        ("resnet:1,2,3,0", 1, None, "4 numbers >= 1"),
        ("random:x", 1, None, "a whole number"),
        ("random:1", 1, 32, "draws its input size"),
        ("unet", 1, 100, "multiple of 16"),
        ("gpt2", 1, 2000, "T <= 1024"),
        ("no_such_module:f", 1, None, "no module 'no_such_module'"),
        ("math:f", 1, None, "no function 'f'"),
        ("math:gcd", 1, None, "returned int"),
    ],
)
def test_names_that_cannot_be_found_say_what_is_allowed(
    name: str, batch: int, size: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find(name, batch, size)


@pytest.mark.parametrize("name", [name for name in NAMES if ":" not in name])
def test_every_name_is_a_function_of_snref_nets(name: str) -> None:
    made, found = getattr(snref.nets, name)(2), find(name, 2)
    assert [node.name for node in made.nodes] == [node.name for node in found.nodes]
    assert made.name == found.name == name
    assert name in dir(snref.nets)
    assert not (Path(snref.nets.__file__).parent / f"{name}.py").exists()
    with pytest.raises(AttributeError, match="no attribute 'lennet'"):
        _ = snref.nets.lennet


def test_a_resnet_that_no_machine_could_hold_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="at most 100000 blocks"):
        find("resnet:1,1,1,9999999999", 1)


def test_every_name_is_found() -> None:
    for name in NAMES:
        if ":" not in name:
            assert find(name, 2).batch == 2
    assert find("resnet:1,1,1,1", 2).batch == find("random:7", 3).batch - 1 == 2
    assert find("snref.nets.chains:lenet", 2, 32).input_shape == (2, 1, 32, 32)


@pytest.mark.parametrize("depth", [18, 34])
def test_depths_that_are_not_there_are_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=f"resnet of depth {depth}"):
        resnet(depth, 1)
    with pytest.raises(ValueError, match=f"vgg of depth {depth}"):
        vgg(depth, 1)


def test_a_function_is_no_name_of_a_net():
    with pytest.raises(ValueError, match="is no name of a net, nor a Net"):
        find(find, 2)
