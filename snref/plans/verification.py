"""Verify: a plan computes what its route computes, within its memory, and no more.

The plan is run with numbers in place of data. Every value that the route computes has
a number; a tensor on the device holds one; a run may only read the numbers that the
same run of the route reads. So a plan is judged by what it does: nothing here knows
why a pass put a step where it is, and plans of other planners are judged alike.

Room       Alloc takes a tensor without room, Free one with room, and none keeps it at
           the end. A run finds room for what it reads, writes and uses as workspace.
Values     A tensor read holds the value that the route reads there: not one that was
           overwritten in place, lost with its room, or copied out before it changed.
Runs       Every run of the route is there, once and in its order, by the same kernels;
           an update may come sooner, since values tell when it is too soon. What else
           runs is a forward that ran before, summing in the same order.
Waste      A re-run or a Prefetch brings a value that was not there and that is read;
           an Offload is copied back.
Training   A parameter's gradient is written once, then used; a parameter that is read
           is updated once, and not read afterwards. In the end parameters, momenta
           and statistics hold what the route leaves there.
Addresses  Aligned, within the slab, and never two tensors alive in one place.
Bytes      At no step more than the capacity on the device, nor on the host.

A tensor may keep its room while it holds nothing of use: that is what a plan without
liveness does. So a missing Free shows where the tensor gets room again, or at the end.
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
from snref.plans.tensor import ALIGNMENT, Tensor

Key: TypeAlias = tuple[str, str]  # a run's layer and phase: its name in a route
Runs: TypeAlias = Sequence[tuple[int, Run]]  # with their places among the steps

_NOTHING = 0  # held by a tensor that has room and was not written
_BEFORE = 1  # held by a resident tensor that this iteration has not written
_FIRST = 2  # the number of the first value that is computed

_LASTING = frozenset(("parameter", "momentum", "state"))  # what an iteration leaves


class _Effect:
    """What a run does: finds these values in what it reads, leaves those behind.

    origin is the effect of the same run in the route: itself, for a run of the route.
    """

    __slots__ = ("choices", "expected", "origin", "reads", "run", "values", "writes")

    def __init__(
        self,
        run: Run,
        reads: tuple[Tensor, ...],
        expected: list[int],
        writes: tuple[Tensor, ...],
        values: list[int],
        origin: "_Effect | None" = None,
    ) -> None:
        self.run = run
        self.reads, self.expected = reads, expected
        self.writes, self.values = writes, values
        self.choices = run.choices if Choice in map(type, run.work) else ()
        self.origin = origin or self


def _runs(plan: Plan) -> Runs:
    steps = enumerate(plan.steps)
    return [(index, step) for index, step in steps if isinstance(step, Run)]


def _first_runs(plan: Plan) -> Runs:
    """The first run of each layer and phase: the plan without its savings."""
    runs: dict[Key, tuple[int, Run]] = {}
    for index, run in _runs(plan):
        runs.setdefault((run.layer, run.phase), (index, run))
    return [*runs.values()]


class _Route:
    """What the runs of a route do, in their order, and where they begin and end."""

    def __init__(self, runs: Runs) -> None:
        """Run the route: number its values, and note who reads which."""
        self.effects: dict[Key, _Effect] = {}
        self.before: dict[Tensor, int] = {}  # resident tensors read before written
        self.after: dict[Tensor, int] = {}  # what every tensor holds in the end
        content, number = self.after, _FIRST
        for index, run in runs:
            key = run.layer, run.phase
            if key in self.effects:
                _fault(index, run, "is there twice")
            expected, values = [], []
            for tensor in run.reads:
                value = content.get(tensor)
                if value is None:
                    if tensor.scheduled or tensor.kind == "parameter_gradient":
                        _fault(index, run, f"reads {tensor.name}, which has no value")
                    value = content[tensor] = self.before[tensor] = _BEFORE
                expected.append(value)
            for tensor in run.writes:
                values.append(number)
                content[tensor] = number
                number += 1
            self.effects[key] = _Effect(run, run.reads, expected, run.writes, values)

    def describe(self, value: int | None) -> str:
        """What a value is: the run that computes it, and the route's name of it."""
        for effect in self.effects.values():
            if value in effect.values:
                tensor = effect.writes[effect.values.index(value)]
                return f"{tensor.name} of {_name(effect.run)}"
        return "what it held before the iteration"


