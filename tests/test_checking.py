"""check_layer says what is wrong with a layer, and nothing of one that is right."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from numba import cuda, float32

import snref
from snref.checking import LayerError, check_layer
from snref.checking.declarations import node_of
from snref.layers import (
    LRN,
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    ConvTranspose,
    Dropout,
    Fork,
    Linear,
    MaxPool,
    PixelSoftmax,
    ReLU,
    Softmax,
)
from snref.layers.base import Layer, Node, elementwise
from snref.plans import Choice, Launch, Tensor, Work

IMAGES = (2, 3, 5, 6)
EXAMPLES = {  # every layer, with shapes of its inputs
    "LRN": [(LRN(3), (2, 5, 3, 4))],
    "Add": [(Add(), (2, 3, 4), (2, 3, 4), (2, 3, 4))],
    "AveragePool": [
        (AveragePool((2, 3), stride=1), IMAGES),
        (AveragePool(3, stride=2, padding=1, count_padding=True), IMAGES),
        (AveragePool(), IMAGES),
    ],
    "BatchNorm": [(BatchNorm(), (4, 3, 5)), (BatchNorm(), (6, 5))],
    "Concat": [(Concat(), (2, 3, 4, 2), (2, 1, 4, 2))],
    "Conv": [
        (Conv(4, 3, padding=1), IMAGES),
        (Conv(4, (3, 2), stride=2, padding=(0, 1), groups=2), (3, 4, 5, 6)),
        (Conv(3, 1, bias=False), (1, 5, 3, 4)),
    ],
    "ConvTranspose": [(ConvTranspose(3, 2, stride=2), (2, 4, 3, 2))],
    "Dropout": [(Dropout(0.4), (5, 11))],
    "Fork": [(Fork(3), (3, 7)), (Fork(2, copies=False), (3, 7))],
    "Linear": [(Linear(4), (5, 3, 2)), (Linear(3, bias=False), (2, 7))],
    "MaxPool": [(MaxPool(3, stride=2, padding=1), IMAGES), (MaxPool(2), IMAGES)],
    "ReLU": [(ReLU(), (3, 5, 7))],
    "Softmax": [(Softmax(), (5, 7)), (Softmax(), (2, 3, 2))],
}
UNWRITTEN = {"PixelSoftmax"}  # layers whose kernels are not written yet
ONE_A_FAMILY = {"Add", "Dropout", "Linear", "ReLU"}


def test_every_layer_has_an_example() -> None:
    assert EXAMPLES.keys() | UNWRITTEN == {*snref.layers.__all__}
    assert not EXAMPLES.keys() & UNWRITTEN


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ONE_A_FAMILY else pytest.mark.slow)
        for name in EXAMPLES
    ],
)
def test_a_layer_is_what_it_declares(name: str) -> None:
    for layer, *shapes in EXAMPLES[name]:
        assert type(layer).__name__ == name
        check_layer(layer, *shapes)


def test_a_layer_without_kernels_is_said_to_have_none() -> None:
    with pytest.raises(LayerError, match=r"pixel_softmax\.forward is not written"):
        check_layer(PixelSoftmax(), (2, 3, 4, 5))


# Mistakes in the launches of a layer


COMMUTATIVE = {"joins.add"}  # its inputs may be swapped


def mistakes(launch: Launch) -> Iterator[tuple[str, Launch]]:
    """Yield a misspelt kernel, a scalar too few, and every two inputs swapped."""
    yield "has no kernel", replace(launch, kernel=f"{launch.kernel_name}x")
    if launch.scalars:
        yield "nothing is given for", replace(launch, scalars=launch.scalars[:-1])
    for a, b in combinations(range(len(launch.inputs)), 2):
        if launch.kernel_name not in COMMUTATIVE:
            inputs = list(launch.inputs)
            inputs[a], inputs[b] = inputs[b], inputs[a]
            yield "it is right with", replace(launch, inputs=tuple(inputs))


def with_launch(layer: Layer, phase: str, index: int, wrong: int) -> Layer:
    """Copy a layer, with the mistake of this number in a launch of a phase."""
    right = type(layer)

    def launches(self: Layer, node: Node) -> tuple[Work, ...]:
        work = list(getattr(right, phase)(self, node))
        if index < len(work):  # it may have fewer where a gradient is not wanted
            _, work[index] = list(mistakes(work[index]))[wrong]
        return tuple(work)

    made = copy(layer)
    object.__setattr__(made, "__class__", type("Wrong", (right,), {phase: launches}))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mistake_in_any_launch_of_a_layer_is_named(name: str) -> None:
    layer, *shapes = EXAMPLES[name][0]
    node = node_of(layer, shapes)
    for phase in "forward", "backward":
        for index, piece in enumerate(getattr(layer, phase)(node)):
            if isinstance(piece, Launch):
                for wrong, (words, _) in enumerate(mistakes(piece)):
                    found = objection(with_launch(layer, phase, index, wrong), *shapes)
                    assert words in found, f"{phase} of {name}, launch {index}"


# Kernels, right and wrong


@cuda.jit
def double(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = float32(2) * x[i]


@cuda.jit
def scale(y, x, factor):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = factor * x[i]


@cuda.jit
def all_but_one(y, x):
    for i in range(cuda.grid(1), x.size - 1, cuda.gridsize(1)):
        y[i] = float32(2) * x[i]


@cuda.jit
def racy(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = float32(2) * x[i]
        y[(i + 1) % x.size] = float32(0)


@cuda.jit
def too_far(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = float32(2) * x[i + 1]


@cuda.jit
def reversing(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = float32(2) * x[x.size - 1 - i]


@cuda.jit
def accumulating(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] += float32(2) * x[i]


@cuda.jit
def adding_by_atomics(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]
        cuda.atomic.add(y, i, x[i])


@cuda.jit
def destroying(y, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = float32(2) * x[i]
        x[i] = float32(0)


@cuda.jit
def double_of_two(y, x, other):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = float32(2) * x[i]


@cuda.jit
def all_maxima(dx, x, dy):
    """A wrong gradient of the maximum of pairs: both get it where they are equal."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        dx[i] = dy[i // 2] if x[i] >= x[i ^ 1] else float32(0)


