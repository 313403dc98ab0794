"""Building nets, and their route."""

from typing import get_args

import pytest

from snref.layers import Add, Dropout, Linear, ReLU, Softmax
from snref.layers.base import Declarations
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


def test_without_it_nothing_before_the_first_parameter_has_a_gradient() -> None:
    net = Net("dropped")
    x = net.add("drop", Dropout(0.5), net.input((2, 8)))
    a, b = (net.add(name, Linear(4), x) for name in ("a", "b"))
    net.add("softmax", Softmax(), net.add("add", Add(), a, b))
    assert backward(net)[-1] == "drop"
    trained = net.with_options(image_gradient=False)
    layers = ["drop", "drop.fork", "b", "a", "add", "softmax"]
    assert names(trained) == names(net) == layers
    assert backward(trained) == ["softmax", "add", "b", "a"]
    written = [t for run in route(trained).runs() for t in run.writes]
    assert {t.name for t in written if t.kind == "gradient"} == {
        "add.dy",
        *(f"{name}.dy" for name in "ab"),
    }
    assert trained.with_options("lean").has_image_gradient is False
    assert trained.with_batch(3).has_image_gradient is False


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


def test_a_loss_is_read_by_nobody() -> None:
    net = Net("wrong")
    y = net.add("loss", Softmax(), net.input((2, 8)))
    net.add("other", Softmax(), y)
    with pytest.raises(ValueError, match="the loss 'loss' is read by another layer"):
        _ = net.nodes


def test_a_value_is_of_this_net_and_not_only_of_its_name() -> None:
    mine, other = Net("mine"), Net("other")
    mine.input((2, 8))
    x = other.input((2, 9))
    with pytest.raises(ValueError, match="layer 'fc': 'data' is not of this net"):
        mine.add("fc", Linear(3), x)
    with pytest.raises(ValueError, match="layer 'fc': 'data' is no value of a net"):
        mine.add("fc", Linear(3), "data")  # type: ignore[arg-type]
    again = mine.with_options("lean")
    with pytest.raises(ValueError, match=r"layer 'fc': .* is no layer"):
        again.add("fc", Linear, again.input)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "two\nlines", "\ud800", 3])
def test_a_name_is_on_one_line(name: str) -> None:
    net = Net("wrong")
    with pytest.raises(ValueError, match=r"the input is called .*is one line"):
        net.input((2, 8), name)
    x = net.input((2, 8))
    with pytest.raises(ValueError, match=r"a layer is called .*is one line"):
        net.add(name, Linear(3), x)


def test_names_that_would_mean_two_tensors_are_refused() -> None:
    net = Net("wrong")
    x = net.add("a.fork", Linear(8), net.input((2, 8)))
    y = net.add("a", Linear(8), x)
    net.add("loss", Softmax(), net.add("sum", Add(), y, y))
    with pytest.raises(ValueError, match=r"two layers are called 'a\.fork'"):
        _ = net.nodes
    net = Net("wrong")
    net.add("loss", Softmax(), net.input((2, 8), "labels"))
    with pytest.raises(ValueError, match="two tensors are called 'labels'"):
        _ = net.nodes


def test_sizes_are_whole_and_no_larger_than_a_device() -> None:
    net = Net("wrong")
    for shape in (2, 3.5), (2, "3"), (2, -1), (2, float("nan")):
        with pytest.raises(ValueError, match="every size is a whole number >= 1"):
            net.input(shape)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="more than 281474976710656 bytes"):
        net.input((2**40, 3, 2**10))
    x = net.input((2, 8))
    with pytest.raises(ValueError, match=r"'fc': a parameter .* more than"):
        net.add("fc", Linear(2**46), x)
    with pytest.raises(ValueError, match=r"'fc': a parameter .* whole number"):
        net.add("fc", Linear(2.5), x)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "value"), [("declarations", "leann"), ("fork", "x"), ("branch_order", "x")]
)
def test_an_option_of_a_net_that_is_not_there_is_refused(what: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{what} '{value}': must be one of"):
        Net("mine").with_options(**{what: value})  # type: ignore[arg-type]


def test_a_layer_has_the_same_number_under_all_options() -> None:
    """Dropout draws by it: an image that several layers read may have no fork."""
    for seed in range(20):
        net = random_net(seed)
        known = {node.name: node.number for node in net.nodes}
        for declarations in get_args(Declarations):
            for fork in "copy", "share":
                nodes = net.with_options(declarations, fork).nodes  # type: ignore[arg-type]
                assert all(known[node.name] == node.number for node in nodes)
