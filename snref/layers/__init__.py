"""The layers of nets: what each computes, and what it must read to do so.

Declarations only: shapes, kernels by name, and the tensors they read and write.
The kernels themselves are in ``snref/kernels``, under the same file names.
"""

from snref.layers.batchnorm import BatchNorm
from snref.layers.conv import Conv
from snref.layers.conv_transpose import ConvTranspose
from snref.layers.dropout import Dropout
from snref.layers.fork import Fork
from snref.layers.joins import Add, Concat
from snref.layers.linear import Linear
from snref.layers.lrn import LRN
from snref.layers.pool import AveragePool, MaxPool
from snref.layers.relu import ReLU
from snref.layers.softmax import PixelSoftmax, Softmax

__all__ = [
    "LRN",
    "Add",
    "AveragePool",
    "BatchNorm",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Dropout",
    "Fork",
    "Linear",
    "MaxPool",
    "PixelSoftmax",
    "ReLU",
    "Softmax",
]
