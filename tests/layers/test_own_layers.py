"""A layer of one's own, with its own kernels, from one's own file."""

import json
import sys
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest

import snref
from snref.__main__ import main
from snref.data import Dataset
from snref.layers import Softmax
from snref.layers.base import Layer
from snref.net import Net, route
from snref.planning.exchange import graph_to_json, plan_to_json
from snref.plans import RUN_VALUES, Launch, grid_of
from snref.training import LaunchError, Session, Settings

MODULE = '''
from numba import cuda

@cuda.jit
def forward(y, x, factor):
    """y[i] = factor x[i]."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = factor * x[i]

@cuda.jit
def wrong(y, x, factor):
    y[0] = undefined(x[0])

def plain(y, x, factor):
    pass
'''


@dataclass(frozen=True)
class Scale(Layer):
    """y = factor x, by any kernel."""

    kernel: object
    scalars: tuple = (0.5,)

    def output_shape(self, *inputs):
        return inputs[0]

    def launch(self, output, source):
        grid = grid_of(output.nbytes // 4)
        return (
            Launch(self.kernel, (output,), (source,), self.scalars, "flat", grid=grid),
        )

    def forward(self, node):
        return self.launch(node.y, node.x)

    def backward(self, node):
        return () if node.dx is None else self.launch(node.dx, node.dy)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The module "mine", in a folder of its own that Python searches."""
    sys.modules.pop("mine", None)  # of another test
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "mine"
    sys.modules.pop("mine", None)


def net_of(kernel, *scalars):
    net = Net("own")
    x = net.add("scale", Scale(kernel, scalars or (0.5,)), net.input((4, 1, 2, 2)))
    net.add("softmax", Softmax(), x)
    return net


def train(net):
    data = np.arange(32, dtype=np.float32).reshape(8, 1, 2, 2) / 32
    labels = np.arange(8, dtype=np.int32) % 4
    given = Dataset("few", data, labels, data[:0], labels[:0])
    return snref.train(net, data=given, device="cpu", threads=1)


def test_a_kernel_is_a_name_in_any_module_or_the_kernel_itself(mine):
    by_name = train(net_of("mine:forward"))
    by_object = train(net_of(sys.modules["mine"].forward))
    assert by_name.losses == by_object.losses
    assert by_name.losses != train(net_of("mine:forward", 2.0)).losses


def test_planning_does_not_import_the_module_of_a_kernel(mine):
    planned = snref.plan(net_of("mine:forward"))
    assert planned.plan.steps
    assert "mine" not in sys.modules


def test_a_graph_names_kernels_that_need_not_be_there(tmp_path, capsys):
    net = net_of("nowhere:forward")
    planned = snref.plan(net, preset="baseline")
    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    graph.write_text(json.dumps(graph_to_json(net, planned.costs)))
    plan.write_text(json.dumps(plan_to_json(planned.plan, route(net))))
    assert main(["verify", str(graph), str(plan)]) == 0, capsys.readouterr().err
    work = json.loads(graph.read_text())["route"][0]["work"]
    assert work[0]["kernel"] == "nowhere:forward"


def test_a_kernel_that_no_other_process_can_import_is_exported_as_that(mine):
    from numba import cuda

    @cuda.jit
    def local(y, x, factor):
        y[0] = factor * x[0]

    def exported(kernel):
        net = net_of(kernel)
        graph = graph_to_json(net, snref.plan(net).costs)
        return graph["route"][0]["work"][0]["kernel"]

    assert exported(local).endswith("local (not importable)")
    assert exported(import_module("mine").forward) == "mine:forward"


@pytest.mark.parametrize(
    ("kernel", "scalars", "message"),
    [
        ("relu.forwrad", (), "snref.kernels has no kernel 'relu.forwrad'"),
        ("mine:forwrad", (), "kernel 'mine:forwrad': module 'mine' .* has no function"),
        ("yours:forward", (), "there is no module 'yours'"),
        ("mine:plain", (), "kernel mine:plain: is not a @cuda.jit function"),
        ("mine:forward", (1.0, 2.0), r"mine.py:4\) takes 3 arguments \(y, x, factor\)"),
        ("mine:forward", ("slope",), "no value is called 'slope'; there are seed"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_before_training(
    mine, kernel, scalars, message
):
    with pytest.raises(ValueError, match=f"layer 'scale', forward: .*{message}"):
        train(net_of(kernel, *scalars))


def test_a_kernel_that_does_not_compile_is_named_with_its_layer_and_line(mine):
    where = r"layer 'scale', forward: kernel mine:wrong: .*mine.py:\d+: wrong: name "
    with pytest.raises(LaunchError, match=where):
        train(net_of("mine:wrong"))


def test_the_values_that_launches_may_name_are_those_of_a_session(mine):
    net = net_of("mine:forward")
    images, labels = np.zeros((4, 1, 2, 2), np.float32), np.zeros(4, np.int32)
    data = Dataset("zeros", images, labels, images[:0], labels[:0])
    session = Session(snref.plan(net), data, Settings(), "cpu", 1)
    assert tuple(session._values()) == RUN_VALUES
