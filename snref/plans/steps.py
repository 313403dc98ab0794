"""A plan: a training iteration as a straight line of steps, and what it costs.

Every saving of the papers is a step that defines a tensor a second time: a layer's
forward run again (recomputation), or a copy back from the host (prefetch). Between
its last use and its next definition a tensor is dead, and that alone decides when it
is freed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from snref.plans.launches import Choice, Launch, Work
from snref.plans.tensor import Tensor

Phase: TypeAlias = Literal["forward", "prepare", "backward", "update"]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A layer's forward, backward or update: the only steps that compute.

    A forward run that appears a second time in a plan is a recomputation. A prepare run
    is the part of a layer's backward that reads x, where it is a run of its own
    (``net.route``).
    """

    layer: str
    phase: Phase
    work: tuple[Work, ...]
    checkpoint: bool = False
    offload: bool = False
    reads: tuple[Tensor, ...] = field(init=False, repr=False)  # from before the run
    writes: tuple[Tensor, ...] = field(init=False, repr=False)
    choices: tuple[Choice, ...] = field(init=False, repr=False)
    workspaces: tuple[Tensor, ...] = field(init=False, repr=False)
    working_set: tuple[Tensor, ...] = field(init=False, repr=False)  # scheduled ones
    touched: tuple[Tensor, ...] = field(init=False, repr=False)  # and workspaces
    _launches: tuple[Launch, ...] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        work: Any = self.work  # of a layer that anyone may have written
        reads: dict[Tensor, None] = {}
        writes: dict[Tensor, None] = {}
        choices: list[Choice] = []
        well_made = isinstance(work, tuple)
        for piece in work if well_made else ():
            if isinstance(piece, Choice):
                choices.append(piece)
            elif not isinstance(piece, Launch):
                well_made = False
                break
            for tensor in piece.reads:
                if tensor not in writes:
                    reads[tensor] = None
            for tensor in piece.outputs:
                writes[tensor] = None
        if not well_made:
            raise ValueError(
                f"{self.layer} {self.phase} returned {work!r:.80}: it must return a "
                "tuple of launches"
            )
        scheduled = tuple([t for t in {**reads, **writes} if t.scheduled])
        scratch = [c.workspace for c in choices if c.workspace is not None]
        workspaces = tuple(dict.fromkeys(scratch)) if scratch else ()
        set_field = object.__setattr__  # the class is frozen
        set_field(self, "reads", tuple(reads))
        set_field(self, "writes", tuple(writes))
        set_field(self, "choices", tuple(choices))
        set_field(self, "workspaces", workspaces)
        set_field(self, "working_set", scheduled)
        set_field(self, "touched", scheduled + workspaces)

    @property
    def in_backward(self) -> bool:
        """Whether the run is of the backward pass."""
        return self.phase in ("prepare", "backward")

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernel calls, in order, with every choice made. Built at first use."""
        if self._launches is None:
            calls: list[Launch] = []
            for piece in self.work:
                calls += piece.launches if isinstance(piece, Choice) else (piece,)
            object.__setattr__(self, "_launches", tuple(calls))
        assert self._launches is not None
        return self._launches


@dataclass(frozen=True, slots=True, eq=False)
class Alloc:
    """Allocate the tensor on the device, at an offset once the plan is placed."""

    tensor: Tensor
    offset: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """Free the tensor's memory; its value is gone."""

    tensor: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Offload:
    """Copy the tensor to the host. This step reads it."""

    tensor: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """Copy the tensor back from the host. This step defines it."""

    tensor: Tensor


Step: TypeAlias = Run | Alloc | Free | Offload | Prefetch


@dataclass(frozen=True)
class Plan:
    """A training iteration as a straight-line program."""

    steps: tuple[Step, ...]

    def runs(self) -> Iterator[Run]:
        return (step for step in self.steps if isinstance(step, Run))

    def __str__(self) -> str:
        return "\n".join(lines(self))


def only_runs(plan: Plan, name: str) -> tuple[Run, ...]:
    """Return the runs of a plan that has no other steps yet.

    Raises TypeError in the name of a pass if something is allocated or copied already.
    """
    for step in plan.steps:
        if not isinstance(step, Run):
            raise TypeError(f"{name} comes before transfers and allocation")
    return tuple(plan.runs())


