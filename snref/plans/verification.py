"""Verify that a plan computes what its route computes, within its memory.

``verify`` executes the plan with values in place of data. A value is a number: each
output of each launch of the route has one, and so has each resident tensor before the
iteration. A tensor holds a value; a launch of the plan must find in its tensors the
values that the same launch of the route finds there. A plan is therefore judged by
what it does, and plans of other planners are judged alike: nothing here knows why a
pass put a step where it is.

Allocation  Alloc takes a tensor that is not allocated, Free one that is, and none is
            allocated at the end. A launch finds allocated what it reads, writes and
            uses as workspace.
Values      Each launch reads the values that it reads in the route: not one that was
            overwritten, lost when its tensor was freed, or copied out too early. A
            launch that writes a portion of a tensor (``Launch.portion``) changes that
            portion alone, so the reader of the whole tensor needs all portions.
Launches    The same kernels as in the route, with the same settings. A tensor may
            stand for another of the same shape and type if it is an activation or a
            gradient. Two outputs are never one tensor, and an output is an input only
            where the launch allows it (``may_overwrite``).
Runs        Every run of the route is there once and in its order; an update may come
            earlier, since its values tell when that is too early. Only a forward runs
            again, and it sums in the same order as the first time.
Waste       A recomputation and a Prefetch bring a value that was not there and that is
            read; an Offload is copied back.
Training    In the end parameters, momenta and statistics hold what the route leaves
            there. In the route, a parameter's gradient is written once, or added up
            part by part of the batch, then used; a parameter that is read is updated
            once, and not read afterwards.
Addresses   Aligned, within the slab, and no two allocated tensors overlap.
Bytes       No step needs more than the capacity of the device, or of the host.

A tensor may stay allocated when its value is of no more use: a plan without liveness
keeps all. So a missing Free is found where the tensor is allocated again, or at the
end.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from snref.plans.launches import Choice, Launch, Work
from snref.plans.measures import host_memory, memory
from snref.plans.steps import (
    Alloc,
    Free,
    InvalidPlan,
    Offload,
    Plan,
    Prefetch,
    Run,
    Step,
)
from snref.plans.tensor import ALIGNMENT, DW, Tensor

Key: TypeAlias = tuple[str, str]  # a run's layer and phase: its name in a route
Runs: TypeAlias = Sequence[tuple[int, Run]]  # with their indices among the steps
Value: TypeAlias = int | tuple[int, ...]  # of a whole tensor, or of each portion
_Effect: TypeAlias = tuple[Sequence[Value | None], int]

NOTHING = 0  # the value of a tensor that is allocated but not written
LASTING = frozenset(("parameter", "momentum", "state"))  # what an iteration leaves


def _written(old: Value | None, new: int, portion: tuple[int, int]) -> Value:
    """Return the value of a tensor after a launch wrote a portion of it.

    >>> _written((7, NOTHING), 8, (1, 2))
    (7, 8)
    """
    index, count = portion
    parts = [NOTHING] * count
    if isinstance(old, tuple) and len(old) == count:
        parts = [*old]
    parts[index] = new
    return tuple(parts)


def _runs(plan: Plan) -> Runs:
    steps = enumerate(plan.steps)
    return [(index, step) for index, step in steps if isinstance(step, Run)]


def _first_runs(plan: Plan) -> Runs:
    """The first run of each layer and phase: the plan without its savings."""
    runs: dict[Key, tuple[int, Run]] = {}
    for index, run in _runs(plan):
        runs.setdefault((run.layer, run.phase), (index, run))
    return [*runs.values()]


class _Original:
    """A run of the route, and its first one in the plan.

    effects   of each launch, or choice: the values that it reads, and the first of the
              values that it writes, which are one after the other
    """

    __slots__ = ("effects", "first", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.effects: list[_Effect] = []
        self.first: Run | None = None


class _Route:
    """The values of a route: what each launch reads and writes, and what is left."""

    def __init__(self, runs: Runs) -> None:
        self.runs: dict[Key, _Original] = {}
        self.count = 0  # of the values
        self.before: dict[Tensor, Value] = {}  # in resident tensors
        self.after: dict[Tensor, Value] = {}  # in all tensors
        self.partly: set[Tensor] = set()  # those that are written by portions
        for index, run in runs:
            key = run.layer, run.phase
            if key in self.runs:
                _fault(index, run, "is there twice")
            original = self.runs[key] = _Original(run)
            original.effects += [self._execute(index, run, p) for p in run.work]

    def _execute(self, index: int, run: Run, piece: Work) -> _Effect:
        content = self.after
        reads = [*map(content.get, piece.reads)]
        if None in reads or not self.partly.isdisjoint(piece.reads):
            reads = [self._read(index, run, tensor) for tensor in piece.reads]
        first = self.count + 1
        portion = piece.portion if isinstance(piece, Launch) else None
        for tensor in piece.outputs:
            self.count += 1
            if portion is None:
                content[tensor] = self.count
            else:
                content[tensor] = _written(content.get(tensor), self.count, portion)
                self.partly.add(tensor)
        return reads, first

    def _read(self, index: int, run: Run, tensor: Tensor) -> Value:
        """Return the value of a tensor; the first of a resident one is a new value."""
        value = self.after.get(tensor)
        if value is None:
            if tensor.scheduled or tensor.kind == "parameter_gradient":
                _fault(index, run, f"reads {tensor.name}, which has no value")
            self.count += 1
            value = self.after[tensor] = self.before[tensor] = self.count
        elif isinstance(value, tuple) and NOTHING in value:
            _fault(index, run, f"reads {tensor.name}, of which a portion is missing")
        return value

    def describe(self, value: Value | None) -> str:
        """Name a value by the tensor and the run of the route that it comes from."""
        if isinstance(value, tuple):
            return "portions: " + ", ".join(map(self.describe, value))
        if not value:
            return "nothing"
        for original in self.runs.values():
            pieces = zip(original.run.work, original.effects, strict=True)
            for piece, (_, first) in pieces:
                if first <= value < first + len(piece.outputs):
                    made = piece.outputs[value - first]
                    return f"{made.name} of {_name(original.run)}"
        resident = {first: tensor for tensor, first in self.before.items()}[value]
        return f"{resident.name} from before the iteration"


def _check_training(runs: Runs) -> None:
    """Check that gradients are used once, and that parameters are updated once.

    A route of forward runs only evaluates a net; it has neither.
    """
    if all(run.phase == "forward" for _, run in runs):
        return
    pending: dict[Tensor, tuple[int, Run]] = {}  # gradients -> the run that wrote them
    used: dict[Tensor, tuple[int, Run]] = {}  # parameters -> the last run that reads
    updated: set[Tensor] = set()
    for index, run in runs:
        updates = run.phase == "update"
        for tensor in run.reads:
            if tensor.kind == "parameter" and not updates:
                used[tensor] = index, run
                if tensor in updated:
                    _fault(index, run, f"reads {tensor.name} after its update")
            elif tensor.kind in DW and updates:
                if tensor not in pending:
                    _fault(index, run, f"uses {tensor.name}, which was used already")
                del pending[tensor]
        for tensor in run.writes:
            if tensor.kind == "parameter":
                if not updates:
                    _fault(index, run, f"changes {tensor.name}: only an update may")
                if tensor in updated:
                    _fault(index, run, f"updates {tensor.name} a second time")
                updated.add(tensor)
            elif tensor.kind in DW:
                if tensor in pending and tensor not in run.reads:
                    _fault(index, run, f"writes {tensor.name} over one not yet used")
                pending[tensor] = index, run
    for tensor, where in pending.items():
        _fault(*where, f"writes {tensor.name}, which no update uses")
    for tensor, where in used.items():
        if tensor not in updated:
            _fault(*where, f"reads {tensor.name}, which is not updated")


def _compare(index: int, run: Run, origin: Run) -> None:
    """Check that a run has the kernels of the route's, on tensors that may stand in."""
    if len(run.work) != len(origin.work):
        _fault(index, run, "has other kernels than in the route")
    for theirs, ours in zip(origin.work, run.work, strict=True):
        if ours is theirs:
            continue
        if not _same_settings(ours, theirs):
            _fault(index, run, "has other kernels than in the route")
        for their, our in zip(theirs.tensors, ours.tensors, strict=True):
            if our is their:
                continue
            if not our.is_data:
                _fault(index, run, f"uses {our.name}, a {our.kind}, for {their.name}")
            if (our.shape, our.dtype) != (their.shape, their.dtype):
                _fault(
                    index,
                    run,
                    f"uses {our.name}, {our.dtype} {our.shape}, for {their.name}, "
                    f"{their.dtype} {their.shape}",
                )
        _check_aliases(index, run, theirs, ours)


