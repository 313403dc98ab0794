"""A second judge of plans, which shares nothing with the verifier: symbolic execution.

A plan is executed on a memory of blocks of 256 bytes. What a launch writes there is an
expression: its kernel, its settings, and the expressions that it reads. A plan computes
what its route computes if in the end parameters, momenta and states hold the same
expressions. The memory has addresses, so tensors that overlap destroy each other; a
tensor that is freed or not yet written holds garbage, which equals nothing else.

This judge is more lenient than ``verify``: useless copies and recomputations, tensors
that are never freed, the order of runs that do not depend on each other, and tensors
that are declared but not read do not matter to it. Whatever ``verify`` accepts, it must
accept.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from snref.plans import Alloc, Choice, Free, Launch, Offload, Plan, Run, Tensor

Key: TypeAlias = tuple[str, str]  # a run's layer and phase

BLOCK = 256
SCHEDULED = "activation", "gradient", "workspace"
LASTING = "parameter", "momentum", "state"


class Wrong(Exception):
    """A step that cannot be executed."""


class Expressions:
    """Numbers of expressions: equal expressions have one number."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.portions: dict[tuple[int, int], list[int]] = {}  # of (expression, count)
        self.garbage = count()

    def number(self, *expression: Hashable) -> int:
        return self.numbers.setdefault(expression, len(self.numbers))

    def unknown(self) -> int:
        return self.number("garbage", next(self.garbage))

    def with_portion(self, old: int, new: int, index: int, total: int) -> int:
        """Return the expression of a whole of which one portion was written anew."""
        rests = [self.number("rest", old, i) for i in range(total)]
        portions = [*self.portions.get((old, total), rests)]
        portions[index] = new
        whole = self.number("portions", *portions)
        self.portions[whole, total] = portions
        return whole


