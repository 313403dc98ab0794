"""A net of one's own, with a layer of one's own."""

from leaky_relu import LeakyReLU

from snref import Net
from snref.layers import Add, AveragePool, Conv, Linear, ReLU, Softmax


def small(batch, input_size=8):
    net = Net("small residual")
    x = net.input((batch, 1, input_size, input_size))
    x = net.chain(x, conv0=Conv(8, 3, padding=1), act0=LeakyReLU(0.1))
    y = net.chain(x, conv1=Conv(8, 3, padding=1), act1=ReLU(), conv2=Conv(8, 1))
    x = net.add("add", Add(), x, y)
    net.chain(x, pool=AveragePool(2), fc=Linear(10), softmax=Softmax())
    return net