def _same_settings(ours: Work, theirs: Work) -> bool:
    """Return whether all that a plan may not change is equal.

    Scalars are compared as text, which tells 1 from 1.0, as kernels do.
    """
    if isinstance(ours, Choice) or isinstance(theirs, Choice):
        return (
            isinstance(ours, Choice)
            and isinstance(theirs, Choice)
            and (ours.part, ours.algorithms) == (theirs.part, theirs.algorithms)
            and ours.updates == theirs.updates
        )
    ours_said, theirs_said = ours.scalars, theirs.scalars
    return (
        ours.kernel == theirs.kernel
        and (ours_said is theirs_said or repr(ours_said) == repr(theirs_said))
        and ours.view == theirs.view
        and ours.updates == theirs.updates
        and ours.portion == theirs.portion
        and ours.grid == theirs.grid
        and ours.block == theirs.block
        and ours.flops == theirs.flops
        and ours.bytes_accessed == theirs.bytes_accessed
        and len(ours.outputs) == len(theirs.outputs)
        and len(ours.inputs) == len(theirs.inputs)
        and len(ours.retained) == len(theirs.retained)
    )


def _check_aliases(index: int, run: Run, theirs: Work, ours: Work) -> None:
    """Check that an output is an input, or another output, only where it may be."""
    now = ours.outputs + ours.inputs
    if len({*now}) == len(now):
        return
    before = theirs.outputs + theirs.inputs
    allowed = theirs.may_overwrite if isinstance(theirs, Launch) else ()
    pairs = {(output, target) for output, target, _ in allowed}
    for i, output in enumerate(theirs.outputs):
        for target, tensor in zip(before[i + 1 :], now[i + 1 :], strict=True):
            if (
                tensor is now[i]
                and target is not output
                and (output, target) not in pairs
            ):
                what = "input" if target in theirs.inputs else "output"
                _fault(index, run, f"may not write over its {what} {tensor.name}")