@dataclass(frozen=True)
class Double(Layer):
    """y = 2 x; right, unless it is given a wrong kernel."""

    kernel: object = double
    back: object = double
    in_place: bool = False

    def forward(self, node: Node) -> tuple[Launch, ...]:
        in_place = (node.x, "activations") if self.in_place else None
        return elementwise(self.kernel, node.y, node.x, in_place=in_place)

    def backward(self, node: Node) -> tuple[Launch, ...]:
        return elementwise(self.back, node.dx, node.dy)


def objection(layer: Layer, *shapes: tuple[int, ...]) -> str:
    with pytest.raises(LayerError) as raised:
        check_layer(layer, *(shapes or [(3, 4)]))
    return str(raised.value)


def test_a_kernel_that_is_given_as_an_object_is_checked() -> None:
    check_layer(Double(in_place=True), (3, 4))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (
            Double("relu.forwrad"),
            ["Double forward: snref.kernels has no kernel 'relu.forwrad'"],
        ),
        (
            Double(scale),
            ["kernel test_checking:scale", "nothing is given for factor"],
        ),
        (
            Double(back="joins.copy"),
            ["Double backward: Double.dx[", "differences of forward give"],
        ),
        (Double(racy), ["forward: kernel", "line", "y[", "written"]),
        (Double(too_far), ["forward: kernel", "x[12] is out of bounds"]),
        (Double(all_but_one), ["Double forward", "y[11] is never written"]),
        (
            Double(reversing, in_place=True),
            ["Double.y may not lie on Double.x", "reversing"],
        ),
        (Double(accumulating), ["before anything was written", "say updates=True"]),
        (Double(adding_by_atomics), ["Double forward", "an atomic sum in y"]),
        (Double(destroying), ["destroying changes its input Double.x"]),
    ],
)
def test_a_wrong_kernel_is_named(layer: Layer, words: list[str]) -> None:
    found = objection(layer)
    for word in words:
        assert word in found


class SwappedReLU(ReLU):
    def backward(self, node: Node) -> tuple[Launch, ...]:
        return elementwise("relu.backward", node.dx, node.dy, node.y)


def test_swapped_inputs_are_named() -> None:
    found = objection(SwappedReLU())
    assert "SwappedReLU.dy and SwappedReLU.y swapped among the inputs of" in found
    assert "kernel relu.backward" in found


class Needless(Double):
    def forward(self, node: Node) -> tuple[Launch, ...]:
        return elementwise(double, node.y, node.x)

    def backward(self, node: Node) -> tuple[Launch, ...]:
        return elementwise(double_of_two, node.dx, node.dy, node.x)


def test_an_input_that_does_not_matter_is_named() -> None:
    found = objection(Needless())
    assert "double_of_two reads Needless.x, but what it writes does not" in found


class NoneIgnored(Double):
    def backward(self, node: Node) -> tuple[Launch, ...]:
        return (
            *elementwise(double, node.dx, node.dy),
            Launch(double, (node.dx,), (node.dy,), view="flat"),
        )

    def parameter_shapes(self, *inputs):
        return {"w": (1,)}


class Reader(Double):
    def forward(self, node: Node) -> tuple[Launch, ...]:
        return elementwise(double, node.y, node.dy)


class Forgetful(Linear):
    def backward(self, node: Node) -> tuple[Launch, ...]:
        return tuple(x for x in super().backward(node) if "bias" not in x.kernel_name)


class Counting(Double):
    """Counts in forward how often it ran, which a recomputation would do again."""

    def saved_shapes(self, *inputs):
        return {"count": inputs[0]}

    def forward(self, node: Node) -> tuple[Launch, ...]:
        count = node.saved["count"]
        return (
            *super().forward(node),
            *elementwise(accumulating, count, node.x, updates=True),
        )


class Lossless(Softmax):
    def saved_shapes(self, *inputs):
        return {}


