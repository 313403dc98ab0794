"""Nets that are a chain of layers: LeNet, AlexNet, VGG."""

from snref.layer import Layer
from snref.layers import LRN, Conv, Dropout, Linear, MaxPool, ReLU, Softmax
from snref.net import Net, Value


def lenet(batch: int, input_size: int = 28) -> Net:
    """A small net for digits of 1 x 28 x 28.

    Source: LeCun et al. 1998, section II-B, with ReLU and max-pooling.
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
    """23 layers, 62,378,344 parameters: one tower, no groups, as SuperNeurons has it.

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
        drop6=Dropout(0.5),
        fc7=Linear(4096),
        relu7=ReLU(),
        drop7=Dropout(0.5),
        fc8=Linear(1000),
        softmax=Softmax(),
    )


def _chain(name: str, shape: tuple[int, ...], **layers: Layer) -> Net:
    """A net of these layers, each reading the one before."""
    net = Net(name)
    value: Value = net.input(shape)
    for layer_name, layer in layers.items():
        value = net.add(layer_name, layer, value)
    return net