def _check_training(runs: Runs) -> None:
    """Gradients reach their parameters, once, and parameters are updated, once.

    A route of forward runs only evaluates a net; it has neither.
    """
    if all(run.phase == "forward" for _, run in runs):
        return
    waiting: dict[Tensor, int] = {}  # gradients that no update has used, written where
    used: dict[Tensor, int] = {}  # parameters, read where
    updated: set[Tensor] = set()
    for index, run in runs:
        updates = run.phase == "update"
        for tensor in run.reads:
            if tensor.scheduled:
                continue
            if tensor.kind == "parameter" and not updates:
                used[tensor] = index
                if tensor in updated:
                    _fault(index, run, f"reads {tensor.name} after its update")
            elif tensor.kind == "parameter_gradient" and updates:
                if tensor not in waiting:
                    _fault(index, run, f"uses {tensor.name}, which was used already")
                del waiting[tensor]
        for tensor in run.writes:
            if tensor.scheduled:
                continue
            if tensor.kind == "parameter":
                if not updates:
                    _fault(index, run, f"changes {tensor.name}: only an update may")
                if tensor in updated:
                    _fault(index, run, f"updates {tensor.name} a second time")
                updated.add(tensor)
            elif tensor.kind == "parameter_gradient":
                if tensor in waiting and tensor not in run.reads:
                    _fault(index, run, f"writes {tensor.name} over one not yet used")
                waiting[tensor] = index
    by_index = dict(runs)
    for tensor, index in waiting.items():
        _fault(index, by_index[index], f"writes {tensor.name}, which no update uses")
    for tensor, index in used.items():
        if tensor not in updated:
            _fault(index, by_index[index], f"reads {tensor.name}, which is not updated")


def _checked_route(runs: Runs) -> _Route:
    route = _Route(runs)
    _check_training(runs)
    return route


def _translated(origin: _Effect, run: Run, index: int) -> _Effect:
    """The effect of a run that is one of the route's with some tensors renamed.

    Piece by piece, both have the same kernel, and each tensor comes from the same
    place: from before the run, or from the same output of an earlier piece.
    """
    if len(run.work) != len(origin.run.work):
        _fault(index, run, "has other kernels than in the route")
    before = dict(zip(origin.reads, origin.expected, strict=True))
    after = dict(zip(origin.writes, origin.values, strict=True))
    expected: dict[Tensor, int] = {}
    made: list[Tensor] = []  # every output, by the route's names
    place: dict[Tensor, int] = {}  # tensor, by the route's names -> index in made
    here: dict[Tensor, int] = {}  # the same, by this run's names
    for theirs, ours in zip(origin.run.work, run.work, strict=True):
        _check_kernel(theirs, ours, run, index)
        for their, our in zip(theirs.reads, ours.reads, strict=True):
            source = place.get(their)
            value = before[their] if source is None else _NOTHING
            if here.get(our) != source or (
                source is None and expected.setdefault(our, value) != value
            ):
                _fault(index, run, f"reads {our.name} where the route's reads another")
        for their, our in zip(theirs.outputs, ours.outputs, strict=True):
            if our.nbytes < their.nbytes:
                _fault(index, run, f"writes {our.name}, which is too small")
            place[their] = here[our] = len(made)
            made.append(their)
    values = [
        after[made[i]] if place[made[i]] == i else _NOTHING for i in here.values()
    ]
    return _Effect(run, tuple(expected), [*expected.values()], (*here,), values, origin)


def _check_kernel(theirs: Work, ours: Work, run: Run, index: int) -> None:
    """The same kernel as in the route, writing over an input only where it may."""
    if isinstance(theirs, Launch) and isinstance(ours, Launch):
        same = (
            theirs.kernel == ours.kernel
            and theirs.scalars == ours.scalars
            and theirs.view == ours.view
            and theirs.updates == ours.updates
            and len(theirs.outputs) == len(ours.outputs)
            and len(theirs.inputs) == len(ours.inputs)
            and len(theirs.retained) == len(ours.retained)
        )
    elif isinstance(theirs, Choice) and isinstance(ours, Choice):
        same = theirs.part == ours.part and theirs.algorithms == ours.algorithms
    else:
        same = False
    if not same:
        _fault(index, run, "has other kernels than in the route")
    allowed = theirs.may_overwrite if isinstance(theirs, Launch) else ()
    for output, written in zip(theirs.outputs, ours.outputs, strict=True):
        if written in ours.inputs:
            for target, read in zip(theirs.inputs, ours.inputs, strict=True):
                overwrites = read is written and target is not output
                if overwrites and (output, target) not in [o[:2] for o in allowed]:
                    _fault(index, run, f"may not write over its input {read.name}")


