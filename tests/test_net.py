"""Building nets, and their route."""

import pytest

from snref.layers import Add, Linear, ReLU, Softmax
from snref.net import BranchOrder, ForkMode, Net, route
from snref.nets import alexnet, random_net


def diamond() -> Net:
    """A value with two readers, joined again."""
    net = Net("diamond")
    x = net.input((2, 8))
    x = net.add("fc", Linear(4), x)
    a = net.add("a", ReLU(), x)
    b = net.add("b", ReLU(), x)
    x = net.add("add", Add(), a, b)
    net.add("softmax", Softmax(), x)
    return net


def names(net: Net) -> list[str]:
    return [node.name for node in net.nodes]


def backward(net: Net) -> list[str]:
    return [run.layer for run in route(net).runs() if run.phase == "backward"]


def test_layers_are_numbered_from_one_and_forks_are_layers() -> None:
    nodes = diamond().nodes
    assert [node.number for node in nodes] == [1, 2, 3, 4, 5, 6]
    assert [node.name for node in nodes if "fork" in node.name] == ["fc.fork"]


def test_copies_of_a_fork_are_tensors_of_their_own_and_shared_ones_are_not() -> None:
    by_name = {node.name: node for node in diamond().nodes}
    assert len({by_name["fc"].y, by_name["a"].x, by_name["b"].x}) == 3
    shared = {node.name: node for node in diamond().with_options(fork="share").nodes}
    assert len({shared["fc"].y, shared["a"].x, shared["b"].x}) == 1
    assert len({*shared["a"].dxs, *shared["b"].dxs, shared["fc"].dy}) == 3


@pytest.mark.parametrize(
    ("declarations", "fork", "expected"),
    [
        ("original", None, "copy"),
        ("lean", None, "share"),
        ("original", "share", "share"),
        ("lean", "copy", "copy"),
    ],
)
def test_forks_copy_by_default_only_under_the_original_declarations(
    declarations, fork: ForkMode | None, expected: ForkMode
) -> None:  # type: ignore[no-untyped-def]
    net = diamond().with_options(declarations=declarations, fork=fork)
    assert net.forks == expected


def test_the_original_runs_the_first_branch_last() -> None:
    net = diamond()
    tail = ["add", "softmax"]
    assert names(net) == ["fc", "fc.fork", "b", "a", *tail]
    natural = net.with_options(branch_order="natural")
    assert names(natural) == ["fc", "fc.fork", "a", "b", *tail]
    assert backward(net) == ["softmax", "add", "b", "a", "fc.fork", "fc"]
    assert backward(natural) == ["softmax", "add", "a", "b", "fc.fork", "fc"]


def test_options_make_another_net() -> None:
    net = diamond()
    nodes = net.nodes
    lean = net.with_options(declarations="lean")
    assert net.nodes is nodes and lean.nodes is not nodes
    assert lean.with_options().declarations == "lean"


def test_only_the_original_wants_the_gradient_of_the_images() -> None:
    net = alexnet(2)
    assert net.nodes[0].dx is not None
    assert net.with_options(declarations="lean").nodes[0].dx is None


def test_an_iteration_of_alexnet_has_46_steps_and_8_updates() -> None:
    phases = [run.phase for run in route(alexnet(200)).runs()]
    assert phases == ["forward"] * 23 + ["backward"] * 23 + ["update"] * 8


@pytest.mark.parametrize("order", ["original", "natural"])
@pytest.mark.parametrize("fork", ["copy", "share"])
@pytest.mark.parametrize("seed", range(40))
def test_a_route_visits_every_layer_once_each_way_after_what_it_reads(
    seed: int, fork: ForkMode, order: BranchOrder
) -> None:
    net = random_net(seed).with_options(fork=fork, branch_order=order)
    there = set(net.tensors("input", "parameter", "state", "momentum"))
    visits = []
    for run in route(net).runs():
        assert set(run.reads) <= there
        there |= set(run.writes)
        if run.phase != "update":
            visits.append((run.layer, run.phase))
    both = [(name, phase) for name in names(net) for phase in ("forward", "backward")]
    assert sorted(visits) == sorted(both)


def test_a_net_is_refused_with_the_name_of_what_is_wrong() -> None:
    net = Net("wrong")
    with pytest.raises(ValueError, match="'wrong' has no input"):
        _ = net.batch
    with pytest.raises(ValueError, match="every size is a whole number >= 1"):
        net.input((0, 3))
    with pytest.raises(ValueError, match="it has >= 2 sizes"):
        net.input((3,))
    x = net.input((2, 8))
    with pytest.raises(ValueError, match="'wrong' has no layers"):
        _ = net.nodes
    with pytest.raises(ValueError, match="has its input already: data"):
        net.input((2, 8))
    with pytest.raises(ValueError, match="layer 'fc' has no input"):
        net.add("fc", Linear(3))
    with pytest.raises(ValueError, match="layer 'add': 1 input"):
        net.add("add", Add(), x)
    net.add("fc", Linear(3), x)
    with pytest.raises(ValueError, match="two layers are called 'fc'"):
        net.add("fc", Linear(3), x)
    with pytest.raises(ValueError, match="ends in fc: it must end in one loss"):
        _ = net.nodes


def test_a_net_with_two_ends_is_refused() -> None:
    net = Net("twins")
    x = net.input((2, 8))
    net.add("one", Softmax(), x)
    net.add("other", Softmax(), x)
    with pytest.raises(ValueError, match="it must end in one loss"):
        _ = net.nodes
