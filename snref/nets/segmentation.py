"""U-Net: an image made small, and large again beside what it was."""

from snref.layers import Concat, Conv, ConvTranspose, MaxPool, PixelSoftmax, ReLU
from snref.net import Net, Value

LEVELS = 4  # times that the image is halved
WIDTH = 64  # channels before the first halving


def unet(batch: int, input_size: int = 512) -> Net:
    """U-Net for two classes of pixels of 1 x 512 x 512 images.

    Convolutions are padded, so that output and input have one size; the source mirrors
    the image's edge instead, and crops. Each level's output on the way down is read
    again at the same level on the way up.

    Source: Ronneberger et al. 2015, figure 1.
    """
    if input_size % 2**LEVELS:
        raise ValueError(f"input size {input_size}: must be a multiple of {2**LEVELS}")
    net = Net("unet")
    x = net.input((batch, 1, input_size, input_size))
    kept = []
    for level in range(LEVELS):
        x = _twice(net, f"down{level}", x, WIDTH * 2**level)
        kept.append(x)
        x = net.add(f"down{level}.pool", MaxPool(2), x)
    x = _twice(net, "bottom", x, WIDTH * 2**LEVELS)
    for level in reversed(range(LEVELS)):
        width = WIDTH * 2**level
        x = net.add(f"up{level}.enlarge", ConvTranspose(width, 2, stride=2), x)
        x = net.add(f"up{level}.concat", Concat(), kept.pop(), x)
        x = _twice(net, f"up{level}", x, width)
    net.chain(x, classes=Conv(2, 1), softmax=PixelSoftmax())
    return net


def _twice(net: Net, name: str, x: Value, filters: int) -> Value:
    """Add two 3x3 convolutions, each with a ReLU."""
    conv = Conv(filters, 3, padding=1)
    return net.chain(x, f"{name}.", conv1=conv, relu1=ReLU(), conv2=conv, relu2=ReLU())
