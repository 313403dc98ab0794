"""The gradient of a layer's forward, from differences of what it computes.

Forward computes in float32, so a difference over a small step is mostly rounding and
one over a large step mostly curvature. Two steps, 1/64 and half of it, give a
derivative in which the error of second order cancels; what they differ by, and how
far rounding can move each, bound the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snref.checking.declarations import added_up_by_update
from snref.checking.launching import run
from snref.checking.values import Array, Arrays, LayerError, element
from snref.layers.base import Node
from snref.plans import Launch, Tensor

STEP = 2.0**-6  # values are about 1
TOLERANCE = 2e-3  # relative; a wrong factor or term is far outside
ROUNDING = 16 * 2.0**-24  # relative; of an element of forward's output
MOST = 150  # elements of a tensor by which is differentiated


@dataclass(frozen=True)
class Derivatives:
    """Derivatives by elements of a tensor, and the last by all elements at once.

    low, high  the one-sided derivatives where they differ, as at a maximum that is
               there twice; otherwise both are the derivative
    tolerance  how far outside of them a gradient may be
    """

    tensor: Tensor
    gradient: Tensor
    elements: Array
    low: Array
    high: Array
    tolerance: Array

    def compare(self, found: Arrays) -> None:
        """Raise LayerError that names the element that is wrong the most, if one is."""
        flat = found[self.gradient].reshape(-1).astype(np.float64)
        given = np.append(flat[self.elements], flat.sum())
        excess = np.maximum(self.low - given, given - self.high) / self.tolerance
        worst = int(excess[:-1].argmax())
        what = element(self.gradient, self.elements[worst])
        if excess[worst] <= 1:
            worst, what = -1, f"the sum of {self.gradient.name}"
        if excess[worst] <= 1:
            return
        right = f"{self.low[worst]:.6g}"
        if self.low[worst] != self.high[worst]:
            right += f" to {self.high[worst]:.6g}"
        raise LayerError(
            f"{what} is {given[worst]:.6g}; differences of forward give {right}"
        )


def differentiate(
    node: Node,
    forward: Sequence[Launch],
    given: Arrays,
    random: np.random.Generator,
    parameters: bool = True,
) -> list[Derivatives]:
    """Differentiate forward by its inputs and, unless they are left out, parameters.

    Gradients that only update computes are left out.
    """
    pairs = [*zip(node.xs, node.dxs, strict=True)]
    if parameters:
        gradients, later = node.parameter_gradients, added_up_by_update(node)
        names = [name for name, dw in gradients.items() if dw not in later]
        pairs += [(node.parameters[name], gradients[name]) for name in names]
    made = {tensor for launch in forward for tensor in launch.outputs}
    before = {tensor: array for tensor, array in given.items() if tensor not in made}
    found = []
    for tensor, gradient in pairs:
        if gradient is not None:
            elements = np.arange(tensor.size)
            if tensor.size > MOST:
                elements = np.sort(random.choice(tensor.size, MOST, replace=False))
            low, high, tolerance = _derivatives(node, forward, before, tensor, elements)
            found.append(Derivatives(tensor, gradient, elements, low, high, tolerance))
    return found


def _derivatives(
    node: Node,
    forward: Sequence[Launch],
    given: Arrays,
    tensor: Tensor,
    elements: Array,
) -> tuple[Array, Array, Array]:
    """Return low, high and tolerance of derivatives by each element, and by all."""
    here, noise = _objective(node, run(forward, given))

    def slope(where: Any, step: float) -> float:
        moved = given[tensor].copy()
        moved.reshape(-1)[where] += np.float32(step)
        there, _ = _objective(node, run(forward, {**given, tensor: moved}))
        return (there - here) / step

    places = [*elements, slice(None)]
    right, left = (
        np.array([[slope(p, sign * step) for p in places] for step in (STEP, STEP / 2)])
        for sign in (1, -1)
    )
    central = (left + right) / 2
    best = (4 * central[1] - central[0]) / 3
    scale = np.sqrt(np.mean(np.square(best[:-1])))
    tolerance = TOLERANCE * (np.abs(best) + scale) + noise / STEP + 1e-12
    tolerance += np.abs(central[1] - central[0])
    # Half the step halves the distance between the sides, if there is a derivative.
    apart = np.abs(right - left)
    bent = (apart[1] > 0.55 * apart[0]) & (apart[1] > 2 * tolerance)
    low = np.where(bent, np.minimum(left[1], right[1]), best)
    high = np.where(bent, np.maximum(left[1], right[1]), best)
    return low, high, tolerance


def _objective(node: Node, found: Arrays) -> tuple[float, float]:
    """Return the number that is differentiated, and how far rounding may move it.

    It is the loss, or else the sum of all outputs times their gradients.
    """
    if node.layer.loss:
        loss = float(found[node.saved["loss"]][0])
        return loss, ROUNDING * abs(loss)
    pairs = zip(node.ys, node.dys, strict=True)
    products = [found[y].astype(np.float64) * found[dy] for y, dy in pairs]
    squares = sum(float(np.square(product).sum()) for product in products)
    return sum(float(product.sum()) for product in products), ROUNDING * squares**0.5
