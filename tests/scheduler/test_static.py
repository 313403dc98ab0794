"""The second paper alone: regions that are never freed, and what lies in them."""

import pytest

from snref.layers import Conv, Dropout, Linear, MaxPool, ReLU, Softmax
from snref.net import Net, route
from snref.nets import find, random_net
from snref.planning.fit import Counting, fitted
from snref.planning.planned import options_of, plan
from snref.planning.reports import PlannedNet
from snref.plans import Alloc, Free, OutOfMemory, Run, Tensor, extent

MIB = 2**20


def regions(planned: PlannedNet) -> list[Tensor]:
    """The tensors that are allocated before the first run; no run needs another."""
    steps = planned.plan.steps
    first = next(i for i, step in enumerate(steps) if isinstance(step, Run))
    return [step.tensor for step in steps[:first] if isinstance(step, Alloc)]


def runs(planned: PlannedNet, layer: str) -> list[Run]:
    return [run for run in planned.plan.runs() if run.layer == layer]


def small(batch: int = 4) -> Net:
    net = Net("small")
    x = net.input((batch, 3, 8, 8))
    x = net.chain(x, conv1=Conv(8, 3, padding=1), relu1=ReLU(), pool1=MaxPool(2))
    x = net.chain(x, conv2=Conv(8, 3, padding=1), relu2=ReLU())
    x = net.chain(x, fc1=Linear(40), drop=Dropout(), fc2=Linear(10))
    net.add("softmax", Softmax(), x)
    return net


def test_relu_and_dropout_write_over_their_input_and_gradients_over_activations() -> (
    None
):
    planned = plan(small(), preset="reuse")
    names = [tensor.name for tensor in regions(planned)]
    own = ["conv1.y", "pool1.y", "conv2.y", "fc1.y", "fc2.y", "softmax.y"]
    # w of both fully connected layers is larger than x: their dx has a region.
    assert names == [*own, "drop.dy", "relu2.dy"]
    written = {
        (run.layer, run.phase): {t.name for t in run.writes if t.is_data}
        for run in planned.plan.runs()
    }
    assert written["relu1", "forward"] == {"conv1.y"}
    assert written["drop", "forward"] == {"fc1.y"}
    assert written["relu2", "prepare"] == {"relu2.signs"}
    assert written["conv2", "backward"] == {"pool1.y"}
    assert written["pool1", "backward"] == {"conv1.y"}  # windows that lie apart
    assert written["relu1", "backward"] == {"conv1.y"}


def test_the_signs_of_a_relu_are_taken_before_a_gradient_covers_its_output() -> None:
    for seed in range(20):
        net = random_net(seed).with_options("static", "share")
        order = [(run.layer, run.phase) for run in route(net).runs()]
        readers = [node for node in net.nodes if node.name in dict(order)]
        for node in net.nodes:
            if (node.name, "prepare") in order and isinstance(node.layer, ReLU):
                ready = order.index((node.name, "prepare"))
                behind = [
                    order.index((reader.name, "backward"))
                    for reader in readers
                    if node.y in reader.xs and node.y not in reader.ys
                ]
                assert ready < max(behind) < order.index((node.name, "backward"))


def test_one_region_as_large_as_the_largest_dw_serves_all_layers() -> None:
    planned = plan(find("alexnet", 16), preset="reuse")
    merged = [
        step
        for step in planned.plan.steps
        if isinstance(step, Alloc | Free) and step.tensor.kind == "merged_gradient"
    ]
    in_use, most = 0, 0
    for step in merged:
        in_use += step.tensor.nbytes * (1 if isinstance(step, Alloc) else -1)
        most = max(most, in_use)
    convolutions = [node for node in planned.net.nodes if node.name.startswith("conv")]
    largest = max(
        sum(t.nbytes for t in node.parameter_gradients.values())
        for node in convolutions
    )
    assert most == largest
    held = sum(tensor.aligned_bytes for tensor in regions(planned))
    indices = max(
        n.scratch["indices"].nbytes for n in planned.net.nodes if "pool" in n.name
    )
    assert extent(planned.plan) <= held + indices + most
    assert planned.resident["parameter_gradient"] == 0


@pytest.mark.parametrize(("batch", "alone"), [(4, True), (200, True), (9000, False)])
def test_the_smaller_of_x_and_w_has_its_gradient_first(batch: int, alone: bool) -> None:
    """fc7 of AlexNet: x has 4096 B elements, w 4096 x 4096."""
    planned = plan(find("alexnet", batch), preset="reuse")
    backward, update = runs(planned, "fc7")[-2:]
    made = {tensor.name for tensor in backward.writes}
    assert ("fc7.dw" in made) != alone
    assert {"fc7.w", "fc7.w.momentum"} <= {tensor.name for tensor in update.writes}
    assert ("drop6.y" in {tensor.name for tensor in update.reads}) == alone
    assert ("drop6.y" in made) != alone  # dx over x only where dw came first


@pytest.mark.parametrize(("net", "each"), [("vgg16", 57.55), ("vgg19", 62.53)])
def test_vgg_holds_an_image_s_blobs_once(net: str, each: float) -> None:
    """Every blob of Caffe once, dropout's outputs, and dx of three layers: 0.1 MiB."""
    planned = plan(find(net, 2, 224), preset="reuse")
    held = sum(tensor.nbytes for tensor in regions(planned))
    assert each < held / 2 / MIB < each + 0.17
    signs = 12.25 / 32  # of the largest ReLU
    assert planned.peak_bytes / 2 / MIB == pytest.approx(held / 2 / MIB + signs)


def test_a_limit_of_memory_is_kept_and_the_largest_batch_found() -> None:
    net = small()
    total = plan(net, preset="reuse").total_bytes
    assert fitted(net, total, preset="reuse").total_bytes == total
    with pytest.raises(OutOfMemory) as caught:
        fitted(net, total - 1, preset="reuse")
    assert caught.value.least == total
    made = net.with_options("static", "share")
    assert Counting().least(made, options_of("reuse")) <= total


def test_a_net_of_two_layers_needs_less_than_the_bound_of_plans_that_recompute() -> (
    None
):
    net = Net("wide")
    x = net.chain(net.input((64, 1, 16, 16)), conv=Conv(16, 3, padding=1), relu=ReLU())
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    total = plan(net, preset="reuse").total_bytes
    made = net.with_options("static", "share")
    counting = Counting()
    assert counting.least(made, options_of("reuse")) <= total
    assert total < counting.least(made, options_of("joint"))


def test_there_is_no_bound_of_plans_that_free_nothing() -> None:
    pytest.importorskip("scipy")
    with pytest.raises(ValueError, match="no bound for preset 'reuse'"):
        _ = plan(small(), preset="reuse").bound_seconds


def test_the_counting_rule_is_printed() -> None:
    said = plan(small(), preset="reuse").summary()
    assert "Gradients lie on activations" in said and "no image gradient" in said
    for given in {"preset": "joint"}, {"preset": "reuse", "overwrite": "never"}:
        assert "Every activation" not in plan(small(), **given).summary()
