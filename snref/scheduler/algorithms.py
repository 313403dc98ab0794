"""Dynamic convolution workspaces (SuperNeurons, section 3.5): speed from what is left.

A convolution can be computed in several ways; the faster ones want scratch memory.
Tensors come first. At each forward, data-gradient and filter-gradient step the bytes
still free decide: discard the algorithms whose workspace does not fit, run the fastest
of the rest, release the workspace after the step. The same layer may so get different
algorithms in different steps.

"exact"    only algorithms that sum in the order of the layer's first one: the same
           bits whatever is free
"fastest"  any algorithm, as in the paper

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
from typing import Literal, TypeAlias

from snref.plans import Algorithm, Choice, Plan, Run, Step, Tensor, aligned
from snref.scheduler.liveness import last_uses
from snref.timing.costs import Costs

Freedom: TypeAlias = Literal["exact", "fastest"]


def choose_algorithms(
    plan: Plan, capacity: int | None, costs: Costs, freedom: Freedom
) -> Plan:
    """The plan with an algorithm for every convolution, under the bytes left at it.

    capacity is in bytes, None for as many as wanted. Nothing is allocated yet: what
    is in use at a step follows from liveness.
    """
    steps: list[Step] = []
    there: set[Tensor] = set()
    in_use = 0
    for step, dying in zip(plan.steps, last_uses(plan), strict=True):
        touched = step.working_set if isinstance(step, Run) else (step.tensor,)
        for tensor in touched:
            if tensor not in there:
                there.add(tensor)
                in_use += tensor.aligned_bytes
        if isinstance(step, Run) and step.choices:
            left = None if capacity is None else capacity - in_use
            step = choose(step, left, costs, freedom)
        steps.append(step)
        there.difference_update(dying)
        in_use -= sum(tensor.aligned_bytes for tensor in dying)
    return Plan(tuple(steps), (*plan.history, f"algorithms {freedom}"))


def choose(run: Run, left: int | None, costs: Costs, freedom: Freedom) -> Run:
    """The run with the fastest algorithms whose workspace fits the bytes left.

    The parts of a run are computed one after the other, so they share one workspace.
    """

    def best(choice: Choice) -> Algorithm:
        first = choice.algorithms[0]
        return min(
            (
                algorithm
                for algorithm in choice.algorithms
                if (left is None or aligned(algorithm.workspace) <= left)
                and (freedom == "fastest" or algorithm.order == first.order)
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
