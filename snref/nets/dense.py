"""DenseNet: every layer of a block reads all before it."""

from snref.layers import (
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.net import Net, Value

GROWTH = 32  # channels that every layer adds
BLOCKS = (6, 12, 24, 16)


def densenet121(batch: int, input_size: int = 224) -> Net:
    """DenseNet-121: 7,978,856 parameters; SuperNeurons calls this a full join.

    Source: Huang et al. 2017, table 1, with bottlenecks and compression (DenseNet-BC).
    """
    net = Net("densenet121")
    x = net.input((batch, 3, input_size, input_size))
    x = net.add("conv1", Conv(64, 7, stride=2, padding=3, bias=False), x)
    x = net.add("bn1", BatchNorm(), x)
    x = net.add("relu1", ReLU(), x)
    x = net.add("pool1", MaxPool(3, stride=2, padding=1), x)
    for block, layers in enumerate(BLOCKS, 1):
        for i in range(1, layers + 1):
            x = _dense_layer(net, f"dense{block}_{i}", x)
        if block < len(BLOCKS):
            x = _transition(net, f"transition{block}", x)
    x = net.add("bn", BatchNorm(), x)
    x = net.add("relu", ReLU(), x)
    x = net.add("pool", AveragePool(), x)
    x = net.add("fc", Linear(1000), x)
    net.add("softmax", Softmax(), x)
    return net


def _dense_layer(net: Net, name: str, x: Value) -> Value:
    """x and, after it, GROWTH channels made from it."""
    y = net.add(f"{name}.bn1", BatchNorm(), x)
    y = net.add(f"{name}.relu1", ReLU(), y)
    y = net.add(f"{name}.conv1", Conv(4 * GROWTH, 1, bias=False), y)
    y = net.add(f"{name}.bn2", BatchNorm(), y)
    y = net.add(f"{name}.relu2", ReLU(), y)
    y = net.add(f"{name}.conv2", Conv(GROWTH, 3, padding=1, bias=False), y)
    return net.add(f"{name}.concat", Concat(), x, y)


def _transition(net: Net, name: str, x: Value) -> Value:
    """Half the channels, half the height and width."""
    x = net.add(f"{name}.bn", BatchNorm(), x)
    x = net.add(f"{name}.relu", ReLU(), x)
    x = net.add(f"{name}.conv", Conv(x.shape[1] // 2, 1, bias=False), x)
    return net.add(f"{name}.pool", AveragePool(2), x)
