"""Nets of every family, small enough to train many times in a test."""

import numpy as np

from snref.data import Dataset
from snref.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.net import Net
from snref.nets import digits, lenet
from snref.training.iteration import classes


def small_resnet(batch):
    """Two blocks with shortcuts; batch normalization, and dropout within a block."""
    net = Net("small resnet")
    x = net.add("conv0", Conv(8, 3, padding=1), net.input((batch, 3, 8, 8)))
    for block in "a", "b":
        y = x
        for i in "1", "2":
            y = net.add(f"conv{block}{i}", Conv(8, 3, padding=1, bias=False), y)
            y = net.add(f"bn{block}{i}", BatchNorm(), y)
            y = net.add(f"relu{block}{i}", ReLU(), y)
        y = net.add(f"drop{block}", Dropout(0.25), y)
        x = net.add(f"add{block}", Add(), x, y)
        x = net.add(f"relu{block}", ReLU(), x)
    x = net.add("pool", AveragePool(), x)
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    return net


def small_inception(batch):
    """Four branches, concatenated, twice."""
    net = Net("small inception")
    x = net.add("conv0", Conv(8, 3, padding=1), net.input((batch, 3, 8, 8)))
    for block in "a", "b":
        left = net.add(f"left{block}", Conv(4, 1), x)
        middle = net.add(f"squeeze{block}", Conv(4, 1), x)
        middle = net.add(f"relu{block}", ReLU(), middle)
        middle = net.add(f"middle{block}", Conv(8, 3, padding=1), middle)
        right = net.add(f"pool{block}", MaxPool(3, stride=1, padding=1), x)
        right = net.add(f"right{block}", Conv(4, 1), right)
        x = net.add(f"concat{block}", Concat(), x, left, middle, right)
    x = net.add("pool", AveragePool(), x)
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    return net


def small_densenet(batch):
    """Each layer reads all before it."""
    net = Net("small densenet")
    x = net.add("conv0", Conv(8, 3, padding=1), net.input((batch, 3, 8, 8)))
    for block in "a", "b", "c":
        y = net.add(f"bn{block}", BatchNorm(), x)
        y = net.add(f"relu{block}", ReLU(), y)
        y = net.add(f"conv{block}", Conv(4, 3, padding=1, bias=False), y)
        x = net.add(f"concat{block}", Concat(), x, y)
    x = net.add("pool", AveragePool(), x)
    net.add("softmax", Softmax(), net.add("fc", Linear(10), x))
    return net


FAMILIES = {
    "digits": digits,
    "lenet": lenet,
    "resnet": small_resnet,
    "inception": small_inception,
    "densenet": small_densenet,
}


def images_for(net, batches=1, held_out=0, seed=7):
    """Random labelled images for so many batches of a net."""
    random = np.random.default_rng(seed)

    def part(count):
        images = random.standard_normal((count, *net.input_shape[1:]), np.float32)
        return images, random.integers(0, classes(net), count).astype(np.int32)

    return Dataset("random", *part(batches * net.batch), *part(held_out))