class InvalidPlan(ValueError):
    """A plan that would compute something else, or read what is not there."""


class OutOfMemory(MemoryError):
    """No plan fits the memory there is.

    step       the run that needs the most, or "the host" if the host's memory is short
    needed     bytes that it needs
    available  bytes that there are
    least      the smallest number of bytes for which a plan was found
    host       the limit of the host's memory under which ``least`` was found, if any
    least_without_host_limit   the smallest number of bytes if the host has enough;
               without ``host``: that is what ``least`` is, though the host has a limit
    """

    def __init__(
        self,
        step: str,
        needed: int,
        available: int,
        least: int,
        host: int | None = None,
        least_without_host_limit: int | None = None,
    ) -> None:
        text = f"{step} needs {needed} bytes, {available} available; the least "
        if host is None and least_without_host_limit is not None:
            text += f"with enough memory of the host is {least}"
        elif host is None or least == least_without_host_limit:
            text += f"is {least}"
        else:
            text += (
                f"found with {host} bytes of the host is {least}, and with enough of "
                f"them {least_without_host_limit}"
            )
        super().__init__(text)
        self.step, self.needed, self.available = step, needed, available
        self.least, self.host = least, host
        self.least_without_host_limit = least_without_host_limit

    def under(self, host_capacity: int | None) -> "OutOfMemory":
        """Say that ``least`` was found without the limit of the host's memory."""
        if host_capacity is None or self.host is not None or self.step == "the host":
            return self
        found = self.step, self.needed, self.available, self.least
        return OutOfMemory(*found, None, self.least)

    def beside(self, resident: int, available: int) -> "OutOfMemory":
        """Count what is resident, too; the host has nothing resident."""
        if self.step == "the host":
            return self
        without = self.least_without_host_limit
        return OutOfMemory(
            self.step,
            self.needed + resident,
            available,
            self.least + resident,
            self.host,
            None if without is None else without + resident,
        )


def reads(step: Step) -> tuple[Tensor, ...]:
    """The tensors whose value a step uses."""
    match step:
        case Run():
            return step.reads
        case Offload(tensor):
            return (tensor,)
        case Alloc() | Free() | Prefetch():
            return ()


def writes(step: Step) -> tuple[Tensor, ...]:
    """The tensors to which a step gives a value."""
    match step:
        case Run():
            return step.writes
        case Prefetch(tensor):
            return (tensor,)
        case Alloc() | Free() | Offload():
            return ()


def lines(plan: Plan) -> Iterator[str]:
    """The plan as text, a step a line.

    >>> x, y = Tensor("x", (256,)), Tensor("y", (256,))
    >>> run = Run("relu", "forward", (Launch("relu.forward", (y,), (x,)),))
    >>> print(Plan((Alloc(y, 0), run, Free(x))))
    alloc     y  1024 at 0
    forward   relu  x -> y
    free      x
    """
    seen: set[str] = set()
    for step in plan.steps:
        match step:
            case Run():
                again = step.phase == "forward" and step.layer in seen
                seen.add(step.layer)
                verb = "recompute" if again else step.phase
                names = " ".join(t.name for t in step.reads if t.scheduled)
                made = " ".join(t.name for t in step.writes if t.scheduled)
                flow = f"{names} -> {made}".strip() if names or made else ""
                ways = " ".join(f"{c.part}={c.chosen.name}" for c in step.choices)
                ways = f"[{ways}]" if any(c.workspace for c in step.choices) else ""
                yield f"{verb:9} {step.layer}  {flow}  {ways}".rstrip()
            case Alloc(tensor, None):
                yield f"alloc     {tensor.name}  {tensor.nbytes}"
            case Alloc(tensor, offset):
                yield f"alloc     {tensor.name}  {tensor.nbytes} at {offset}"
            case Free(tensor):
                yield f"free      {tensor.name}"
            case Offload(tensor):
                yield f"offload   {tensor.name}"
            case Prefetch(tensor):
                yield f"prefetch  {tensor.name}"
