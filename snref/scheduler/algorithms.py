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

>>> from snref.plans import Algorithm, Choice
>>> from snref.scheduler.liveness import free_dead
>>> x, w, y = Tensor("x", (64,)), Tensor("w", (9,), "parameter"), Tensor("y", (64,))
>>> slow = Algorithm("tiled", "taps", 0, 9, 9, lambda y, x, w, scratch: ())
>>> fast = Algorithm("im2col", "taps", 900, 9, 9, lambda y, x, w, scratch: ())
>>> run = Run("conv1", "forward", (Choice("forward", y, (x, w), (slow, fast), slow),))
>>> seconds = {
...     ("conv1", "forward", "tiled"): 2.0, ("conv1", "forward", "im2col"): 1.0,
... }
>>> costs = Costs("by hand", {}, seconds, to_host=1e9, to_device=1e9)
>>> for left in 1024, 512:
...     allocated = free_dead(Plan((run,)))
...     print(choose_algorithms(allocated, 512 + left, costs, "exact"))
alloc     x  256
alloc     y  256
alloc     conv1.workspace  900
forward   conv1  x -> y  [forward=im2col]
free      x
free      y
free      conv1.workspace
alloc     x  256
alloc     y  256
forward   conv1  x -> y
free      x
free      y
"""

from snref.plans import (
    Algorithm,
    Alloc,
    Choice,
    Free,
    Plan,
    Run,
    Step,
    Tensor,
    Work,
    aligned,
)
from snref.scheduler.options import Algorithms
from snref.timing.costs import Costs


def choose_algorithms(
    plan: Plan, capacity: int, costs: Costs, allowed: Algorithms
) -> Plan:
    """Give every convolution the fastest algorithms that fit the bytes left at it.

    Return the plan with workspaces, each of them allocated for its run only.

    plan      allocated; workspaces that it has already are replaced
    capacity  bytes for tensors and workspaces
    allowed   which algorithms may be chosen
    """
    steps: list[Step] = []
    in_use = 0
    unneeded: tuple[Tensor, ...] = ()  # workspaces of the run before
    for step in plan.steps:
        if not isinstance(step, Run) and step.tensor.kind == "workspace":
            continue
        if isinstance(step, Free):
            in_use -= step.tensor.aligned_bytes
        else:
            steps += map(Free, unneeded)
            unneeded = ()
        if isinstance(step, Alloc):
            in_use += step.tensor.aligned_bytes
        elif isinstance(step, Run) and step.choices:
            step = choose(step, capacity - in_use, costs, allowed)
            unneeded = step.workspaces
            steps += map(Alloc, unneeded)
        steps.append(step)
    return Plan((*steps, *map(Free, unneeded)))


def choose(run: Run, left: int, costs: Costs | None, allowed: Algorithms) -> Run:
    """Give a run the fastest algorithms whose workspace fits the bytes left.

    The parts of a run are computed one after the other, so they share one workspace.
    Without costs the run stays as it is.
    """
    if costs is None or allowed == "none" or not run.choices:
        return run

    chosen = {c: _fastest(run.layer, c, left, costs, allowed) for c in run.choices}
    if all(choice.chosen is algorithm for choice, algorithm in chosen.items()):
        return run
    nbytes = max(algorithm.workspace for algorithm in chosen.values())
    scratch = Tensor(f"{run.layer}.workspace", (-(-nbytes // 4),), "workspace")
    work: list[Work] = []
    for piece in run.work:
        if isinstance(piece, Choice):
            algorithm = chosen[piece]
            piece = Choice(
                piece.part,
                piece.output,
                piece.inputs,
                piece.algorithms,
                algorithm,
                scratch if algorithm.workspace else None,
                piece.updates,
            )
        work.append(piece)
    return run.with_work(tuple(work))


def _fastest(
    layer: str, choice: Choice, left: int, costs: Costs, allowed: Algorithms
) -> Algorithm:
    """Return the fastest algorithm that is allowed and fits; the first needs nothing.

    Of two that are equally fast, the one with the smaller workspace.
    """
    first = best = choice.algorithms[0]
    least = costs.algorithm(layer, choice.part, first.name)
    for algorithm in choice.algorithms[1:]:
        if aligned(algorithm.workspace) <= left and (
            allowed == "fastest" or algorithm.order == first.order
        ):
            seconds = costs.algorithm(layer, choice.part, algorithm.name)
            if (seconds, algorithm.workspace) < (least, best.workspace):
                best, least = algorithm, seconds
    return best
