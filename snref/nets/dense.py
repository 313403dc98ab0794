"""DenseNet: every layer of a block reads the outputs of all before it."""

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
    x = net.chain(
        net.input((batch, 3, input_size, input_size)),
        conv1=Conv(64, 7, stride=2, padding=3, bias=False),
        bn1=BatchNorm(),
        relu1=ReLU(),
        pool1=MaxPool(3, stride=2, padding=1),
    )
    for block, layers in enumerate(BLOCKS, 1):
        for i in range(1, layers + 1):
            x = _dense_layer(net, f"dense{block}_{i}", x)
        if block < len(BLOCKS):
            x = _transition(net, f"transition{block}", x)
    net.chain(
        x,
        bn=BatchNorm(),
        relu=ReLU(),
        pool=AveragePool(),
        fc=Linear(1000),
        softmax=Softmax(),
    )
    return net


def _dense_layer(net: Net, name: str, x: Value) -> Value:
    """Compute GROWTH channels from x, and concatenate x and them."""
    y = net.chain(
        x,
        f"{name}.",
        bn1=BatchNorm(),
        relu1=ReLU(),
        conv1=Conv(4 * GROWTH, 1, bias=False),
        bn2=BatchNorm(),
        relu2=ReLU(),
        conv2=Conv(GROWTH, 3, padding=1, bias=False),
    )
    return net.add(f"{name}.concat", Concat(), x, y)


def _transition(net: Net, name: str, x: Value) -> Value:
    """Halve the channels, the height and the width."""
    return net.chain(
        x,
        f"{name}.",
        bn=BatchNorm(),
        relu=ReLU(),
        conv=Conv(x.shape[1] // 2, 1, bias=False),
        pool=AveragePool(2),
    )
