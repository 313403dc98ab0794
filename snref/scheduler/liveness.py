"""Liveness analysis (SuperNeurons, section 3.2): a tensor is freed at its last use.

A value is live while a later step reads it before it is defined again. One backward
sweep over the plan finds the step after which each value is dead. Whole live sets would
be quadratic, and the paper's deepest net has ten thousand layers.

Liveness is the paper's first stage, and comes last here: the other passes insert second
definitions (a re-run, a copy back), and this pass must see them all. As an analysis,
``last_uses``, other passes use it, too.

A layer's output and its gradient, before and after:

>>> from snref.plans import Launch, Run
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
    """Return, for each step, the scheduled tensors whose last use it is.

    A tensor that a step writes and no later step reads is dead after that step.
    """
    live: set[Tensor] = set()  # after the step
    dead: list[tuple[Tensor, ...]] = []
    for step in reversed(plan.steps):
        dead.append(tuple([t for t in _touched(step) if t not in live]))
        live.difference_update(writes(step))
        live.update(reads(step))
    return dead[::-1]


def free_dead(plan: Plan) -> Plan:
    """Allocate each tensor before its first use and free it after its last.

    A tensor that is defined again is allocated again.
    """
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
    return Plan(tuple(steps))


def hold_all(plan: Plan) -> Plan:
    """Allocate every tensor before the first step and free it after the last.

    This is the paper's baseline. Workspaces are allocated for their runs only, as they
    are in every framework; and so are merged gradients of parameters, whose place is
    the one region of Shirahata et al., and the small tensors of int32 that a layer's
    backward leaves for itself.
    """
    tensors = dict.fromkeys(t for step in plan.steps for t in _touched(step))
    passing = "workspace", "merged_gradient"
    held = {t: None for t in tensors if t.kind not in passing and t.dtype != "int32"}
    steps: list[Step] = []
    for step in free_dead(plan).steps:
        if not isinstance(step, Alloc | Free) or step.tensor not in held:
            steps.append(step)
    steps = [*map(Alloc, held), *steps, *map(Free, held)]
    return Plan(tuple(steps))


def _touched(step: Step) -> tuple[Tensor, ...]:
    """Return what must be allocated for a step: scheduled tensors and workspaces."""
    match step:
        case Run():
            return step.touched
        case Offload(tensor) | Prefetch(tensor):
            return (tensor,)
        case Alloc() | Free():
            raise TypeError("the plan is allocated already")
