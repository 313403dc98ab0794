"""Residual nets of any depth, of bottleneck blocks."""

from collections.abc import Sequence

from snref.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Conv,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.net import Net, Value

BLOCKS: dict[int, tuple[int, ...]] = {
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
ORIGINAL_SIZE = 227  # SuperNeurons' images; everyone else's are 224


def resnet(
    depth: int | Sequence[int], batch: int, input_size: int = ORIGINAL_SIZE
) -> Net:
    """A residual net by depth (50, 101, 152) or by the blocks of its four stages.

    The depth is 3 (n1 + n2 + n3 + n4) + 2; SuperNeurons' deepest, (6, 32, 788, 6), is
    2498 deep. A stage halves the image in the first 1x1 convolution of its first block.
    Convolutions have no bias: batch normalization follows. The first pooling has no
    padding at 227, as in SuperNeurons' code, and 1 at other sizes, as in the source.

    Source: He et al. 2016, section 4.1.
    """
    if isinstance(depth, int):
        if depth not in BLOCKS:
            raise ValueError(
                f"resnet of depth {depth}: 50, 101, 152, or the blocks of 4 stages"
            )
        name, blocks = f"resnet{depth}", BLOCKS[depth]
    else:
        name, blocks = f"resnet:{','.join(map(str, depth))}", tuple(depth)
        if len(blocks) != 4 or min(blocks) < 1:
            raise ValueError(f"resnet of blocks {blocks}: must be 4 numbers >= 1")
    net = Net(name)
    x = net.input((batch, 3, input_size, input_size))
    x = net.add("conv1", Conv(64, 7, stride=2, padding=3, bias=False), x)
    x = net.add("bn1", BatchNorm(), x)
    x = net.add("relu1", ReLU(), x)
    padding = 0 if input_size == ORIGINAL_SIZE else 1
    x = net.add("pool1", MaxPool(3, stride=2, padding=padding), x)
    for stage, count in enumerate(blocks, 2):
        width = 64 * 2 ** (stage - 2)
        for i in range(1, count + 1):
            stride = 2 if stage > 2 and i == 1 else 1
            x = _bottleneck(net, f"block{stage}_{i}", x, width, stride)
    x = net.add("pool5", AveragePool(), x)
    x = net.add("fc", Linear(1000), x)
    net.add("softmax", Softmax(), x)
    return net


def _bottleneck(net: Net, name: str, x: Value, width: int, stride: int) -> Value:
    """1x1, 3x3 and 1x1 convolutions, added to x; to a projection if shapes differ."""
    normalize, rectify = BatchNorm(), ReLU()
    narrow = Conv(width, 1, stride=stride, bias=False)
    y = net.add(f"{name}.conv1", narrow, x)
    y = net.add(f"{name}.bn1", normalize, y)
    y = net.add(f"{name}.relu1", rectify, y)
    y = net.add(f"{name}.conv2", Conv(width, 3, padding=1, bias=False), y)
    y = net.add(f"{name}.bn2", normalize, y)
    y = net.add(f"{name}.relu2", rectify, y)
    y = net.add(f"{name}.conv3", Conv(4 * width, 1, bias=False), y)
    y = net.add(f"{name}.bn3", normalize, y)
    if x.shape != y.shape:
        project = Conv(4 * width, 1, stride=stride, bias=False)
        x = net.add(f"{name}.conv", project, x)
        x = net.add(f"{name}.bn", normalize, x)
    y = net.add(f"{name}.add", Add(), y, x)
    return net.add(f"{name}.relu", rectify, y)
