"""In place by renaming: an output that may overwrite an input becomes that input.

After the renaming there is one tensor less, and no other pass needs to know of it.

never          every output has its own memory
gradients      what the paper's code does: ACT and LRN write dx over dy, SOFTMAX its dx
               over y, JOIN dx_1 over dy, FORK the sum over dy_1. The 2189.437 MiB of
               AlexNet's baseline hold with it; with "never" they are 3056.362.
activations    what forward left is overwritten, too (Shirahata et al. 2016). A
               convolution computes dw first, then dx over x. A join adds y over x_1.
               If nothing is computed again, a ReLU writes y over x, too.

A layer declares which output of a launch may overwrite which input of it
(``Launch.may_overwrite``). Between launches no declaration is needed: what an earlier
launch of the run read, and nobody reads any more, may be overwritten by a later one.

A convolution's and a ReLU's backward, before and after:

>>> from snref.plans import Launch
>>> x, dx = Tensor("x", (64,)), Tensor("dx", (64,), "gradient")
>>> w, dw = Tensor("w", (9,), "parameter"), Tensor("dw", (9,), "parameter_gradient")
>>> y, z, dy, dz = (Tensor(name, (64,)) for name in ("y", "z", "dy", "dz"))
>>> relu = Launch("", (dy,), (y, dz), may_overwrite=((dy, dz, "gradients"),))
>>> plan = Plan((
...     Run("conv1", "forward", (Launch("", (y,), (x,)),)),
...     Run("relu1", "backward", (relu,)),
...     Run("conv1", "backward", (
...         Launch("", (dw,), (x, dy)), Launch("", (dx,), (w, dy)),
...     )),
... ))
>>> print(overwrite(plan, "gradients"))
forward   conv1  x -> y
backward  relu1  y dz -> dz
backward  conv1  x dz -> dx
>>> print(overwrite(plan, "activations"))
forward   conv1  x -> y
backward  relu1  y dz -> dz
backward  conv1  x dz -> x
"""

from collections.abc import Iterator

from snref.plans import Launch, Plan, Run, Tensor, only_runs
from snref.scheduler.options import Overwrite


def overwrite(plan: Plan, setting: Overwrite, static: bool = False) -> Plan:
    """Rename every output that may overwrite an input under this setting to the input.

    An input is overwritten only if no later run reads its value, also none that
    recomputation may put into the plan later.

    static  nothing will be computed again: so not only joins write over an input in
            forward, but every layer that may and is its only reader
    """
    if setting == "never":
        return plan
    runs = only_runs(plan, "in place")
    names: dict[Tensor, Tensor] = {}  # a renamed tensor -> what it is now
    last_reader = _last_readers(runs)
    only_reader = _only_readers(runs, static) if setting == "activations" else {}
    steps: list[Run] = []
    for run in runs:
        taken: set[Tensor] = set()
        free = only_reader if run.phase == "forward" else last_reader
        for output, target in _pairs(run, setting):
            if free.get(target) is run and output not in names and target not in taken:
                names[output] = names.get(target, target)
                taken.add(target)
        steps.append(_renamed(run, names))
    return Plan(tuple(steps))


def _pairs(run: Run, setting: Overwrite) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the outputs of a run, each with an input that it may overwrite."""
    declared = [p for p in run.work if isinstance(p, Launch) and p.may_overwrite]
    if not declared and setting != "activations":
        return
    last = {tensor: i for i, piece in enumerate(run.work) for tensor in piece.reads}
    written: set[Tensor] = set()
    for place, piece in enumerate(run.work):
        if isinstance(piece, Launch):
            for output, target, needed in piece.may_overwrite:
                allowed = needed == setting or setting == "activations"
                if allowed and last.get(target, place + 1) <= place:
                    yield output, target
        if setting == "activations" and run.phase == "backward":
            free = [t for t in last if t.is_data and last[t] < place]
            for output in piece.outputs:
                for target in free if output not in written else ():
                    same = (output.shape, output.dtype) == (target.shape, target.dtype)
                    if output.is_data and same and target not in run.writes:
                        yield output, target
        written.update(piece.outputs)


def _last_readers(runs: tuple[Run, ...]) -> dict[Tensor, Run]:
    """Return the last run that reads each activation or gradient.

    A forward run may be computed again until the backward of its layer, so that is
    when it counts as reading; or until the end if it has none, as a copy of a part of
    the batch has not.
    """
    backward = {run.layer: i for i, run in enumerate(runs) if run.phase == "backward"}
    last: dict[Tensor, int] = {}
    for i, run in enumerate(runs):
        place = i
        if run.phase == "forward":
            place = backward.get(run.layer, len(runs) - 1)
        for tensor in run.reads:
            if tensor.is_data:
                last[tensor] = max(place, last.get(tensor, 0))
    return {tensor: runs[place] for tensor, place in last.items()}


def _only_readers(runs: tuple[Run, ...], static: bool) -> dict[Tensor, Run]:
    """Return what only one run reads, a forward run that is never computed again.

    static  as for ``overwrite``; otherwise only joins are never computed again
    """
    readers: dict[Tensor, list[Run]] = {}
    for run in runs:
        for tensor in run.reads:
            if tensor.is_data:
                readers.setdefault(tensor, []).append(run)
    return {
        tensor: found[0]
        for tensor, found in readers.items()
        if len(found) == 1
        and found[0].phase == "forward"
        and (static or found[0].checkpoint)
    }


def _renamed(run: Run, names: dict[Tensor, Tensor]) -> Run:
    """Rename the tensors of a run. If none has a new name, it is the same run."""
    if names.keys().isdisjoint(run.reads) and names.keys().isdisjoint(run.writes):
        return run
    return run.with_work(tuple([piece.renamed(names) for piece in run.work]))
