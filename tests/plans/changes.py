"""Random changes of plans, valid or not, for judges to agree on."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypeAlias, get_args

from snref.plans import (
    Alloc,
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

from .faults import with_tensors

Change: TypeAlias = Callable[[Plan, Random], Plan | None]  # None: nothing to change


def indices(plan: Plan, *kinds: type[Step]) -> list[int]:
    return [i for i, step in enumerate(plan.steps) if isinstance(step, kinds)]


def moved(plan: Plan, random: Random, *kinds: type[Step]) -> Plan | None:
    """A step of these kinds at another place, more often near than far."""
    places = indices(plan, *kinds)
    if not places:
        return None
    index = random.choice(places)
    distance = random.choice((1, 2, 4, 8, len(plan.steps)))
    to = index + random.randint(-distance, distance)
    steps = [*plan.steps]
    steps.insert(min(max(0, to), len(steps)), steps.pop(index))
    return Plan(tuple(steps))


def deleted(plan: Plan, random: Random) -> Plan:
    index = random.randrange(len(plan.steps))
    return Plan((*plan.steps[:index], *plan.steps[index + 1 :]))


def repeated(plan: Plan, random: Random) -> Plan:
    """A step done once more, at any place."""
    step = random.choice(plan.steps)
    place = random.randint(0, len(plan.steps))
    return Plan((*plan.steps[:place], step, *plan.steps[place:]))


def exchanged(plan: Plan, random: Random) -> Plan:
    """Two steps in each other's place."""
    steps = [*plan.steps]
    i, j = random.randrange(len(steps)), random.randrange(len(steps))
    steps[i], steps[j] = steps[j], steps[i]
    return Plan(tuple(steps))


def copied(plan: Plan, random: Random) -> Plan | None:
    """A tensor copied to the host, freed, allocated again and copied back."""
    lives = indices(plan, Alloc)
    start = random.choice(lives)
    tensor = plan.steps[start].tensor  # type: ignore[union-attr]
    ends = [i for i in indices(plan, Free) if i > start]
    end = next((i for i in ends if plan.steps[i].tensor is tensor), start)  # type: ignore[union-attr]
    if end - start < 3:
        return None
    out, back = sorted(random.sample(range(start + 1, end + 1), 2))
    steps = [*plan.steps]
    steps[back:back] = [Alloc(tensor), Prefetch(tensor)]
    steps[out:out] = [Offload(tensor), Free(tensor)]
    return Plan(tuple(steps))


def recomputed(plan: Plan, random: Random) -> Plan | None:
    """A forward's outputs freed and computed again, at any place."""
    forwards = [r for r in plan.runs() if r.phase == "forward" and r.writes]
    run = random.choice(forwards)
    own = [tensor for tensor in run.writes if tensor.scheduled]
    place, later = sorted(random.choices(range(len(plan.steps)), k=2))
    steps = [*plan.steps]
    steps[later:later] = [*map(Alloc, own), run]
    steps[place:place] = [*map(Free, own)]
    return Plan(tuple(steps))


def with_run(plan: Plan, index: int, change: Callable[[Work], Work]) -> Plan:
    """The plan with every piece of a run changed."""
    run = plan.steps[index]
    assert isinstance(run, Run)
    new = run.with_work(tuple(map(change, run.work)))
    return Plan((*plan.steps[:index], new, *plan.steps[index + 1 :]))


def all_tensors(plan: Plan) -> list[Tensor]:
    tensors = (t for run in plan.runs() for t in (*run.reads, *run.writes))
    allocated = (s.tensor for s in plan.steps if isinstance(s, Alloc))
    return [*dict.fromkeys((*tensors, *allocated))]


def another(plan: Plan, random: Random, old: Tensor) -> Tensor:
    """Another tensor, mostly one that could stand for the old one."""
    tensors = [t for t in all_tensors(plan) if t is not old]
    alike = [t for t in tensors if (t.shape, t.dtype) == (old.shape, old.dtype)]
    return random.choice(alike if alike and random.random() < 0.8 else tensors)


def renamed_once(plan: Plan, random: Random) -> Plan | None:
    """One operand of one launch renamed."""
    index = random.choice(indices(plan, Run))
    run = plan.steps[index]
    assert isinstance(run, Run)
    operands = [(i, j) for i, w in enumerate(run.work) for j in range(len(w.tensors))]
    if not operands:
        return None
    piece, place = random.choice(operands)
    tensors = [*run.work[piece].tensors]
    tensors[place] = another(plan, random, tensors[place])
    work = [*run.work]
    work[piece] = with_tensors(work[piece], tuple(tensors))
    changed = run.with_work(tuple(work))
    return Plan((*plan.steps[:index], changed, *plan.steps[index + 1 :]))


