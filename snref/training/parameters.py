"""What training starts from, and the hash that tells whether two ended the same."""

import hashlib
from collections.abc import Mapping
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from snref.layers.base import Node
from snref.net import Net
from snref.planning.reports import RESIDENT
from snref.plans import Tensor
from snref.support.units import one_of

Array: TypeAlias = NDArray[Any]
Initialisation: TypeAlias = Literal["he", "xavier", "lecun", "pytorch"]

ONES = ("gamma", "running_variance")  # as batch normalization begins


def initial(net: Net, seed: int, init: Initialisation = "he") -> dict[Tensor, Array]:
    """Return the values to start from, of all tensors that stay on the device.

    Weights have mean 0. Their distribution is

    he       normal, of deviation gain / sqrt(fan-in); the gain is what the layer asks
             for that follows (``Layer.gain``): sqrt(2) before a ReLU (He et al. 2015,
             equation 10), 1 before other weights
    xavier   uniform, up to sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio 2010,
             equation 16)
    lecun    normal, of deviation 1 / sqrt(fan-in) (LeCun et al. 1998, section 4.6)
    pytorch  uniform, up to 1 / sqrt(fan-in), and biases alike: PyTorch's default

    All else is zero, but for the scales and variances of batch normalization, which
    are one. Each tensor has a random generator of its own. Raises ValueError for
    another name.
    """
    one_of("init", init, get_args(Initialisation))
    nodes = {t: node for node in net.nodes for t in node.parameters.values()}
    gains = _gains(net)
    arrays: dict[Tensor, Array] = {}
    # A merged gradient does not stay, but has a number: all declarations begin alike.
    for number, tensor in enumerate(net.tensors(*RESIDENT, "merged_gradient")):
        if tensor.scheduled:
            continue
        arrays[tensor] = np.zeros(tensor.shape, tensor.dtype)
        name, weights = tensor.name.rpartition(".")[2], len(tensor.shape) > 1
        random = np.random.default_rng((seed, number))
        if tensor.kind in ("parameter", "state") and name in ONES:
            arrays[tensor][:] = 1
        elif tensor.kind != "parameter":
            continue
        elif weights and init in ("he", "lecun"):
            node = nodes[tensor]
            fan_in, _ = node.layer.fans(tensor.shape)
            gain = gains[node] if init == "he" else 1
            arrays[tensor] = random.standard_normal(tensor.shape, np.float32)
            arrays[tensor] *= np.float32(gain * fan_in**-0.5)
        elif weights and init == "xavier":
            most = (6 / sum(nodes[tensor].layer.fans(tensor.shape))) ** 0.5
            arrays[tensor][:] = random.uniform(-most, most, tensor.shape)
        elif (weights or name == "b") and init == "pytorch":
            most = prod(nodes[tensor].parameters["w"].shape[1:]) ** -0.5
            arrays[tensor][:] = random.uniform(-most, most, tensor.shape)
    return arrays


def _gains(net: Net) -> dict[Node, float]:
    """Return what the layers that follow a node ask of its weights, by node.

    A layer that asks for nothing and has no weights passes the question on; of several
    readers the one that asks for most is heard.
    """
    readers: dict[Tensor, list[Node]] = {}
    for node in net.nodes:
        for x in node.xs:
            readers.setdefault(x, []).append(node)
    gains: dict[Node, float] = {}
    for node in reversed(net.nodes):
        asked = []
        for reader in (r for y in node.ys for r in readers.get(y, ())):
            if reader is node:  # a fork that shares, whose outputs are its input
                continue
            weighs = any(len(w.shape) > 1 for w in reader.parameters.values())
            passed = 1.0 if weighs else gains[reader]
            asked.append(passed if reader.layer.gain is None else reader.layer.gain)
        gains[node] = max(asked, default=1.0)
    return gains


def digest(arrays: Mapping[str, Array]) -> str:
    """Return a hash of arrays and their names: the same if every bit is.

    >>> digest({"w": np.zeros(2, np.float32)})[:12]
    'e5868624950d'
    """
    state = hashlib.sha256()
    for name in sorted(arrays):
        state.update(name.encode())
        state.update(np.ascontiguousarray(arrays[name]).tobytes())
    return state.hexdigest()