class _Device:
    """A device whose tensors hold values in place of data."""

    def __init__(self, route: _Route) -> None:
        self.route = route
        runs = route.runs.values()
        self.order = [original for original in runs if original.run.phase != "update"]
        self.position = 0  # in that order
        self.compared: set[Run] = set()
        # The values of tensors that are allocated, or resident and have a value.
        self.content = dict(route.before)
        self.host: dict[Tensor, Value] = {}
        self.copied: dict[Tensor, int] = {}  # on the host -> index of its Offload
        # Tensors whose value nobody has read -> indices of the steps that brought it.
        self.unread: dict[Tensor, list[int]] = {}
        self.useless: dict[int, Step] = {}  # recomputations and copies, until read

    def execute(self, plan: Plan) -> None:
        """Execute every step; then check that nothing is missing, left or useless."""
        content = self.content
        for index, step in enumerate(plan.steps):
            if isinstance(step, Run):
                self.run(index, step)
                continue
            tensor = step.tensor
            if not tensor.scheduled:
                _fault(index, step, f"is a {tensor.kind}, which is resident")
            if isinstance(step, Alloc):
                if tensor in content:
                    _fault(index, step, "is allocated already")
                content[tensor] = NOTHING
                continue
            if tensor not in content:
                _fault(index, step, "is not allocated")
            match step:
                case Free():
                    del content[tensor]
                    self.unread.pop(tensor, None)
                case Offload():
                    self.offload(index, step)
                case Prefetch():
                    self.prefetch(index, step)
        self.finish(plan)

    def run(self, index: int, run: Run) -> None:
        """Execute a run's launches, each on the values that it reads in the route."""
        original = self.route.runs.get((run.layer, run.phase))
        if original is None:
            _fault(index, run, "is not in the route")
        if run is not original.run and run not in self.compared:
            _compare(index, run, original.run)
            self.compared.add(run)
        content, unread = self.content, self.unread
        again = original.first is not None
        if again:
            self.check_again(index, run, original)
            self.useless[index] = run
        else:
            self.check_order(index, run, original)
            original.first = run
        for tensor in run.working_set:
            if tensor not in content:
                verb = "reads" if tensor in run.reads else "writes"
                _fault(index, run, f"{verb} {tensor.name}, which is not allocated")
        before = {tensor: content.get(tensor) for tensor in run.writes if again}
        for piece, effect in zip(run.work, original.effects, strict=True):
            self.launch(index, run, piece, effect)
        for tensor in unread.keys() & run.reads:
            self.read(tensor)
        for tensor in run.writes if again else unread.keys() & run.writes:
            if content[tensor] != before.get(tensor):
                if not isinstance(content[tensor], tuple):  # not only a portion of it
                    unread.pop(tensor, None)
                if again:
                    unread.setdefault(tensor, []).append(index)

    def launch(self, index: int, run: Run, piece: Work, effect: _Effect) -> None:
        """Execute a launch, on the values that it reads in the route."""
        content, (reads, value), portion = self.content, effect, None
        if [*map(content.get, piece.reads)] != reads:
            self.explain(index, run, piece, reads)
        if isinstance(piece, Choice):
            self.check_algorithm(index, run, piece)
        else:
            portion = piece.portion
        for made, tensor in enumerate(piece.outputs, value):
            if portion is None:
                content[tensor] = made
            else:
                content[tensor] = _written(content.get(tensor), made, portion)

    def read(self, tensor: Tensor) -> None:
        """Note that the recomputations or the copy that brought a value were of use."""
        for index in self.unread.pop(tensor, ()):
            self.useless.pop(index, None)

    def check_order(self, index: int, run: Run, original: _Original) -> None:
        """Check that forward and backward runs come in the order of the route."""
        if run.phase != "update":
            due = self.order[self.position]
            if due is not original:
                _fault(index, run, f"comes before {_name(due.run)}")
            self.position += 1

    def check_again(self, index: int, run: Run, original: _Original) -> None:
        """Check that a run that is repeated computes the same bits."""
        first = original.first
        if first is None or run.phase != "forward":
            _fault(index, run, "runs a second time: only a forward may")
        for ours, theirs in zip(run.choices, first.choices, strict=True):
            if ours.chosen.order != theirs.chosen.order:
                _fault(index, run, "sums in another order than the first time")

    def check_algorithm(self, index: int, run: Run, choice: Choice) -> None:
        """Check that a choice is one of its algorithms, and has the workspace."""
        needed, workspace = choice.chosen.workspace, choice.workspace
        if choice.chosen not in choice.algorithms:
            _fault(index, run, f"cannot run by {choice.chosen.name}")
        if workspace is None:
            if needed:
                _fault(index, run, f"needs a workspace of {needed} bytes")
            return
        name = workspace.name
        if not workspace.scheduled:
            _fault(index, run, f"uses {name}, a {workspace.kind}, as workspace")
        if workspace not in self.content:
            _fault(index, run, f"uses {name}, which is not allocated")
        if workspace in choice.tensors:
            _fault(index, run, f"reads or writes {name}, which is its workspace")
        if workspace.nbytes < needed:
            _fault(index, run, f"needs {needed} bytes, {name} has {workspace.nbytes}")
        self.content[workspace] = NOTHING

    def offload(self, index: int, step: Offload) -> None:
        """Copy a value out. A second copy of the same value is useless."""
        tensor, value = step.tensor, self.content[step.tensor]
        if value == NOTHING:
            _fault(index, step, "has no value")
        self.useless[index] = step
        self.read(tensor)
        if self.host.get(tensor) != value:
            self.host[tensor] = value
            self.copied[tensor] = index

    def prefetch(self, index: int, step: Prefetch) -> None:
        """Copy a value in. Whether it is the right one, its reader will tell."""
        tensor = step.tensor
        if tensor not in self.host:
            _fault(index, step, "has no copy on the host")
        self.useless[index] = step
        if self.content[tensor] != self.host[tensor]:
            self.content[tensor] = self.host[tensor]
            self.unread[tensor] = [index]
            self.useless.pop(self.copied[tensor], None)

    def finish(self, plan: Plan) -> None:
        """Check the end of the plan: nothing is missing, left over or useless."""
        end = f"steps[{len(plan.steps)}], the end"
        for original in self.route.runs.values():
            if original.first is None:
                raise InvalidPlan(f"{end}: {_name(original.run)} did not run")
        for tensor, value in self.route.after.items():
            if tensor.kind in LASTING and self.content.get(tensor) != value:
                found = self.route.describe(self.content.get(tensor))
                raise InvalidPlan(f"{end}: {tensor.name} holds {found}")
        if any(tensor.scheduled for tensor in self.content):
            for index, step in enumerate(plan.steps):
                if isinstance(step, Alloc) and step.tensor in self.content:
                    _fault(index, step, "is still allocated at the end")
        for index, step in self.useless.items():
            why = "the value was there already, or nobody reads it"
            if isinstance(step, Run):
                made = ", ".join(tensor.name for tensor in step.writes)
                why = f"{why}: {made or 'no tensor'}"
            elif isinstance(step, Offload):
                why = "never copied back, or copied before"
            _fault(index, step, f"is useless: {why}")

    def explain(
        self, index: int, run: Run, piece: Work, reads: Sequence[Value | None]
    ) -> NoReturn:
        """Say what a run reads that does not hold the value that it should."""
        expected, tensor = next(
            (value, tensor)
            for value, tensor in zip(reads, piece.reads, strict=True)
            if self.content.get(tensor) != value
        )
        found = self.content.get(tensor)
        why = f"reads {tensor.name}, which"
        if found is None or found == NOTHING:
            _fault(index, run, f"{why} has no value")
        if tensor.kind == "parameter" and expected == self.route.before.get(tensor):
            _fault(index, run, f"reads {tensor.name} after its update")
        by = f", by steps[{self.unread[tensor][-1]}]" if tensor in self.unread else ""
        describe = self.route.describe
        _fault(
            index, run, f"{why} holds {describe(found)}{by}, not {describe(expected)}"
        )


