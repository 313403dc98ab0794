"""In place by renaming: an output that may overwrite an input becomes that input.

A layer declares which output may overwrite which input (``Launch.may_overwrite``).
After the renaming there is one tensor less, and no other pass needs to know of it.

never          every output has its own memory
gradients      what the paper's code does: ACT and LRN write dx over dy, SOFTMAX its dx
               over y, JOIN dx_1 over dy, FORK the sum over dy_1. The 2189.437 MiB of
               AlexNet's baseline hold with it; with "never" they are 3056.362.

A ReLU's backward, before and after:

>>> from snref.plans import Launch
>>> y, dy, dx, dw = (Tensor(name, (64,)) for name in ("y", "dy", "dx", "dw"))
>>> relu = Launch("", (dx,), (y, dy), may_overwrite=((dx, dy, "gradients"),))
>>> plan = Plan((
...     Run("relu1", "backward", (relu,)),
...     Run("conv1", "backward", (Launch("", (dw,), (dx,)),)),
... ))
>>> print(overwrite(plan, "gradients"))
backward  relu1  y dy -> dy
backward  conv1  dy -> dw
"""

from snref.plans import Launch, Plan, Run, Tensor, only_runs
from snref.scheduler.options import Overwrite


def overwrite(plan: Plan, setting: Overwrite) -> Plan:
    """Rename every output that may overwrite an input under this setting to the input.

    An input is overwritten only if no later run reads its value.
    """
    if setting == "never":
        return plan
    runs = only_runs(plan, "in place")
    names: dict[Tensor, Tensor] = {}  # a renamed tensor -> what it is now
    last_reader: dict[Tensor, Run] = {}
    for run in runs:
        for tensor in run.reads:
            last_reader[tensor] = run
    steps: list[Run] = []
    for run in runs:
        for piece in run.work:
            if isinstance(piece, Launch):
                for output, target, needed in piece.may_overwrite:
                    if needed == setting and last_reader.get(target) is run:
                        names[output] = names.get(target, target)
        steps.append(_renamed(run, names))
    return Plan(tuple(steps))


def _renamed(run: Run, names: dict[Tensor, Tensor]) -> Run:
    """Rename the tensors of a run. If none has a new name, it is the same run."""
    if names.keys().isdisjoint(run.reads) and names.keys().isdisjoint(run.writes):
        return run
    work = tuple([piece.renamed(names) for piece in run.work])
    return Run(run.layer, run.phase, work, run.checkpoint, run.offload)
