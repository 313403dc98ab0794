"""Values for the tensors of a layer under check."""

from collections.abc import Iterator
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.layers.base import Node
from snref.plans import Tensor

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[Tensor, Array]

UNWRITTEN = {4: 0x7FC0BEEF, 2: 0x7E5D}  # a NaN of our own, by the bytes of an element


class LayerError(ValueError):
    """A layer is wrong. Names the layer, the phase, and the tensor, kernel or line."""


class Values:
    """Random values for the tensors of a node, always the same for a seed."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node = node
        self.random = np.random.default_rng(seed)

    def draw(self, ties: bool = False) -> Arrays:
        """Draw all tensors that are there before the layer runs.

        ties  inputs have equal elements, and zeros: forward may have no derivative
              there. Otherwise their elements are all different, and none is 0.
        """
        node = self.node
        made = {*node.ys} - {*node.xs} | {*node.dxs}
        tensors = dict.fromkeys((*node.tensors, *node.dys))
        return {t: self._draw(t, ties) for t in tensors if t not in made}

    def _draw(self, tensor: Tensor, ties: bool) -> Array:
        size = tensor.size
        if tensor.dtype == "int32":
            array: Array = self.random.integers(0, self.classes(tensor), size)
        elif tensor in self.node.xs:
            array = (np.arange(size) + 0.75) * 4 / size - 2
            array = self.random.permutation(np.round(2 * array) / 2 if ties else array)
        else:
            array = self.random.uniform(0.5, 1.5, size)
            # A state may be a variance. And with gradients dy of one sign, a gradient
            # dx lies between the one-sided derivatives where there is no other.
            if tensor.kind != "state" and not (ties and tensor in self.node.dys):
                array = array * self.random.choice((-1, 1), size)
        return array.astype(tensor.dtype).reshape(tensor.shape)

    def classes(self, labels: Tensor) -> int:
        """Return how many classes the labels of a loss tell apart."""
        return max(1, self.node.x.size // labels.size)

    def others(self, tensor: Tensor, array: Array) -> Iterator[Array]:
        """Yield other values for a tensor, most of which change what depends on it."""
        if tensor.dtype == "int32":
            yield (array + 1) % self.classes(tensor)
            return
        yield -array
        yield array[::-1].copy()
        yield self.random.standard_normal(array.shape).astype(array.dtype)
        yield np.full_like(array, np.nan)


def unwritten(tensor: Tensor) -> Array:
    """Return an array that is marked as unwritten in every element."""
    array = np.empty(tensor.shape, tensor.dtype)
    bits(array)[:] = UNWRITTEN[array.itemsize]
    return array


def bits(array: Array) -> Array:
    """See an array as unsigned integers, flat: equal only where all bits are."""
    return array.reshape(-1).view(f"u{array.itemsize}")


def same_bits(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


def element(tensor: Tensor, place: SupportsIndex) -> str:
    """Name an element by its place among all.

    >>> element(Tensor("ReLU.dx", (2, 5)), 8)
    'ReLU.dx[1, 3]'
    """
    index = np.unravel_index(int(place), tensor.shape)
    return f"{tensor.name}[{', '.join(str(int(i)) for i in index)}]"
