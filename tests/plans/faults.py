"""Mutants of valid plans: each has one fault, which every judge must find."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import TypeAlias

from snref.plans import (
    Alloc,
    Choice,
    Free,
    Launch,
    Offload,
    Plan,
    Prefetch,
    Run,
    Step,
    Tensor,
    Work,
    reads,
    writes,
)

Mutants: TypeAlias = Iterator[tuple[int, Plan]]  # where, and the plan with a fault
OVERLAPS = 2  # of the tensors alive beside each, how many it is put upon
RERUNS = 2  # of the forward runs that find room at a place, how many are added there


def mutant(plan: Plan, removed: int | None, place: int = 0, *added: Step) -> Plan:
    """The plan without one of its steps, with others put before the one at place."""
    kept = [(i, step) for i, step in enumerate(plan.steps) if i != removed]
    before = [step for i, step in kept if i < place]
    after = [step for i, step in kept if i >= place]
    return Plan((*before, *added, *after))


def without(plan: Plan, kind: type[Step]) -> Mutants:
    """Every step of a kind deleted."""
    for index, step in enumerate(plan.steps):
        if isinstance(step, kind):
            yield index, mutant(plan, index)


def touched(step: Step) -> tuple[Tensor, ...]:
    if isinstance(step, Run):
        return (*step.reads, *step.writes, *step.workspaces)
    return () if isinstance(step, Alloc | Free) else (step.tensor,)


def early_frees(plan: Plan) -> Mutants:
    """Every Free moved before the last read, and before the last touch, of its tensor.

    Both are between the tensor's Alloc and this Free: the value read is lost, or the
    touch finds no room.
    """
    last_read: dict[Tensor, int] = {}
    last_touch: dict[Tensor, int] = {}
    for index, step in enumerate(plan.steps):
        if isinstance(step, Free):
            tensor = step.tensor
            places = {last_read.pop(tensor, None), last_touch.pop(tensor, None)}
            for place in places - {None}:
                assert place is not None
                yield index, mutant(plan, index, place, step)
        last_touch |= dict.fromkeys(touched(step), index)
        last_read |= dict.fromkeys(reads(step), index)


def early_offloads(plan: Plan) -> Mutants:
    """Every Offload moved before the step that gave the tensor its value."""
    written: dict[Tensor, int] = {}
    for index, step in enumerate(plan.steps):
        if isinstance(step, Offload):
            yield index, mutant(plan, index, written[step.tensor], step)
        written |= dict.fromkeys(writes(step), index)


def late_prefetches(plan: Plan) -> Mutants:
    """Every Prefetch moved behind the first step that reads its tensor."""
    next_read: dict[Tensor, int] = {}
    for index in range(len(plan.steps) - 1, -1, -1):
        step = plan.steps[index]
        if isinstance(step, Prefetch):
            yield index, mutant(plan, index, next_read[step.tensor] + 1, step)
        next_read |= dict.fromkeys(reads(step), index)


def overlaps(plan: Plan) -> Mutants:
    """Every tensor put upon others that are alive together with it: on their first
    bytes, and on their last.
    """
    random = Random(0)
    ends = {}
    for index in range(len(plan.steps) - 1, -1, -1):
        step = plan.steps[index]
        if isinstance(step, Free):
            ends[step.tensor] = index
        elif isinstance(step, Alloc):
            end = ends[step.tensor]
            others = beside(plan, index, end)
            for other in random.sample(others, min(OVERLAPS, len(others))):
                assert other.offset is not None
                low = other.offset
                for offset in {low, low + other.tensor.aligned_bytes - 256}:
                    moved = Alloc(step.tensor, offset)
                    yield index, mutant(plan, index, index, moved)


def beside(plan: Plan, start: int, end: int) -> list[Alloc]:
    """The Allocs of other tensors that are alive at some step from start to end."""
    alive: dict[Tensor, Alloc] = {}
    for step in plan.steps[:start]:
        if isinstance(step, Alloc):
            alive[step.tensor] = step
        elif isinstance(step, Free):
            del alive[step.tensor]
    later = [s for s in plan.steps[start + 1 : end] if isinstance(s, Alloc)]
    return [*alive.values(), *later]


def dropped_reruns(plan: Plan) -> Mutants:
    """Every recomputation deleted."""
    seen: set[str] = set()
    for index, step in enumerate(plan.steps):
        if isinstance(step, Run) and step.phase == "forward":
            if step.layer in seen:
                yield index, mutant(plan, index)
            seen.add(step.layer)


def early_updates(plan: Plan) -> Mutants:
    """Every update moved before every run that reads what it changes."""
    readers: dict[Tensor, list[int]] = {}
    for index, step in enumerate(plan.steps):
        if isinstance(step, Run) and step.phase == "update":
            parameters = [t for t in step.writes if t.kind == "parameter"]
            for place in dict.fromkeys(i for t in parameters for i in readers[t]):
                yield index, mutant(plan, index, place, step)
        elif isinstance(step, Run):
            for tensor in step.reads:
                readers.setdefault(tensor, []).append(index)


def missing_runs(plan: Plan) -> Mutants:
    """Every run of the route deleted, recomputations spared."""
    seen: set[tuple[str, str]] = set()
    for index, step in enumerate(plan.steps):
        if isinstance(step, Run):
            if (step.layer, step.phase) not in seen:
                yield index, mutant(plan, index)
            seen.add((step.layer, step.phase))


def swapped_runs(plan: Plan) -> Mutants:
    """Every forward and backward of the route moved before the one ahead of it."""
    seen: set[tuple[str, str]] = set()
    ahead: int | None = None
    for index, step in enumerate(plan.steps):
        if isinstance(step, Run) and step.phase != "update":
            if (step.layer, step.phase) in seen:
                continue
            seen.add((step.layer, step.phase))
            if ahead is not None:
                yield index, mutant(plan, index, ahead, step)
            ahead = index


def added_reruns(plan: Plan) -> Mutants:
    """Forward runs that find room added at every place: all values that are read are
    there without them.
    """
    random = Random(0)
    known: dict[str, Run] = {}
    for run in plan.runs():
        if run.phase == "forward":
            known.setdefault(run.layer, run)
    room: set[Tensor] = set()
    for index in range(len(plan.steps) + 1):
        runs = [run for run in known.values() if room.issuperset(run.working_set)]
        for run in random.sample(runs, min(RERUNS, len(runs))):
            yield index, mutant(plan, None, index, run)
        if index < len(plan.steps):
            step = plan.steps[index]
            if isinstance(step, Alloc):
                room.add(step.tensor)
            elif isinstance(step, Free):
                room.discard(step.tensor)


def with_tensors(work: Work, tensors: tuple[Tensor, ...]) -> Work:
    """A launch or a choice on other tensors, in the order of ``work.tensors``."""
    if isinstance(work, Choice):
        output, first, second = tensors
        return replace(work, output=output, inputs=(first, second))
    outputs, inputs = len(work.outputs), len(work.outputs) + len(work.inputs)
    return replace(
        work,
        outputs=tensors[:outputs],
        inputs=tensors[outputs:inputs],
        retained=tensors[inputs:],
    )


def with_work(plan: Plan, index: int, place: int, work: Work | None) -> Plan:
    """The plan with a piece of a run replaced, or deleted."""
    run = plan.steps[index]
    assert isinstance(run, Run)
    pieces = [*run.work]
    pieces[place : place + 1] = [] if work is None else [work]
    return mutant(plan, index, index, run.with_work(tuple(pieces)))


def pieces(plan: Plan) -> Iterator[tuple[int, int, Work, list[Tensor]]]:
    """Every launch and choice: index of its run, its place there, and the tensors that
    are resident or allocated.
    """
    present = dict.fromkeys(
        t for run in plan.runs() for t in (*run.reads, *run.writes) if not t.scheduled
    )
    for index, step in enumerate(plan.steps):
        if isinstance(step, Run):
            for place, work in enumerate(step.work):
                yield index, place, work, [*present]
        elif isinstance(step, Alloc):
            present[step.tensor] = None
        elif isinstance(step, Free):
            del present[step.tensor]


def renamed_inputs(plan: Plan) -> Mutants:
    """Every input of every launch renamed: to a tensor that could pass for it, if there
    is one, and to any other.
    """
    random = Random(0)
    for index, place, work, present in pieces(plan):
        for i in range(len(work.outputs), len(work.outputs) + len(work.inputs)):
            old = work.tensors[i]
            others = [t for t in present if t is not old and t not in work.outputs]
            alike = [t for t in others if (t.shape, t.dtype) == (old.shape, old.dtype)]
            for candidates in alike, others:
                if candidates:
                    tensors = [*work.tensors]
                    tensors[i] = random.choice(candidates)
                    new = with_tensors(work, tuple(tensors))
                    yield index, with_work(plan, index, place, new)


def renamed_outputs(plan: Plan) -> Mutants:
    """Every output of every launch renamed to a resident tensor, and to one of another
    shape, size or type.
    """
    random = Random(0)
    for index, place, work, present in pieces(plan):
        for i, old in enumerate(work.outputs):
            others = [t for t in present if t not in work.tensors]
            resident = [t for t in others if not t.scheduled]
            unlike = [t for t in others if (t.shape, t.dtype) != (old.shape, old.dtype)]
            for candidates in resident, unlike:
                if candidates:
                    tensors = [*work.tensors]
                    tensors[i] = random.choice(candidates)
                    new = with_tensors(work, tuple(tensors))
                    yield index, with_work(plan, index, place, new)


def aliases(plan: Plan) -> Mutants:
    """Outputs laid on inputs where the kernel does not allow it, and on each other.

    Launches that have been renamed are left out: they allow it by other names.
    """
    for index, place, work, _ in pieces(plan):
        allowed = work.may_overwrite if isinstance(work, Launch) else ()
        permitted = {(output, target) for output, target, _ in allowed}
        if not {t for pair in permitted for t in pair} <= {*work.tensors}:
            continue
        flow = work.outputs + work.inputs
        for i, output in enumerate(work.outputs):
            for target in flow[i + 1 :]:
                if target is not output and (output, target) not in permitted:
                    tensors = [target if t is output else t for t in work.tensors]
                    new = with_tensors(work, tuple(tensors))
                    yield index, with_work(plan, index, place, new)


def wrong_portions(plan: Plan) -> Mutants:
    """Every launch that writes a portion: deleted, done twice, or made to write
    another; and every other launch made to write a portion.
    """
    for index, place, work, _ in pieces(plan):
        if isinstance(work, Choice):
            continue
        if work.portion is None:
            new = replace(work, portion=(0, 2))
            yield index, with_work(plan, index, place, new)
            continue
        i, n = work.portion
        yield index, with_work(plan, index, place, None)
        for portion in ((i + 1) % n, n), (0, n + 1), None:
            new = replace(work, portion=portion)
            yield index, with_work(plan, index, place, new)
        run = plan.steps[index]
        assert isinstance(run, Run)
        swapped = run.with_work((*run.work[1:], run.work[0]))
        yield index, mutant(plan, index, index, swapped)


def other_launches(plan: Plan) -> Mutants:
    """Every launch with two of: another kernel, grid, block, view, scalars, cost."""
    random = Random(0)
    for index, place, work, _ in pieces(plan):
        if isinstance(work, Choice):
            yield index, with_work(plan, index, place, replace(work, algorithms=()))
            continue
        changed = (
            replace(work, kernel="joins.copy2"),
            replace(work, grid=(*work.grid[:-1], work.grid[-1] + 1)),
            replace(work, block=(*work.block[:-1], work.block[-1] // 2)),
            replace(work, view="rows" if work.view != "rows" else "flat"),
            replace(work, scalars=(*work.scalars, 1)),
            replace(work, updates=not work.updates),
            replace(work, flops=work.flops + 1),
        )
        for new in random.sample(changed, 2):
            yield index, with_work(plan, index, place, new)


def wrong_workspaces(plan: Plan) -> Mutants:
    """Every workspace taken away, or put on a tensor that the choice works on, or on a
    resident one.
    """
    for index, place, work, present in pieces(plan):
        if isinstance(work, Choice) and work.workspace is not None:
            resident = [t for t in present if not t.scheduled]
            big = [t for t in resident if t.nbytes >= work.chosen.workspace]
            for scratch in (None, *work.tensors, *big[:2]):
                new = replace(work, workspace=scratch)
                yield index, with_work(plan, index, place, new)


MUTATIONS: dict[str, Callable[[Plan], Mutants]] = {
    "Alloc deleted": lambda plan: without(plan, Alloc),
    "Free deleted": lambda plan: without(plan, Free),
    "Offload deleted": lambda plan: without(plan, Offload),
    "Prefetch deleted": lambda plan: without(plan, Prefetch),
    "Offload too early": early_offloads,
    "Prefetch too late": late_prefetches,
    "Free too early": early_frees,
    "placements overlap": overlaps,
    "recomputation dropped": dropped_reruns,
    "parameter read after its update": early_updates,
    "redundant re-run added": added_reruns,
    "run missing": missing_runs,
    "runs swapped": swapped_runs,
    "input renamed": renamed_inputs,
    "output renamed": renamed_outputs,
    "alias not allowed": aliases,
    "portion wrong": wrong_portions,
    "launch changed": other_launches,
    "workspace wrong": wrong_workspaces,
}

# The first run of a layer and phase in the plan stands for the route where none is
# given. Only the route tells these kinds of mutant from a plan of another net.
NEED_ROUTE = {
    "run missing",
    "runs swapped",
    "input renamed",
    "output renamed",
    "alias not allowed",
    "portion wrong",
    "launch changed",
    "workspace wrong",
}
