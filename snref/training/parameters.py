"""What training starts from, and the hash that tells whether two ended the same."""

import hashlib
from collections.abc import Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.net import Net
from snref.plans import Tensor

Array: TypeAlias = NDArray[Any]

ONES = ("gamma", "running_variance")  # as batch normalization begins


def initial(net: Net, seed: int) -> dict[Tensor, Array]:
    """Values to start from, of all that stays on the device.

    Weights are normal with variance 2 / fan-in (He et al. 2015, equation 10), from a
    generator of their own each, so that a net's weights do not depend on the others'.
    The rest is zero, but for scales and variances.
    """
    arrays: dict[Tensor, Array] = {}
    for number, tensor in enumerate(
        net.tensors("parameter", "parameter_gradient", "momentum", "state", "input")
    ):
        of_a_layer = tensor.kind in ("parameter", "state")
        if of_a_layer and tensor.name.rpartition(".")[2] in ONES:
            arrays[tensor] = np.ones(tensor.shape, np.float32)
        elif tensor.kind == "parameter" and len(tensor.shape) > 1:
            random = np.random.default_rng((seed, number))
            deviation = np.float32((2 / prod(tensor.shape[1:])) ** 0.5)
            values = random.standard_normal(tensor.shape, np.float32)
            arrays[tensor] = values * deviation
        else:
            arrays[tensor] = np.zeros(tensor.shape, tensor.dtype)
    return arrays


def digest(arrays: Mapping[str, Array]) -> str:
    """A hash of arrays and their names: the same if every bit is.

    >>> digest({"w": np.zeros(2, np.float32)})[:12]
    'e5868624950d'
    """
    state = hashlib.sha256()
    for name in sorted(arrays):
        state.update(name.encode())
        state.update(np.ascontiguousarray(arrays[name]).tobytes())
    return state.hexdigest()