def _check_addresses(plan: Plan, slab: int | None) -> None:
    """Check that all tensors have addresses or none; aligned, in the slab, and apart.

    The allocated tensors are kept in order of address: a new one can only overlap its
    neighbours.
    """
    starts: list[int] = []
    alive: list[Tensor] = []  # in the same order
    offsets: dict[Tensor, int] = {}
    placed, nowhere = False, None
    for index, step in enumerate(plan.steps):
        if isinstance(step, Alloc):
            tensor, start = step.tensor, step.offset
            if start is None:
                nowhere = nowhere or (index, step)
                continue
            if start < 0 or start % ALIGNMENT:
                _fault(index, step, f"at {start}: not a multiple of {ALIGNMENT}")
            end = start + tensor.aligned_bytes
            if slab is not None and end > slab:
                _fault(index, step, f"ends at {end}, the slab at {slab}")
            place = bisect_left(starts, start)
            if place < len(starts) and starts[place] < end:
                _fault(index, step, f"overlaps {alive[place].name}")
            if place > 0 and starts[place - 1] + alive[place - 1].aligned_bytes > start:
                _fault(index, step, f"overlaps {alive[place - 1].name}")
            starts.insert(place, start)
            alive.insert(place, tensor)
            offsets[tensor], placed = start, True
        elif isinstance(step, Free) and step.tensor in offsets:
            place = bisect_left(starts, offsets.pop(step.tensor))
            del starts[place], alive[place]
    if nowhere is not None and (placed or slab is not None):
        _fault(*nowhere, "has no address")


