"""The simple versions of a kernel give the bits of the fast one."""

import ast
import inspect
import textwrap

import numpy as np
import pytest

from snref.kernels import find
from snref.kernels.versions import VERSIONS, grid_and_block
from snref.layers import AveragePool, Conv, Linear, MaxPool
from snref.layers.base import Layer
from snref.plans import Choice, Launch, Shape

from .reference import assert_same_bits, execute, launch
from .test_linear import node_of

# Sizes that are no multiple of a tile.
LAYERS: dict[str, list[tuple[Layer, Shape]]] = {
    "matrix product": [(Linear(50, bias=False), (37, 75))],
    "convolution": [
        (Conv(21, 3, padding=1, bias=False), (2, 5, 9, 11)),
        (Conv(42, (3, 2), (2, 1), (1, 0), groups=2, bias=False), (2, 6, 8, 9)),
    ],
    "max pooling": [(MaxPool(3, 2, 1), (2, 3, 13, 10))],
    "average pooling": [
        (AveragePool(3, 2, 1), (2, 3, 13, 10)),
        (AveragePool((5, 2), 1, count_padding=True), (2, 3, 13, 10)),
    ],
}


def launches_of(layer: Layer, x: Shape) -> dict[str, Launch]:
    """The layer's forward by kernel; a convolution's by all that need no workspace."""
    node = node_of(layer, x)
    found = []
    for piece in layer.forward(node):
        if isinstance(piece, Choice):
            for way in piece.algorithms:
                if not way.workspace:
                    found += way.launches(piece.output, *piece.inputs, None)
        elif isinstance(piece, Launch):
            found.append(piece)
    return {launch.kernel: launch for launch in found}


@pytest.mark.slow
@pytest.mark.parametrize("operation", VERSIONS)
def test_every_version_gives_the_same_bits(
    operation: str, rng: np.random.Generator
) -> None:
    for layer, x in LAYERS[operation]:
        own = launches_of(layer, x)
        fast = own[VERSIONS[operation][-1]]
        y, inputs = fast.outputs[0], fast.inputs
        given = {
            tensor: rng.standard_normal(tensor.shape).astype(np.float32)
            for tensor in inputs
        }
        (expected,) = execute((fast,), given, (y,))
        for name in VERSIONS[operation][:-1]:
            if name in own:
                (actual,) = execute((own[name],), given, (y,))
            else:
                groups = getattr(layer, "groups", 1)
                grid, block = grid_and_block(name, y.shape, groups)
                scalars = fast.scalars
                if operation == "convolution":  # the fast one also takes sizes
                    scalars = own["conv.direct.forward"].scalars
                arrays = tuple(given.values())
                (actual,) = launch(find(name), grid, block, [y.shape], arrays, scalars)
            assert_same_bits(actual, expected)


def test_a_simple_version_is_short() -> None:
    """Else it is no version to read first."""
    for name, most in (("product", 7), ("product_16x16", 16), ("max_pool", 13)):
        source = inspect.getsource(find(f"versions.{name}").py_func)
        tree = ast.parse(textwrap.dedent(source)).body[0]
        statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        assert statements - 2 <= most  # without the function and its docstring
