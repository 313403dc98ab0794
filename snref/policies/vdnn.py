"""vDNN: the input of each layer leaves in the forward pass, and comes back in time.

Rhu et al., vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural
Network Design, MICRO 2016, section 3.

conv  the inputs of convolutions are copied to the host (3.1)
all   the inputs of all layers before the first fully connected one are
dyn   the first of these that fits (3.3; read in a re-implementation, vDNN++):
      none, conv, all, each with the fastest algorithms; conv, all, with the fastest
      algorithm that fits at each convolution; conv, all, without workspaces

An input is copied while its last forward reader runs, and freed then. Before a layer's
backward begins, the layers before it are searched for one whose input is away, back to
the nearest convolution (figure 10); that input is copied back beside the layer's
backward. What is still away when a backward needs it is copied then.

Our reading: *conv* and *all* have the fastest algorithms that fit, not one setting for
all convolutions (m or p). The runtime waits at the end of each layer for its copy; here
only what takes the memory of the copied tensor waits.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from snref.plans import Offload, OutOfMemory, Plan, Prefetch, Run, Step, Tensor
from snref.policies.rebuilding import first_backward, kept_for_backward
from snref.scheduler import complete
from snref.scheduler.algorithms import choose
from snref.scheduler.in_place import overwrite
from snref.scheduler.options import Options
from snref.scheduler.slab import ENDLESS
from snref.timing.costs import Costs


def vdnn_conv(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan that copies the inputs of convolutions."""
    plan = overwrite(route, options.overwrite)
    return complete(_copied(plan, _is_convolution), options, costs)


def vdnn_all(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan that copies the inputs of all layers for feature extraction."""
    plan = overwrite(route, options.overwrite)
    return complete(_copied(plan, lambda run: True), options, costs)


def vdnn_dyn(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the first plan that fits, from the quickest to the smallest.

    Raises OutOfMemory as *all* without workspaces does, which is tried first.
    """
    plan = overwrite(route, options.overwrite)
    conv = _copied(plan, _is_convolution)
    every = _copied(plan, lambda run: True)
    smallest = complete(every, replace(options, algorithms="none"), costs)
    if options.limit is None:
        return complete(_fastest(plan, options, costs), options, costs)
    fixed = replace(options, algorithms="none")  # the algorithms are chosen already
    for candidate in plan, conv, every:
        try:
            return complete(_fastest(candidate, options, costs), fixed, costs)
        except OutOfMemory:
            continue
    for candidate in conv, every:
        try:
            return complete(candidate, options, costs)
        except OutOfMemory:
            continue
    return smallest


def _is_convolution(run: Run) -> bool:
    return bool(run.choices)


def _is_fully_connected(run: Run) -> bool:
    names = (launch.kernel_name for launch in run.launches)
    return any(name.startswith("linear.") for name in names)


def _fastest(plan: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan with the fastest algorithms, whatever workspace they need."""

    def fastest(step: Step) -> Step:
        if not isinstance(step, Run):
            return step
        return choose(step, ENDLESS, costs, options.algorithms)

    return Plan(tuple(map(fastest, plan.steps)))


def _copied(plan: Plan, is_chosen: Callable[[Run], bool]) -> Plan:
    """Return the plan with the copies of the inputs of the chosen layers."""
    runs = tuple(plan.runs())
    start = first_backward(runs)
    features = next(
        (i for i, run in enumerate(runs[:start]) if _is_fully_connected(run)), start
    )
    waiting = kept_for_backward(plan)
    last_reader = {t: i for i, run in enumerate(runs[:start]) for t in run.reads}
    inputs: list[list[Tensor]] = [
        [t for t in run.reads if t in waiting and last_reader[t] == i]
        if i < features and is_chosen(run)
        else []
        for i, run in enumerate(runs[:start])
    ]
    place = {run.layer: i for i, run in enumerate(runs[:start])}
    steps: list[Step] = []
    away: set[Tensor] = set()
    for i, run in enumerate(runs):
        if i < start:  # the copy begins when the run does
            steps += map(Offload, inputs[i])
            away.update(inputs[i])
        elif run.phase == "backward":
            needed = [tensor for tensor in run.reads if tensor in away]
            ahead = _to_prefetch(runs, place[run.layer], inputs, away - {*needed})
            steps += map(Prefetch, (*needed, *ahead))
            away.difference_update(needed, ahead)
        steps.append(run)
    return Plan(tuple(steps))


def _to_prefetch(
    runs: Sequence[Run], layer: int, inputs: Sequence[list[Tensor]], away: set[Tensor]
) -> list[Tensor]:
    """Return the inputs of the nearest layer before this one that are away."""
    for before in range(layer - 1, -1, -1):
        if found := [tensor for tensor in inputs[before] if tensor in away]:
            return found
        if _is_convolution(runs[before]):
            break
    return []
