"""What every layer says it reads and writes, against the original authors' table."""

from typing import get_args

import pytest

from snref.checking.declarations import added_up_by_update
from snref.layers import (
    LRN,
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    ConvTranspose,
    Dropout,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.layers.base import Declarations, Node
from snref.net import Net, route
from snref.nets import alexnet, find, random_net
from snref.plans import Choice, Launch, Run, Work
from snref.scheduler.in_place import overwrite

MIB = 2**20


def a_net_of_every_layer(declarations: Declarations) -> Net:
    net = Net("every", declarations)
    x = net.input((2, 4, 8, 8))
    x = net.add("conv", Conv(4, 3, padding=1), x)
    x = net.add("bn", BatchNorm(), x)
    x = net.add("act", ReLU(), x)
    x = net.add("lrn", LRN(), x)
    a = net.add("a", ReLU(), x)
    b = net.add("b", ReLU(), x)
    c = net.add("c", ReLU(), x)
    x = net.add("add", Add(), a, b, c)
    a = net.add("d", ReLU(), x)
    b = net.add("e", ReLU(), x)
    x = net.add("concat", Concat(), a, b)
    x = net.add("max", MaxPool(3, stride=2, padding=1), x)
    x = net.add("mean", AveragePool(2), x)
    x = net.add("up", ConvTranspose(3, 2, stride=2), x)
    x = net.add("fc", Linear(10), x)
    x = net.add("drop", Dropout(), x)
    net.add("softmax", Softmax(), x)
    return net


def roles(node: Node, work: tuple[Work, ...]) -> set[str]:
    """The data tensors of a run, by what they are to the layer.

    A gradient that the original writes in place counts as what it is written over.
    """
    names = {}
    for role, tensors in (
        ("y", node.ys),
        ("x", node.xs),
        ("dy", node.dys),
        ("dx", node.dxs),
    ):
        for i, tensor in enumerate(tensors):
            names[tensor] = role if len(tensors) == 1 else f"{role}{i}"
    names |= {tensor: name for name, tensor in node.scratch.items()}
    for piece in work:
        if isinstance(piece, Launch):
            for output, target, setting in piece.may_overwrite:
                if setting == "gradients":
                    names[output] = names[target]
    run = Run(node.name, "backward", work)
    return {names[tensor] for tensor in run.working_set if tensor.is_data}


def read_and_written(declarations: Declarations) -> dict[tuple[str, str], set[str]]:
    steps = {}
    for node in a_net_of_every_layer(declarations).nodes:
        steps[node.name, "forward"] = roles(node, node.layer.forward(node))
        steps[node.name, "backward"] = roles(node, node.layer.backward(node))
    return steps


# Section 1.3 of the derivation from the released code. Where the gradient is in place
# the table has dy and no dx; softmax's is y; add's first is dy; a fork's sum is dy0.
ORIGINAL = {
    "conv": "x dy dx",
    "fc": "x dy dx",
    "up": "x dy dx",
    "max": "x y dy dx",
    "mean": "x y dy dx",
    "act": "x y dy",
    "lrn": "x y dy",
    "bn": "x dy dx",
    "drop": "dy dx",
    "softmax": "x y",
    "lrn.fork": "dy0 dy1 dy2",
    "add": "dy dx1 dx2",
    "concat": "dy dx0 dx1",
}

# What the mathematics needs, with the same gradients in place.
LEAN = ORIGINAL | {
    "max": "x dy dx",
    "mean": "dy dx",
    "act": "y dy",
    "lrn": "x dy",
    "softmax": "y",
}

# The same where a gradient may lie on any activation: none reads y but the loss.
REUSE = LEAN | {"act": "x dy", "max": "x dy dx indices"}

# The same where y may lie on x: the signs of a ReLU are taken from y, ahead of that.
STATIC = REUSE | {"act": "y dy signs", "fc": "dy dx"}

FORWARD = dict.fromkeys(ORIGINAL, "x y") | {
    "lrn.fork": "x y0 y1 y2",
    "add": "x0 x1 x2 y",
    "concat": "x0 x1 y",
}


@pytest.mark.parametrize("layer", ORIGINAL)
def test_original_declarations_are_those_of_the_released_code(layer: str) -> None:
    steps = read_and_written("original")
    image = {"x"} if layer == "conv" else set()  # not a data tensor: the input
    assert steps[layer, "backward"] == set(ORIGINAL[layer].split()) - image
    assert steps[layer, "forward"] == set(FORWARD[layer].split()) - image


@pytest.mark.parametrize("layer", LEAN)
@pytest.mark.parametrize(
    ("declarations", "table"), [("lean", LEAN), ("reuse", REUSE), ("static", STATIC)]
)
def test_lean_declarations_are_what_the_mathematics_needs(
    declarations: Declarations, table: dict[str, str], layer: str
) -> None:
    steps = read_and_written(declarations)
    if layer == "conv":  # nobody wants the gradient of the image
        assert steps[layer, "backward"] == {"dy"}
    else:
        assert steps[layer, "backward"] == set(table[layer].split())


def test_a_shared_fork_has_no_forward() -> None:
    net = a_net_of_every_layer("lean")
    fork = next(node for node in net.nodes if node.name == "lrn.fork")
    assert fork.layer.forward(fork) == ()
    assert set(fork.ys) == {fork.x}


def test_the_list_of_the_released_code_counts_the_gradient_of_lrn_twice() -> None:
    listed = {}
    for run in overwrite(route(alexnet(200)), "gradients").runs():
        if run.phase == "backward":
            distinct, held = {}, []
            for piece in run.work:
                inputs = piece.inputs if isinstance(piece, Launch) else piece.reads
                distinct |= dict.fromkeys((*piece.outputs, *inputs))
                held += piece.retained if isinstance(piece, Launch) else ()
            tensors = [*distinct, *held]
            listed[run.layer] = sum(t.nbytes for t in tensors if t.is_data) / MIB
    largest = 96 * 55 * 55 * 200 * 4 / MIB
    assert listed["lrn1"] == pytest.approx(4 * largest)
    assert listed["relu1"] == pytest.approx(3 * largest)
    assert max(listed.values()) == listed["lrn1"]
    assert listed["lrn1"] == pytest.approx(886.2305, abs=1e-4)


@pytest.mark.parametrize("declarations", get_args(Declarations))
@pytest.mark.parametrize("seed", range(40))
def test_every_run_writes_what_its_layer_owes(
    seed: int, declarations: Declarations
) -> None:
    net = random_net(seed).with_options(declarations=declarations)
    for node in (node for node in net.nodes if node.dys or node.layer.loss):
        forward = Run(node.name, "forward", node.layer.forward(node))
        backward = Run(node.name, "backward", node.layer.backward(node))
        own = set(node.xs) | set(node.dys) | set(node.ys)
        own |= {*node.parameters.values(), *node.saved.values()}
        assert {t for t in node.ys if t not in node.xs} <= set(forward.writes)
        assert set(forward.reads) <= own - set(node.dys)
        owed, scratch = {t for t in node.dxs if t is not None}, {*node.scratch.values()}
        owed |= set(node.parameter_gradients.values()) - added_up_by_update(node)
        assert set(backward.writes) == owed | (set(backward.writes) & scratch)
        assert set(backward.reads) <= own


@pytest.mark.parametrize("seed", range(40))
def test_lean_reads_no_more_than_original(seed: int) -> None:
    original = random_net(seed).with_options(fork="copy")
    lean = original.with_options(declarations="lean")
    pairs = zip(original.nodes, lean.nodes, strict=True)
    for one, other in pairs:
        if not other.dys and not other.layer.loss:
            continue  # nothing before it is trained, so it has no backward
        more = Run(one.name, "backward", one.layer.backward(one)).reads
        fewer = Run(other.name, "backward", other.layer.backward(other)).reads
        assert {t.name for t in fewer} <= {t.name for t in more}


@pytest.mark.parametrize("declarations", get_args(Declarations))
@pytest.mark.parametrize("seed", range(40))
def test_what_may_be_overwritten_is_not_read_afterwards(
    seed: int, declarations: Declarations
) -> None:
    for run in route(random_net(seed).with_options(declarations=declarations)).runs():
        for i, piece in enumerate(run.work):
            if isinstance(piece, Choice):
                continue
            for output, target, _ in piece.may_overwrite:
                assert output in piece.outputs
                assert target in run.reads
                assert target.nbytes == output.nbytes
                later = run.work[i + 1 :]
                assert all(target not in other.reads for other in later)


@pytest.mark.parametrize("seed", range(40))
def test_a_kernel_is_given_each_tensor_once_unless_a_value_is_added_to_itself(
    seed: int,
) -> None:
    for run in route(random_net(seed)).runs():
        for launch in run.launches:
            given = (*launch.outputs, *launch.inputs)
            assert len(set(given)) == len(given)
            assert launch.kernel.count(".") in (1, 2)
            assert launch.flops >= 0 < launch.bytes_accessed


def test_layers_that_are_costly_are_checkpoints_and_only_convolutions_travel() -> None:
    net = a_net_of_every_layer("original")
    layers = {node.layer for node in net.nodes}
    kept = {type(layer).__name__ for layer in layers if layer.checkpoint}
    assert kept == {
        "Add",
        "Concat",
        "Conv",
        "ConvTranspose",
        "Fork",
        "Linear",
        "Softmax",
    }
    away = {type(layer).__name__ for layer in layers if layer.offload}
    assert away == {"Conv", "ConvTranspose"}


def test_running_statistics_move_in_the_update_and_nowhere_else() -> None:
    net = a_net_of_every_layer("original")
    written = {
        tensor.name: run.phase
        for run in route(net).runs()
        for tensor in run.writes
        if "running" in tensor.name
    }
    assert written == {"bn.running_mean": "update", "bn.running_variance": "update"}


def test_what_only_copies_counts_no_arithmetic():
    copies = "joins.copy", "joins.concat", "joins.split"
    found = set()
    for run in route(a_net_of_every_layer("original")).runs():
        for launch in run.launches:
            if launch.kernel in copies:
                found.add(launch.kernel)
                assert launch.flops == 0, run
                size = sum(tensor.nbytes for tensor in launch.outputs)
                assert launch.bytes_accessed >= size / len(launch.outputs)
            else:
                assert launch.flops > 0, run
    assert found == {*copies}


# Additions, multiplications, comparisons and functions for each element of the first
# output, counted by hand in the formulas of the layers' docstrings.
OPERATIONS = {
    "batchnorm.forward": 4,
    "batchnorm.backward": 8,
    "batchnorm.running": 8,
    "bias.forward": 1,
    "bias.forward_rows": 1,
    "dropout.forward": 1,
    "dropout.backward": 1,
    "joins.add": 1,
    "joins.accumulate": 1,
    "lrn.forward": 14,
    "lrn.backward": 30,
    "planned.embedding.forward": 1,
    "planned.gelu.forward": 8,
    "planned.gelu.backward": 13,
    "planned.layernorm.forward": 8,
    "planned.layernorm.backward": 13,
    "planned.pixel_softmax.forward": 9,
    "planned.pixel_softmax.backward": 2,
    "planned.token_softmax.forward": 9,
    "planned.token_softmax.backward": 2,
    "relu.forward": 1,
    "relu.backward": 1,
    "sgd.update": 6,
    "softmax.forward": 5,
    "softmax.backward": 2,
}
POOLS = "pool.average_forward", "pool.max_forward"


def test_each_kernel_counts_the_operations_of_its_formula() -> None:
    counted: dict[str, set[float]] = {}
    for net in a_net_of_every_layer("original"), find("gpt2", 1), find("unet", 1):
        for run in route(net).runs():
            for launch in run.launches:
                if launch.kernel in {*OPERATIONS, *POOLS}:
                    share = launch.flops / launch.outputs[0].size
                    counted.setdefault(launch.kernel, set()).add(share)
    # The windows of the pools are 2 x 2 here, and 3 x 3.
    assert [counted.pop(kernel) for kernel in POOLS] == [{4}, {4, 9}]
    assert counted == {kernel: {count} for kernel, count in OPERATIONS.items()}


def test_parameters_of_one_dimension_have_a_weight_decay_of_their_own():
    def decays(name: str) -> set[object]:
        return {
            launch.scalars[2]
            for run in route(a_net_of_every_layer("lean")).runs()
            for launch in run.work
            if isinstance(launch, Launch) and launch.kernel == "sgd.update"
            if launch.outputs[0].name == name
        }

    assert decays("fc.w") == decays("conv.w") == {"weight_decay"}
    assert decays("fc.b") == decays("bn.gamma") == {"bias_decay"}
