"""Liveness analysis (SuperNeurons, section 3.2): a tensor is freed at its last use.

A value is live while a later step reads it before it is defined again; the step after
which it is not is its death. One backward sweep finds every death; whole live sets
would be quadratic, and the paper's deepest net has ten thousand layers.

Liveness comes first in the paper and last in the pipeline: as an *analysis* every
stage leans on it, as a *pass* it must see all redefinitions the stages put in.

A layer's output and its gradient, before and after:

>>> from snref.plans import Launch
>>> from snref.plans import Run
>>> x, y, dy, dx = (Tensor(name, (64,)) for name in ("x", "y", "dy", "dx"))
>>> plan = Plan((
...     Run("conv1", "forward", (Launch("", (x,)),)),
...     Run("relu1", "forward", (Launch("", (y,), (x,)),)),
...     Run("loss", "backward", (Launch("", (dy,), (y,)),)),
...     Run("relu1", "backward", (Launch("", (dx,), (x, dy)),)),
... ))
>>> print(free_dead(plan))
alloc     x  256
forward   conv1  -> x
alloc     y  256
forward   relu1  x -> y
alloc     dy  256
backward  loss  y -> dy
free      y
alloc     dx  256
backward  relu1  x dy -> dx
free      x
free      dy
free      dx
"""

from snref.plans import (
    Alloc,
    Free,
    Offload,
    Plan,
    Prefetch,
    Run,
    Step,
    Tensor,
    reads,
    writes,
)


def last_uses(plan: Plan) -> list[tuple[Tensor, ...]]:
    """The scheduled tensors that are dead after each step, in order of use.

    A tensor that a step writes and nobody reads dies at that step, too.
    """
    live: set[Tensor] = set()
    dead: list[tuple[Tensor, ...]] = []
    for step in reversed(plan.steps):
        dead.append(tuple([t for t in _touched(step) if t not in live]))
        live.difference_update(writes(step))
        live.update(reads(step))
    return dead[::-1]


def free_dead(plan: Plan) -> Plan:
    """Room before the first touch, freed at the death; again for each redefinition."""
    steps: list[Step] = []
    allocated: set[Tensor] = set()
    for step, dying in zip(plan.steps, last_uses(plan), strict=True):
        for tensor in _touched(step):
            if tensor not in allocated:
                allocated.add(tensor)
                steps.append(Alloc(tensor))
        steps.append(step)
        steps += map(Free, dying)
        allocated.difference_update(dying)
    return Plan(tuple(steps), (*plan.history, "free_dead"))


def hold_all(plan: Plan) -> Plan:
    """The baseline: every tensor has its own room from the first step to the last.

    Workspaces come and go with their runs, as they do in every framework.
    """
    held: dict[Tensor, None] = {}
    for step in plan.steps:
        held.update((t, None) for t in _touched(step) if t.kind != "workspace")
    steps: list[Step] = list(map(Alloc, held))
    for step in plan.steps:
        scratch = [t for t in _touched(step) if t.kind == "workspace"]
        steps += [*map(Alloc, scratch), step, *map(Free, scratch)]
    steps += map(Free, held)
    return Plan(tuple(steps), (*plan.history, "hold_all"))


def _touched(step: Step) -> tuple[Tensor, ...]:
    """The scheduled tensors a step needs room for, workspaces among them."""
    match step:
        case Run():
            return step.touched
        case Offload(tensor) | Prefetch(tensor):
            return (tensor,)
        case Alloc() | Free():
            raise TypeError("the plan is allocated already")
