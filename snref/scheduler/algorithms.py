"""Convolution algorithms and workspaces (SuperNeurons, section 3.5).

A convolution can be computed in several ways, and the faster ones need a workspace.
Tensors come first; workspaces get the bytes that are left. At each forward,
data-gradient and filter-gradient step, discard the algorithms whose workspace does not
fit the free bytes, take the fastest of the rest, and free the workspace after the step.
So one layer may get different algorithms in different steps.

none     no workspaces
exact    only algorithms that sum in the same order as the layer's first one: the bits
         of the result do not depend on the free bytes
fastest  any algorithm, as in the paper

A convolution with 1,024 bytes left, and with 512:

>>> from snref.plans import Algorithm
>>> x, w, y = Tensor("x", (64,)), Tensor("w", (9,), "parameter"), Tensor("y", (64,))
>>> slow = Algorithm("tiled", "taps", 0, 9, 9, lambda y, x, w, scratch: ())
>>> fast = Algorithm("im2col", "taps", 900, 9, 9, lambda y, x, w, scratch: ())
>>> run = Run("conv1", "forward", (Choice("forward", y, (x, w), (slow, fast), slow),))
>>> seconds = {
...     ("conv1", "forward", "tiled"): 2.0, ("conv1", "forward", "im2col"): 1.0,
... }
>>> costs = Costs("by hand", {}, seconds, to_host=1e9, to_device=1e9)
>>> for left in 1024, 512:
...     print(choose_algorithms(Plan((run,)), 512 + left, costs, "exact"))
forward   conv1  x -> y  [forward=im2col]
forward   conv1  x -> y
"""

from dataclasses import replace

from snref.plans import Algorithm, Choice, Plan, Run, Step, Tensor, aligned
from snref.scheduler.liveness import last_uses
from snref.scheduler.options import Algorithms
from snref.timing.costs import Costs


def choose_algorithms(
    plan: Plan, capacity: int, costs: Costs, allowed: Algorithms
) -> Plan:
    """Give every convolution the fastest algorithms that fit the bytes left at it.

    capacity  bytes for tensors and workspaces. The plan is not allocated yet: which
              tensors are in use at a step follows from liveness
    allowed   which algorithms may be chosen
    """
    steps: list[Step] = []
    allocated: set[Tensor] = set()
    in_use = 0
    for step, dying in zip(plan.steps, last_uses(plan), strict=True):
        touched = step.working_set if isinstance(step, Run) else (step.tensor,)
        for tensor in touched:
            if tensor not in allocated:
                allocated.add(tensor)
                in_use += tensor.aligned_bytes
        if isinstance(step, Run):
            step = choose(step, capacity - in_use, costs, allowed)
        steps.append(step)
        allocated.difference_update(dying)
        in_use -= sum(tensor.aligned_bytes for tensor in dying)
    return Plan(tuple(steps))


def choose(run: Run, left: int, costs: Costs | None, allowed: Algorithms) -> Run:
    """Give a run the fastest algorithms whose workspace fits the bytes left.

    The parts of a run are computed one after the other, so they share one workspace.
    Without costs the run stays as it is.
    """
    if costs is None or allowed == "none":
        return run

    def best(choice: Choice) -> Algorithm:
        first = choice.algorithms[0]
        return min(
            (
                algorithm
                for algorithm in choice.algorithms
                if aligned(algorithm.workspace) <= left
                and (allowed == "fastest" or algorithm.order == first.order)
            ),
            key=lambda a: (
                costs.algorithm(run.layer, choice.part, a.name),
                a.workspace,
            ),
            default=first,
        )

    chosen = {choice: best(choice) for choice in run.choices}
    if all(choice.chosen is algorithm for choice, algorithm in chosen.items()):
        return run
    nbytes = max(algorithm.workspace for algorithm in chosen.values())
    scratch = Tensor(f"{run.layer}.workspace", (-(-nbytes // 4),), "workspace")
    return replace(
        run,
        work=tuple(
            replace(
                piece,
                chosen=chosen[piece],
                workspace=scratch if chosen[piece].workspace else None,
            )
            if isinstance(piece, Choice)
            else piece
            for piece in run.work
        ),
    )
