"""Train a tiny net on the cuda device in Numba's simulator; a process is simulated or
it is not, so this is one of its own: ``python simulated.py PRESET OUT.npz``.
"""

import os
import sys

if __name__ == "__main__":
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numpy as np

from snref.data import Dataset
from snref.layers import Add, BatchNorm, Conv, Dropout, Linear, MaxPool, ReLU, Softmax
from snref.net import Net
from snref.planning.planned import plan
from snref.training import Session, Settings


def tiny_net():
    """One layer of most kinds: the simulator runs some thousand threads a second."""
    net = Net("tiny")
    x = net.add("conv1", Conv(2, 3, padding=1), net.input((2, 1, 4, 4)))
    y = net.add("bn1", BatchNorm(), x)
    y = net.add("relu1", ReLU(), y)
    x = net.add("add", Add(), x, y)
    x = net.add("pool", MaxPool(2), x)
    x = net.add("drop", Dropout(0.25), x)
    net.add("softmax", Softmax(), net.add("fc", Linear(3), x))
    return net


def tiny_session(preset, device):
    """Two iterations of training it."""
    net = tiny_net()
    random = np.random.default_rng(3)
    images = random.standard_normal(net.input_shape, np.float32)
    data = Dataset("tiny", images, np.array([0, 2], np.int32), images[:0], images[:0])
    session = Session(plan(net, preset=preset), data, Settings(0.01), device)
    for _ in range(2):
        session.iterate(np.arange(2))
    assert session.device.in_use == 0
    return session


if __name__ == "__main__":
    trained = tiny_session(sys.argv[1], "cuda")
    np.savez(sys.argv[2], losses=trained.losses, **trained.state())