def renamed_from(plan: Plan, random: Random) -> Plan | None:
    """A tensor renamed in all steps from a run that writes it, often to an input.

    Where nobody needs the other tensor's own value meanwhile, that is valid: both are
    allocated from their first use to their last.
    """
    start = random.choice([i for i in indices(plan, Run) if writes(plan.steps[i])])
    run = plan.steps[start]
    old = random.choice(writes(run))
    new = another(plan, random, old)
    alike = [t for t in reads(run) if t.scheduled and t.shape == old.shape]
    if alike and random.random() < 0.5:
        new = random.choice(alike)
    stop = random.choice((len(plan.steps), random.randint(start, len(plan.steps))))
    steps = [*plan.steps]
    for i in range(start, stop):
        step = steps[i]
        if isinstance(step, Run):
            work = tuple(with_name(piece, old, new) for piece in step.work)
            steps[i] = step.with_work(work)
        elif step.tensor is old:
            steps[i] = type(step)(new)
    return reallocated(Plan(tuple(steps)), {old, new})


def with_name(work: Work, old: Tensor, new: Tensor) -> Work:
    return with_tensors(work, tuple(new if t is old else t for t in work.tensors))


def reallocated(plan: Plan, tensors: set[Tensor]) -> Plan:
    """The plan with these tensors allocated from their first use to their last."""
    used: dict[Tensor, list[int]] = {}
    for i, step in enumerate(plan.steps):
        if isinstance(step, Run):
            touched = (*step.reads, *step.writes)
        elif isinstance(step, Offload | Prefetch):
            touched = (step.tensor,)
        else:
            continue
        for tensor in tensors.intersection(touched):
            if tensor.scheduled:
                used.setdefault(tensor, []).append(i)
    steps: list[Step] = []
    for i, step in enumerate(plan.steps):
        steps += [Alloc(t) for t, uses in used.items() if uses[0] == i]
        if not isinstance(step, Alloc | Free) or step.tensor not in tensors:
            steps.append(step)
        steps += [Free(t) for t, uses in used.items() if uses[-1] == i]
    return Plan(tuple(steps))


def other_setting(plan: Plan, random: Random) -> Plan | None:
    """A launch's kernel, grid, block, view, scalars, portion or updates changed."""
    index = random.choice(indices(plan, Run))
    name, value = random.choice(
        (
            ("kernel", "relu.forward"),
            ("grid", (random.randint(1, 9),)),
            ("block", (random.choice((32, 64, 256)),)),
            ("view", random.choice(("shape", "rows", "channels", "flat"))),
            ("scalars", random.choice(((), (1,), (0.5,)))),
            ("portion", random.choice((None, (0, 2), (1, 2), (0, 1)))),
            ("updates", random.random() < 0.5),
        )
    )
    run = plan.steps[index]
    assert isinstance(run, Run)
    launches = [work for work in run.work if isinstance(work, Launch)]
    if all(getattr(launch, name) == value for launch in launches):
        return None

    def change(work: Work) -> Work:
        return replace(work, **{name: value}) if isinstance(work, Launch) else work

    return with_run(plan, index, change)


def other_algorithm(plan: Plan, random: Random) -> Plan | None:
    """A choice made otherwise, in some tensor as workspace or in none."""
    runs = [i for i in indices(plan, Run) if plan.steps[i].choices]  # type: ignore[union-attr]
    if not runs:
        return None
    index = random.choice(runs)
    scratch = random.choice((None, *all_tensors(plan)))

    def change(work: Work) -> Work:
        if isinstance(work, Launch):
            return work
        return replace(work, chosen=random.choice(work.algorithms), workspace=scratch)

    return with_run(plan, index, change)


def other_address(plan: Plan, random: Random) -> Plan | None:
    """A tensor at another's address, or near it."""
    allocs = indices(plan, Alloc)
    steps = [*plan.steps]
    one, other = (steps[random.choice(allocs)] for _ in range(2))
    assert isinstance(one, Alloc) and isinstance(other, Alloc)
    if other.offset is None:
        return None
    offset = max(0, other.offset + 256 * random.randint(-2, 2))
    steps[steps.index(one)] = Alloc(one.tensor, offset)
    return Plan(tuple(steps))


CHANGES: dict[str, Change] = {
    "step moved": lambda plan, random: moved(plan, random, *get_args(Step)),
    "Alloc or Free moved": lambda plan, random: moved(plan, random, Alloc, Free),
    "copy moved": lambda plan, random: moved(plan, random, Offload, Prefetch),
    "run moved": lambda plan, random: moved(plan, random, Run),
    "step deleted": deleted,
    "step repeated": repeated,
    "steps exchanged": exchanged,
    "copy added": copied,
    "recomputation added": recomputed,
    "operand renamed": renamed_once,
    "tensor renamed": renamed_from,
    "setting changed": other_setting,
    "algorithm changed": other_algorithm,
    "address changed": other_address,
}