class Memory:
    """The memory of a device, and of its host, with expressions in place of bytes."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.blocks: dict[int, tuple[int, int]] = {}  # expression, and which part of it
        self.bases: dict[Tensor, int] = {}  # the first block of each tensor
        self.unplaced = count(2**40, 2**30)  # blocks for tensors without an address
        self.host: dict[Tensor, int] = {}

    def span(self, tensor: Tensor) -> range:
        """Return the blocks of a tensor; a resident one is there from the beginning."""
        if tensor not in self.bases:
            if tensor.kind in SCHEDULED:
                raise Wrong(f"{tensor.name} is not allocated")
            self.bases[tensor] = next(self.unplaced)
            self.write(tensor, self.expressions.number("before", tensor.name))
        base = self.bases[tensor]
        return range(base, base + -(-tensor.nbytes // BLOCK))

    def read(self, tensor: Tensor) -> int:
        """Return the expression that fills the tensor; a mixture is another one."""
        span = self.span(tensor)
        found = [self.blocks.get(block) for block in span]
        whole = found[0][0] if found[0] else None
        if whole is not None and found == [(whole, i) for i in range(len(span))]:
            return whole
        return self.expressions.number("mixture", *found)

    def write(self, tensor: Tensor, expression: int) -> None:
        for i, block in enumerate(self.span(tensor)):
            self.blocks[block] = expression, i

    def allocate(self, tensor: Tensor, offset: int | None) -> None:
        if tensor in self.bases:
            raise Wrong(f"{tensor.name} is allocated already")
        base, rest = divmod(-1 if offset is None else offset, BLOCK)
        if offset is None:
            base = next(self.unplaced)
        elif rest or base < 0:
            raise Wrong(f"{tensor.name} at {offset}")
        self.bases[tensor] = base

    def free(self, tensor: Tensor) -> None:
        self.write(tensor, self.expressions.unknown())
        del self.bases[tensor]


def execute(plan: Plan, declared: Mapping[Key, Run], memory: Memory) -> None:
    """Execute a plan. declared: each run as it is in the route."""
    for step in plan.steps:
        if isinstance(step, Run):
            key = step.layer, step.phase
            if key not in declared or len(declared[key].work) != len(step.work):
                raise Wrong(f"{key} is another run in the route")
            for work, theirs in zip(step.work, declared[key].work, strict=True):
                launch(memory, key, work, theirs)
        elif isinstance(step, Alloc):
            memory.allocate(step.tensor, step.offset)
        elif isinstance(step, Free):
            memory.free(step.tensor)
        elif isinstance(step, Offload):
            memory.host[step.tensor] = memory.read(step.tensor)
        elif step.tensor in memory.host:
            memory.write(step.tensor, memory.host[step.tensor])
        else:
            raise Wrong(f"{step.tensor.name} has no copy on the host")


def launch(
    memory: Memory, key: Key, work: Launch | Choice, theirs: Launch | Choice
) -> None:
    """Write what a launch, or one part of a convolution, computes."""
    expressions = memory.expressions
    tensors = (*work.outputs, *work.inputs)
    names = (*theirs.outputs, *theirs.inputs)  # the same, in the route
    spans = [memory.span(tensor) for tensor in tensors]
    read = work.inputs
    portion = None
    allowed: Sequence[tuple[Tensor, Tensor]] = ()
    what: tuple[Hashable, ...]
    if isinstance(work, Launch):
        if work.updates:
            read = tensors
        portion = work.portion
        settings = work.updates, portion, work.grid, work.block
        what = key, str(work.kernel), repr(work.scalars), work.view, *settings
        if isinstance(theirs, Launch):
            allowed = [(output, target) for output, target, _ in theirs.may_overwrite]
    else:
        chosen, workspace = work.chosen, work.workspace
        if not isinstance(theirs, Choice) or chosen not in theirs.algorithms:
            raise Wrong(f"{key} has no {chosen.name}")
        if chosen.workspace and (not workspace or workspace.nbytes < chosen.workspace):
            raise Wrong(f"{key} lacks a workspace")
        if work.updates:
            read = tensors
        what = key, work.part, chosen.order, work.updates
        if workspace:
            spans.append(memory.span(workspace))
    inputs = tuple(memory.read(tensor) for tensor in read)
    if isinstance(work, Choice) and work.workspace:
        memory.write(work.workspace, expressions.unknown())
    shapes = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
    for i, output in enumerate(work.outputs):
        new = expressions.number(*what, i, inputs, shapes)
        for j, span in enumerate(spans):
            if i == j or max(span[0], spans[i][0]) > min(span[-1], spans[i][-1]):
                continue
            known = i < len(names) and j < len(names)  # else it is the workspace
            same = known and names[i] is names[j]
            may = known and (names[i], names[j]) in allowed
            if not (same or may) or span != spans[i]:
                new = expressions.unknown()
        if portion is not None:
            new = expressions.with_portion(memory.read(output), new, *portion)
        memory.write(output, new)


def objection(plan: Plan, route: Plan) -> str | None:
    """Return why a plan computes something else than its route; None if it does not."""
    declared = {(run.layer, run.phase): run for run in route.runs()}
    first: dict[Key, Run] = {}
    for run in plan.runs():
        first.setdefault((run.layer, run.phase), run)
    if first.keys() != declared.keys():
        return f"{sorted(first.keys() ^ declared.keys())}"
    expressions = Expressions()
    reached, wanted = Memory(expressions), Memory(expressions)
    try:
        execute(plan, declared, reached)
    except Wrong as wrong:
        return str(wrong)
    execute(keep_all(first, route), declared, wanted)
    for tensor in wanted.bases:
        if tensor.kind in LASTING and reached.read(tensor) != wanted.read(tensor):
            return f"{tensor.name} ends with something else"
    return None


def keep_all(first: Mapping[Key, Run], route: Plan) -> Plan:
    """The route, allocated at once, by the algorithms that a plan runs first."""
    runs = []
    for run in route.runs():
        work = [*run.work]
        for i, piece in enumerate(first[run.layer, run.phase].work):
            mine = work[i]
            if isinstance(piece, Choice) and isinstance(mine, Choice):
                words = -(-piece.chosen.workspace // 4)
                scratch = Tensor("scratch", (words,), "workspace") if words else None
                work[i] = replace(mine, chosen=piece.chosen, workspace=scratch)
        runs.append(run.with_work(tuple(work)))
    tensors = dict.fromkeys(tensor for run in runs for tensor in run.touched)
    return Plan((*map(Alloc, tensors), *runs))