class Unwritten(Softmax):
    def forward(self, node: Node) -> tuple[Launch, ...]:
        return super().forward(node)[:-1]


class Unfinished(Layer):
    def forward(self, node: Node) -> tuple[Launch, ...]:
        return elementwise(double, node.y, node.x)


class Returning(Double):
    """Returns something else from forward than what is right."""

    def __init__(self, change) -> None:
        object.__setattr__(self, "change", change)

    def forward(self, node: Node) -> tuple[Launch, ...]:
        (launch,) = elementwise(double, node.y, node.x, in_place=(node.x, "gradients"))
        return self.change(launch)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda launch: None,
            "Returning forward returned None: it must return a tuple",
        ),
        (lambda launch: launch, "Returning forward returned Launch("),
        (lambda launch: ((launch,),), "must return a tuple of launches"),
        (
            lambda launch: (replace(launch, view="row"),),
            "kernel test_checking:double: 'row': must be one of 'shape', 'rows', ",
        ),
        (
            lambda launch: (
                replace(launch, may_overwrite=((*launch.may_overwrite[0][:2], "y"),)),
            ),
            "'y': must be one of 'gradients', 'activations'",
        ),
    ],
)
def test_what_is_no_launch_is_named(change, words: str) -> None:
    assert words in objection(Returning(change))


@pytest.mark.parametrize("given", [lambda dy: dy, lambda dy: (dy,)])
def test_in_place_without_its_setting_is_named(given) -> None:
    x, dy = Tensor("x", (4,)), Tensor("dy", (4,), "gradient")
    with pytest.raises(ValueError, match=r"in_place .*: must be \(input, setting\)"):
        elementwise("relu.backward", x, dy, in_place=given(dy))


class FarOverwrite(Double):
    def forward(self, node: Node) -> tuple[Launch, ...]:
        (launch,) = super().forward(node)
        return (replace(launch, may_overwrite=((node.y, node.dy, "gradients"),)),)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Reader(), "forward: reads Reader.dy, which has no value"),
        (Forgetful(3), "backward: does not write Forgetful.db"),
        (Counting(), "changes Counting.count, which it reads"),
        (NoneIgnored(), "backward: does not write NoneIgnored.dw"),
        (FarOverwrite(), "FarOverwrite.dy is not an input"),
        (Lossless(), "the loss 'Lossless' has no saved tensor 'loss'"),
        (Unwritten(), "forward: does not write Unwritten.loss"),
        (Unfinished(), "Unfinished has no method backward"),
    ],
)
def test_a_wrong_declaration_is_named(layer: Layer, words: str) -> None:
    assert words in objection(layer)


class AlwaysWanted(ReLU):
    def backward(self, node: Node) -> tuple[Launch, ...]:
        return (Launch("relu.backward", (node.dx,), (node.y, node.dy), view="flat"),)


class AddAlwaysWanted(Add):
    def backward(self, node: Node) -> tuple[Launch, ...]:
        return tuple(
            Launch("joins.copy", (dx,), (node.dy,), view="flat") for dx in node.dxs
        )


def test_a_gradient_that_is_not_wanted_must_not_be_launched() -> None:
    check_layer(AlwaysWanted(), (3, 4))  # alone, it has then no backward at all
    found = objection(AddAlwaysWanted(), (3, 4), (3, 4))
    assert "without the gradient of input 0" in found
    assert "writes None" in found


class MaxOfPairs(MaxPool):
    def backward(self, node: Node) -> tuple[Launch, ...]:
        dx = node.dx
        if dx is None:
            return ()
        return (Launch(all_maxima, (dx,), (node.x, node.dy), view="flat"),)


def test_a_gradient_is_compared_where_values_are_equal() -> None:
    found = objection(MaxOfPairs((1, 2)), (2, 3, 4, 6))
    assert "for inputs with equal elements: the sum of MaxOfPairs.dx" in found


class OtherAlgorithm(Conv):
    """Its second algorithm is that of another padding."""

    def forward(self, node: Node) -> tuple:
        choice, *bias = super().forward(node)
        wrong = replace(self, padding=(2, 2, 0, 0))
        other, *_ = super(OtherAlgorithm, wrong).forward(node)
        assert isinstance(choice, Choice)
        ways = choice.algorithms[0], other.algorithms[1]
        return (replace(choice, algorithms=ways), *bias)


@pytest.mark.slow
def test_an_algorithm_that_computes_something_else_is_named() -> None:
    found = objection(OtherAlgorithm(4, 3, padding=1), IMAGES)
    assert "algorithm direct computes another OtherAlgorithm.y than tiled" in found


@dataclass(frozen=True)
class CutsAnywhere(Linear):
    """Says that a part may end within a slice of its sums."""

    def part_images(self, *inputs: tuple[int, ...]) -> int:
        return 1


def test_a_layer_must_compute_on_parts_of_the_batch_what_it_computes_on_all() -> None:
    check_layer(Linear(3), (40, 2))  # slices of 32 images
    with pytest.raises(LayerError, match="on a part of the batch, CutsAnywhere"):
        check_layer(CutsAnywhere(3), (4, 3))
