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
MOST_BLOCKS = 100_000  # of all stages: a million layers
ORIGINAL_SIZE = 227  # SuperNeurons' images; everyone else's are 224


def resnet50(batch: int, input_size: int = ORIGINAL_SIZE) -> Net:
    """ResNet-50; see ``resnet``."""
    return resnet(50, batch, input_size)


def resnet101(batch: int, input_size: int = ORIGINAL_SIZE) -> Net:
    """ResNet-101; see ``resnet``."""
    return resnet(101, batch, input_size)


def resnet152(batch: int, input_size: int = ORIGINAL_SIZE) -> Net:
    """ResNet-152; see ``resnet``."""
    return resnet(152, batch, input_size)


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
        if sum(blocks) > MOST_BLOCKS:
            raise ValueError(f"{name}: must have at most {MOST_BLOCKS} blocks")
    net = Net(name)
    padding = 0 if input_size == ORIGINAL_SIZE else 1
    x = net.chain(
        net.input((batch, 3, input_size, input_size)),
        conv1=Conv(64, 7, stride=2, padding=3, bias=False),
        bn1=BatchNorm(),
        relu1=ReLU(),
        pool1=MaxPool(3, stride=2, padding=padding),
    )
    for stage, count in enumerate(blocks, 2):
        width = 64 * 2 ** (stage - 2)
        for i in range(1, count + 1):
            stride = 2 if stage > 2 and i == 1 else 1
            x = _bottleneck(net, f"block{stage}_{i}", x, width, stride)
    net.chain(x, pool5=AveragePool(), fc=Linear(1000), softmax=Softmax())
    return net


def _bottleneck(net: Net, name: str, x: Value, width: int, stride: int) -> Value:
    """Add convolutions of 1x1, 3x3 and 1x1 to x, or to its projection."""
    y = net.chain(
        x,
        f"{name}.",
        conv1=Conv(width, 1, stride=stride, bias=False),
        bn1=BatchNorm(),
        relu1=ReLU(),
        conv2=Conv(width, 3, padding=1, bias=False),
        bn2=BatchNorm(),
        relu2=ReLU(),
        conv3=Conv(4 * width, 1, bias=False),
        bn3=BatchNorm(),
    )
    if x.shape != y.shape:
        project = Conv(4 * width, 1, stride=stride, bias=False)
        x = net.chain(x, f"{name}.", conv=project, bn=BatchNorm())
    y = net.add(f"{name}.add", Add(), y, x)
    return net.add(f"{name}.relu", ReLU(), y)
