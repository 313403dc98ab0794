"""Launches: the kernel calls of a run, and the choice between algorithms."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from sys import modules
from typing import Any, Literal, NoReturn, TypeAlias, get_args

from snref.plans.records import record
from snref.plans.tensor import Tensor

Kernel: TypeAlias = str | Callable[..., Any]
Scalar: TypeAlias = int | float | str
View: TypeAlias = Literal["shape", "rows", "channels", "flat"]
Overwrite: TypeAlias = Literal["gradients", "activations"]
InPlace: TypeAlias = tuple[Tensor, Tensor, Overwrite]
Part: TypeAlias = Literal["forward", "data", "filter"]

# The scalars of a launch that change from run to run or from iteration to iteration.
RUN_VALUES = (
    "seed",
    "iteration",
    "learning_rate",
    "momentum",
    "weight_decay",
    "bias_decay",
)
VIEWS: tuple[str, ...] = get_args(View)
SETTINGS: tuple[str, ...] = get_args(Overwrite)
PLANNED = "planned."  # begins the name of a kernel that is not written: gpt2's


@record
class Launch:
    """One kernel call: ``kernel(*outputs, *inputs, *scalars)``.

    kernel         a name: "relu.forward" is in ``snref.kernels``, "module:function" in
                   any module, which is imported at the first launch; or the
                   ``@cuda.jit`` function itself, as in a notebook
    scalars        numbers; a str names a value of the run, one of ``RUN_VALUES``
    view           how the kernel sees its arrays: "shape" as they are, "rows" as
                   (N, rest), "channels" as (N, C, rest), "flat" as one dimension
    updates        whether the outputs are read, too: y += b
    portion        (i, n): writes only the i-th of the n portions that each output
                   consists of, as every launch of a concatenation does
    retained       tensors that must be on the device though the kernel is not given
                   them, because the paper's authors declared them
    may_overwrite  (output, input, setting): the output may lie on the input's memory.
                   It does when the option ``overwrite`` says so: "gradients" where the
                   paper's code does, "activations" wherever it may. What only earlier
                   launches of the run read needs no declaration
    flops          floating-point operations, for the model of time
    bytes_accessed   bytes read and written, for the same; by default each output and
                   each input once, and outputs twice if they are read, too
    """

    kernel: Kernel
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    view: View = "shape"
    updates: bool = False
    portion: tuple[int, int] | None = None
    retained: tuple[Tensor, ...] = ()
    may_overwrite: tuple[InPlace, ...] = ()
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (256,)
    flops: int = 0
    bytes_accessed: int = -1

    def __post_init__(self) -> None:
        if None in self.outputs:
            raise ValueError(
                f"kernel {self.kernel_name} writes None: where no gradient is wanted, "
                "node.dx is None, and the layer returns no launch"
            )
        if self.view not in VIEWS:
            self._refuse(self.view, VIEWS)
        for _, _, setting in self.may_overwrite:
            if setting not in SETTINGS:
                self._refuse(setting, SETTINGS)
        if self.bytes_accessed < 0:
            reads = self.inputs + (self.outputs if self.updates else ())
            accessed = sum([tensor.nbytes for tensor in self.outputs + reads])
            object.__setattr__(self, "bytes_accessed", accessed)

    def _refuse(self, word: str, allowed: tuple[str, ...]) -> NoReturn:
        raise ValueError(
            f"kernel {self.kernel_name}: {word!r}: must be one of "
            f"{', '.join(map(repr, allowed))}"
        )

    @property
    def kernel_name(self) -> str:
        """Return the kernel's name, for messages and files.

        A kernel that was given as an object, and that no other process could import,
        is "function (not importable)".
        """
        if isinstance(self.kernel, str):
            return self.kernel
        function = getattr(self.kernel, "py_func", self.kernel)
        name = getattr(function, "__qualname__", repr(function))
        module = getattr(function, "__module__", "__main__")
        found = getattr(modules.get(module), name, None)
        if module == "__main__" or found is not self.kernel:
            return f"{name} (not importable)"
        return f"{module}:{name}"

    @property
    def is_written(self) -> bool:
        """Return whether the kernel exists, so that the launch can run."""
        return not self.kernel_name.startswith(PLANNED)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        if self.updates:
            return self.outputs + self.inputs + self.retained
        return self.inputs + self.retained

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return all tensors of the launch, as often as it names them."""
        return self.outputs + self.inputs + self.retained

    def renamed(self, names: Mapping[Tensor, Tensor]) -> "Launch":
        """Return the launch with some of its tensors replaced by others."""
        if names.keys().isdisjoint(self.tensors):
            return self
        return Launch(
            self.kernel,
            _renamed(self.outputs, names),
            _renamed(self.inputs, names),
            self.scalars,
            self.view,
            self.updates,
            self.portion,
            _renamed(self.retained, names),
            self.may_overwrite,
            self.grid,
            self.block,
            self.flops,
            self.bytes_accessed,
        )


def _renamed(
    tensors: tuple[Tensor, ...], names: Mapping[Tensor, Tensor]
) -> tuple[Tensor, ...]:
    return tuple([names.get(tensor, tensor) for tensor in tensors])


@record
class Algorithm:
    """One way to compute a part of a convolution. Shared by layers of equal shapes.

    order      the order in which products are summed: same order, same bits
    workspace  bytes of scratch
    launches   (output, first input, second input, workspace or None) -> kernel calls
    """

    name: str
    order: str
    workspace: int
    flops: int
    bytes_accessed: int
    launches: Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Launch, ...]] = (
        field(repr=False)
    )


@record
class Choice:
    """A part of a convolution's step that can be computed in several ways.

    The first algorithm needs no workspace and is the one chosen until
    ``scheduler.algorithms`` knows how many bytes are free.

    updates  whether the output is read, too: a sum that goes on
    """

    part: Part
    output: Tensor
    inputs: tuple[Tensor, Tensor]
    algorithms: tuple[Algorithm, ...]
    chosen: Algorithm
    workspace: Tensor | None = None
    updates: bool = False

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (self.output,)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        return (self.output, *self.inputs) if self.updates else self.inputs

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the output and the inputs; the workspace is not one of them."""
        return (self.output, *self.inputs)

    def renamed(self, names: Mapping[Tensor, Tensor]) -> "Choice":
        """Return the choice with some of its tensors replaced by others."""
        output, first, second = _renamed(self.tensors, names)
        return replace(self, output=output, inputs=(first, second))

    @property
    def flops(self) -> int:
        return self.chosen.flops

    @property
    def bytes_accessed(self) -> int:
        return self.chosen.bytes_accessed

    @property
    def launches(self) -> tuple[Launch, ...]:
        return self.chosen.launches(self.output, *self.inputs, self.workspace)


Work: TypeAlias = Launch | Choice  # what the step of a layer is made of


def grid_of(threads: int, block: int = 256) -> tuple[int, ...]:
    """Return the grid that has a thread for each of so many elements.

    The loops of the kernels work with fewer threads, too. But then each block jumps far
    through memory, and a CPU that runs it loses half its bandwidth.

    >>> grid_of(1000)
    (4,)
    """
    return (max(1, (threads + block - 1) // block),)
