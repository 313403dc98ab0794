"""Nets that are a chain of layers: LeNet, AlexNet, VGG, and one for 8x8 digits."""

from snref.layers import LRN, Conv, Dropout, Linear, MaxPool, ReLU, Softmax
from snref.layers.base import Layer
from snref.net import Net

VGG = {  # convolutions before every pooling: columns D and E
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


def digits(batch: int, input_size: int = 8) -> Net:
    """A small net for digits of 1 x 8 x 8, with the kinds of layers of AlexNet."""
    return _chain(
        "digits",
        (batch, 1, input_size, input_size),
        conv1=Conv(16, 3, padding=1),
        relu1=ReLU(),
        lrn1=LRN(),
        pool1=MaxPool(2),
        conv2=Conv(32, 3, padding=1),
        relu2=ReLU(),
        drop2=Dropout(0.25),
        fc3=Linear(10),
        softmax=Softmax(),
    )


def lenet(batch: int, input_size: int = 28) -> Net:
    """A net for digits or clothes of 1 x 28 x 28, with ReLU and max-pooling.

    Source: LeCun et al. 1998, section II-B.
    """
    return _chain(
        "lenet",
        (batch, 1, input_size, input_size),
        conv1=Conv(20, 5),
        pool1=MaxPool(2),
        conv2=Conv(50, 5),
        pool2=MaxPool(2),
        fc3=Linear(500),
        relu3=ReLU(),
        fc4=Linear(10),
        softmax=Softmax(),
    )


def alexnet(batch: int, input_size: int = 227) -> Net:
    """AlexNet: 23 layers, 62,378,344 parameters; without groups.

    Source: Krizhevsky et al. 2012, section 3.5.
    """
    return _chain(
        "alexnet",
        (batch, 3, input_size, input_size),
        conv1=Conv(96, 11, stride=4),
        relu1=ReLU(),
        lrn1=LRN(),
        pool1=MaxPool(3, stride=2),
        conv2=Conv(256, 5, padding=2),
        relu2=ReLU(),
        lrn2=LRN(),
        pool2=MaxPool(3, stride=2),
        conv3=Conv(384, 3, padding=1),
        relu3=ReLU(),
        conv4=Conv(384, 3, padding=1),
        relu4=ReLU(),
        conv5=Conv(256, 3, padding=1),
        relu5=ReLU(),
        pool5=MaxPool(3, stride=2),
        fc6=Linear(4096),
        relu6=ReLU(),
        drop6=Dropout(),
        fc7=Linear(4096),
        relu7=ReLU(),
        drop7=Dropout(),
        fc8=Linear(1000),
        softmax=Softmax(),
    )


def vgg16(batch: int, input_size: int = 227) -> Net:
    """VGG-16; see ``vgg``."""
    return vgg(16, batch, input_size)


def vgg19(batch: int, input_size: int = 227) -> Net:
    """VGG-19; see ``vgg``."""
    return vgg(19, batch, input_size)


def vgg(depth: int, batch: int, input_size: int = 227) -> Net:
    """VGG-16 or VGG-19; the usual input size is 224, SuperNeurons' is 227.

    Source: Simonyan and Zisserman 2015, table 1, columns D and E.
    """
    if depth not in VGG:
        raise ValueError(f"vgg of depth {depth}: there are 16 and 19")
    layers: dict[str, Layer] = {}
    for stage, convolutions in enumerate(VGG[depth], 1):
        filters = min(64 * 2 ** (stage - 1), 512)
        for i in range(1, convolutions + 1):
            layers[f"conv{stage}_{i}"] = Conv(filters, 3, padding=1)
            layers[f"relu{stage}_{i}"] = ReLU()
        layers[f"pool{stage}"] = MaxPool(2)
    return _chain(
        f"vgg{depth}",
        (batch, 3, input_size, input_size),
        **layers,
        fc6=Linear(4096),
        relu6=ReLU(),
        drop6=Dropout(),
        fc7=Linear(4096),
        relu7=ReLU(),
        drop7=Dropout(),
        fc8=Linear(1000),
        softmax=Softmax(),
    )


def _chain(name: str, shape: tuple[int, ...], **layers: Layer) -> Net:
    """Make a net of layers that each read the output of the one before."""
    net = Net(name)
    net.chain(net.input(shape), **layers)
    return net