def _check_bytes(plan: Plan, usage: list[int], limit: int, where: str) -> None:
    """Check that no step has more bytes in use than the limit."""
    for index, nbytes in enumerate(usage):
        if nbytes > limit:
            why = f"makes it {nbytes} bytes {where}, {limit} allowed"
            _fault(index, plan.steps[index], why)


def _name(step: Step) -> str:
    if isinstance(step, Run):
        return f"{step.phase} {step.layer}"
    return f"{type(step).__name__.lower()} {step.tensor.name}"


def _fault(index: int, step: Step, why: str) -> NoReturn:
    raise InvalidPlan(f"steps[{index}], {_name(step)}: {why}")


def verify(
    plan: Plan,
    route: Plan | None = None,
    *,
    capacity: int | None = None,
    slab: int | None = None,
    host_capacity: int | None = None,
) -> None:
    """Raise InvalidPlan, which names the step and the tensor, if a plan is not valid.

    route          the plan before all passes. Without it the first run of each layer
                   and phase in the plan stands for it: then nobody can say that a run
                   is missing altogether, or that a kernel may not work in place
    capacity       bytes that may be in use at once, alignment and workspaces included
    slab           bytes of device memory: no address lies beyond
    host_capacity  bytes that the host may keep at once

    Time is linear in the steps; with addresses, n log n in the allocations.

    >>> x, y = Tensor("x", (64,)), Tensor("y", (64,))
    >>> make = Run("conv1", "forward", (Launch("", (x,)),))
    >>> read = Run("relu1", "forward", (Launch("", (y,), (x,)),))
    >>> verify(Plan((Alloc(x), make, Alloc(y), read, Free(x), Free(y))))
    >>> verify(Plan((Alloc(x), make, Free(x), Alloc(y), read, Free(y))))
    Traceback (most recent call last):
      ...
    snref.plans.steps.InvalidPlan: steps[4], forward relu1: reads x, which is not ...
    """
    runs = _first_runs(plan) if route is None else _runs(route)
    try:
        origin = _Route(runs)
        _check_training(runs)
    except InvalidPlan as error:
        if route is None:
            raise
        raise InvalidPlan(f"the route's {error}") from None
    _Device(origin).execute(plan)
    _check_addresses(plan, slab)
    if capacity is not None:
        _check_bytes(plan, memory(plan, workspace=True), capacity, "on the device")
    if host_capacity is not None:
        _check_bytes(plan, host_memory(plan), host_capacity, "on the host")