class _Device:
    """A device that holds the numbers of values: what runs a plan to judge it."""

    def __init__(self, route: _Route) -> None:
        self.route = route
        effects = route.effects.values()
        self.effects = {effect.run: effect for effect in effects}
        self.in_order = [e for e in effects if e.run.phase != "update"]
        self.position = 0  # in that order
        self.done: dict[_Effect, _Effect] = {}  # of the route -> of its first run here
        # What has room, or is resident and has a value: the value that it holds.
        self.content = dict(route.before)
        self.host: dict[Tensor, int] = {}
        self.copied: dict[Tensor, int] = {}  # on the host -> the step that copied it
        self.unread: dict[Tensor, int] = {}  # brought by a re-run or Prefetch -> which
        self.savings: list[int] = []  # all re-runs and copies: none may be in vain
        self.served: set[int] = set()  # those that are not

    def follow(self, plan: Plan) -> None:
        """Run every step; then see that nothing is missing, left over or in vain."""
        for index, step in enumerate(plan.steps):
            match step:
                case Run():
                    self.run(index, step)
                case Alloc(tensor):
                    _check_scheduled(index, step, tensor)
                    if tensor in self.content:
                        _fault(index, step, "is allocated already")
                    self.content[tensor] = _NOTHING
                case Free(tensor):
                    _check_scheduled(index, step, tensor)
                    if tensor not in self.content:
                        _fault(index, step, "is not allocated")
                    del self.content[tensor]
                    self.unread.pop(tensor, None)
                case Offload(tensor):
                    self.offload(index, step, tensor)
                case Prefetch(tensor):
                    self.prefetch(index, step, tensor)
        self.finish(plan)

    def run(self, index: int, run: Run) -> None:
        effect = self.effects.get(run)
        if effect is None:
            origin = self.route.effects.get((run.layer, run.phase))
            if origin is None:
                _fault(index, run, "is not in the route")
            effect = self.effects[run] = _translated(origin, run, index)
        again = effect.origin in self.done
        if again:
            self.savings.append(index)
            self.check_again(index, effect)
        else:
            self.check_turn(index, effect)
        content, unread = self.content, self.unread
        if list(map(content.get, effect.reads)) != effect.expected:
            self.explain(index, effect)
        if unread:
            for tensor in effect.reads:
                if tensor in unread:
                    self.served.add(unread.pop(tensor))
        if effect.choices:
            self.check_workspace(index, effect)
        for tensor, value in zip(effect.writes, effect.values, strict=True):
            if tensor.scheduled and tensor not in content:
                _fault(index, run, f"writes {tensor.name}, which is not allocated")
            if again:
                if content.get(tensor) != value:
                    unread[tensor] = index
            elif unread:
                unread.pop(tensor, None)
            content[tensor] = value

    def check_turn(self, index: int, effect: _Effect) -> None:
        """A layer's first forward, its backward or update: in the route's order."""
        run, origin = effect.run, effect.origin
        if run.phase != "update":
            due = self.in_order[self.position]
            if due is not origin:
                _fault(index, run, f"comes before {_name(due.run)}")
            self.position += 1
        self.done[origin] = effect

    def check_again(self, index: int, effect: _Effect) -> None:
        """Only a forward runs again, and it computes the same bits."""
        if effect.run.phase != "forward":
            _fault(index, effect.run, "runs a second time: only a forward may")
        first = self.done[effect.origin]
        for ours, theirs in zip(effect.choices, first.choices, strict=True):
            if ours.chosen.order != theirs.chosen.order:
                _fault(index, effect.run, "sums in another order than the first time")

    def check_workspace(self, index: int, effect: _Effect) -> None:
        """The algorithm is one of the choice's, and has the scratch that it needs."""
        for choice in effect.choices:
            needed, workspace = choice.chosen.workspace, choice.workspace
            if choice.chosen not in choice.algorithms:
                _fault(index, effect.run, f"cannot run by {choice.chosen.name}")
            if workspace is None:
                if needed:
                    _fault(index, effect.run, f"needs a workspace of {needed} bytes")
            elif workspace not in self.content:
                _fault(
                    index, effect.run, f"uses {workspace.name}, which is not allocated"
                )
            elif workspace in effect.reads or workspace in effect.writes:
                _fault(index, effect.run, f"scribbles on {workspace.name}")
            elif workspace.nbytes < needed:
                _fault(
                    index,
                    effect.run,
                    f"needs {needed} bytes, {workspace.name} has {workspace.nbytes}",
                )
            else:
                self.content[workspace] = _NOTHING

    def offload(self, index: int, step: Step, tensor: Tensor) -> None:
        """Copy a value out. A second copy of the same value serves nobody."""
        _check_scheduled(index, step, tensor)
        value = self.content.get(tensor)
        if value is None:
            _fault(index, step, "is not allocated")
        if value == _NOTHING:
            _fault(index, step, "has no value")
        self.savings.append(index)
        if tensor in self.unread:
            self.served.add(self.unread.pop(tensor))
        if self.host.get(tensor) != value:
            self.host[tensor] = value
            self.copied[tensor] = index

    def prefetch(self, index: int, step: Step, tensor: Tensor) -> None:
        """Copy a value in, whichever the host has: who reads it sees if it is stale."""
        _check_scheduled(index, step, tensor)
        if tensor not in self.content:
            _fault(index, step, "is not allocated")
        if tensor not in self.host:
            _fault(index, step, "has no copy on the host")
        self.savings.append(index)
        if self.content[tensor] != self.host[tensor]:
            self.content[tensor] = self.host[tensor]
            self.unread[tensor] = index
            self.served.add(self.copied[tensor])

    def finish(self, plan: Plan) -> None:
        """The plan has ended: nothing may be missing, left over or in vain."""
        steps, content = plan.steps, self.content
        end = f"steps[{len(steps)}], the end"
        for origin in self.route.effects.values():
            if origin not in self.done:
                raise InvalidPlan(f"{end}: {_name(origin.run)} did not run")
        for tensor, value in self.route.after.items():
            if tensor.kind in _LASTING and content.get(tensor) != value:
                held = self.route.describe(content.get(tensor))
                raise InvalidPlan(f"{end}: {tensor.name} holds {held}")
        left = {tensor for tensor in content if tensor.scheduled}
        for index, step in enumerate(steps):
            if left and isinstance(step, Alloc) and step.tensor in left:
                _fault(index, step, "is still allocated at the end")
        for index in self.savings:
            if index not in self.served:
                step = steps[index]
                match step:
                    case Run():
                        made = ", ".join(tensor.name for tensor in step.writes)
                        why = f"runs again in vain: {made or 'nothing'}"
                    case Offload():
                        why = "is copied in vain: never copied back, or copied before"
                    case _:
                        why = "is copied back in vain: it was there, or nobody reads it"
                _fault(index, step, why)

    def explain(self, index: int, effect: _Effect) -> NoReturn:
        """Say which tensor a run cannot read, and what it found there."""
        for tensor, wanted in zip(effect.reads, effect.expected, strict=True):
            found = self.content.get(tensor)
            if found == wanted:
                continue
            why = f"reads {tensor.name}, which"
            if found is None and tensor.scheduled:
                _fault(index, effect.run, f"{why} is not allocated")
            if found is None or found == _NOTHING:
                _fault(index, effect.run, f"{why} has no value")
            if tensor.kind == "parameter" and wanted == _BEFORE:
                _fault(index, effect.run, f"reads {tensor.name} after its update")
            came = ""
            if tensor in self.unread:
                came = f", by steps[{self.unread[tensor]}]"
            _fault(
                index,
                effect.run,
                f"{why} holds {self.route.describe(found)}{came}, "
                f"not {self.route.describe(wanted)}",
            )
        raise AssertionError("every value is the one expected")


def _check_scheduled(index: int, step: Step, tensor: Tensor) -> None:
    if not tensor.scheduled:
        _fault(index, step, f"is a {tensor.kind}: those stay where they are")


def _check_addresses(plan: Plan, slab: int | None) -> None:
    """All tensors placed or none; aligned, in the slab, and none on another.

    The tensors alive are kept in order of address: a new one can only overlap its
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
    """No step has more bytes in use than the limit."""
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
    """Raise InvalidPlan at the first thing wrong, naming step and tensor.

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
    if route is None:
        origin = _checked_route(_first_runs(plan))
    else:
        try:
            origin = _checked_route(_runs(route))
        except InvalidPlan as error:
            raise InvalidPlan(f"the route's {error}") from None
    _Device(origin).follow(plan)
    _check_addresses(plan, slab)
    if capacity is not None:
        _check_bytes(plan, memory(plan, workspace=True), capacity, "on the device")
    if host_capacity is not None:
        _check_bytes(plan, host_memory(plan), host_capacity, "on the host")
