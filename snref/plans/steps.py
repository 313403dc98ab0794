"""A plan: a training iteration as a straight line of steps, and what it costs.

Every saving of the papers is a step that defines a tensor a second time: a layer's
forward run again (recomputation), or a copy back from the host (prefetch). Between
its last use and its next definition a tensor is dead, and that alone decides when it
is freed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, TypeVar

from snref.plans.launches import Choice, Launch, Work
from snref.plans.records import record
from snref.plans.tensor import Tensor

Phase: TypeAlias = Literal["forward", "prepare", "backward", "update"]


class Run:
    """A layer's forward, backward or update: the only steps that compute.

    A forward run that appears a second time in a plan is a recomputation. A prepare run
    is the part of a layer's backward that reads x or y, where it is a run of its own
    (``net.route``).

    reads, writes   tensors: what was there before the run; what is there after it
    choices         its work that can be done in several ways
    working_set     what it reads or writes and is scheduled
    touched         that, and its workspaces
    """

    __slots__ = (
        *("layer", "phase", "work", "checkpoint", "offload"),
        *("reads", "writes", "choices", "workspaces", "working_set", "touched"),
        "_launches",
    )

    def __init__(
        self,
        layer: str,
        phase: Phase,
        work: tuple[Work, ...],
        checkpoint: bool = False,
        offload: bool = False,
    ) -> None:
        reads: dict[Tensor, None] = {}
        writes: dict[Tensor, None] = {}
        choices: list[Choice] = []
        for piece in work if isinstance(work, tuple) else (None,):
            if isinstance(piece, Choice):
                choices.append(piece)
            elif not isinstance(piece, Launch):  # a layer is written by anyone
                raise ValueError(
                    f"{layer} {phase} returned {work!r:.80}: it must return a tuple "
                    "of launches"
                )
            for tensor in piece.reads:
                if tensor not in writes:
                    reads[tensor] = None
            for tensor in piece.outputs:
                writes[tensor] = None
        scheduled = tuple([t for t in {**reads, **writes} if t.scheduled])
        scratch = [c.workspace for c in choices if c.workspace is not None]
        workspaces = tuple(dict.fromkeys(scratch)) if scratch else ()
        self.layer: Final = layer
        self.phase: Final = phase
        self.work: Final = work
        self.checkpoint: Final = checkpoint
        self.offload: Final = offload
        self.reads: Final = tuple(reads)
        self.writes: Final = tuple(writes)
        self.choices: Final = tuple(choices)
        self.workspaces: Final[tuple[Tensor, ...]] = workspaces
        self.working_set: Final = scheduled
        self.touched: Final = scheduled + workspaces
        self._launches: tuple[Launch, ...] | None = None

    def __repr__(self) -> str:
        return f"Run(layer={self.layer!r}, phase={self.phase!r}, work={self.work!r})"

    def with_work(self, work: tuple[Work, ...]) -> "Run":
        """Return a run of the same layer and phase that does other work."""
        return Run(self.layer, self.phase, work, self.checkpoint, self.offload)

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
            self._launches = tuple(calls)
        return self._launches


@record
class Alloc:
    """Allocate the tensor on the device, at an offset once the plan is placed."""

    tensor: Tensor
    offset: int | None = None


@record
class Free:
    """Free the tensor's memory; its value is gone."""

    tensor: Tensor


@record
class Offload:
    """Copy the tensor to the host. This step reads it."""

    tensor: Tensor


@record
class Prefetch:
    """Copy the tensor back from the host. This step defines it."""

    tensor: Tensor


Step: TypeAlias = Run | Alloc | Free | Offload | Prefetch
Kind = TypeVar("Kind", Run, Alloc, Free, Offload, Prefetch)


@dataclass(frozen=True)
class Plan:
    """A training iteration as a straight-line program."""

    steps: tuple[Step, ...]

    def runs(self) -> Sequence[Run]:
        return self.of(Run)

    def of(self, kind: type[Kind]) -> Sequence[Kind]:
        """Return the steps of a kind, such as Alloc, in order."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        found: dict[type, list[Any]] = {}
        for step in self.steps:
            found.setdefault(type(step), []).append(step)
        return found

    def __str__(self) -> str:
        return "\n".join(lines(self))


def only_runs(plan: Plan, name: str) -> tuple[Run, ...]:
    """Return the runs of a plan that has no other steps yet.

    Raises TypeError in the name of a pass if something is allocated or copied already.
    """
    if len(plan.runs()) < len(plan.steps):
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
    joint      bytes that the preset "joint" needs, if there are so many: ``least`` is
               of the declarations that were asked for
    """

    def __init__(
        self,
        step: str,
        needed: int,
        available: int,
        least: int,
        host: int | None = None,
        least_without_host_limit: int | None = None,
        joint: int | None = None,
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
        if joint is not None:
            text += f"; the preset 'joint' needs {joint}"
        super().__init__(text)
        self.joint = joint
        self.step, self.needed, self.available = step, needed, available
        self.least, self.host = least, host
        self.least_without_host_limit = least_without_host_limit

    def under(self, host_capacity: int | None) -> "OutOfMemory":
        """Say that ``least`` was found without the limit of the host's memory."""
        if host_capacity is None or self.host is not None or self.step == "the host":
            return self
        found = self.step, self.needed, self.available, self.least
        return OutOfMemory(*found, None, self.least)

    def unless_joint(self, joint: int) -> "OutOfMemory":
        """Say how many bytes the preset "joint" needs, if there are so many."""
        if self.step == "the host" or joint > self.available:
            return self
        found = self.step, self.needed, self.available, self.least, self.host
        return OutOfMemory(*found, self.least_without_host_limit, joint)

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
