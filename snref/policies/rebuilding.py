"""What several policies do: compute dropped tensors again, and fit the addresses."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, TypeAlias

from snref.plans import ALIGNMENT, OutOfMemory, Plan, Run, Tensor, extent, only_runs
from snref.scheduler import complete
from snref.scheduler.liveness import free_dead
from snref.scheduler.options import Options
from snref.scheduler.placement import place
from snref.scheduler.slab import ENDLESS
from snref.timing.costs import Costs

Stay: TypeAlias = Literal["to the last use", "for one run"]
ATTEMPTS = 12  # to find addresses


class NotApplicable(ValueError):
    """A policy does not plan this net, or lacks what it needs to be installed."""


def first_backward(runs: Collection[Run]) -> int:
    """Return the place of the first run of the backward pass."""
    return next(i for i, run in enumerate(runs) if run.phase == "backward")


def kept_for_backward(plan: Plan) -> dict[Tensor, Run]:
    """Return the forward outputs that wait for a backward run, and who computes them.

    An output whose first use in the backward pass comes right after its last one in
    the forward pass does not wait.
    """
    runs = only_runs(plan, "a policy")
    start = first_backward(runs)
    last = {t: i for i, run in enumerate(runs[:start]) for t in run.working_set}
    first: dict[Tensor, int] = {}
    for i, run in enumerate(runs[start:], start):
        for tensor in run.reads:
            first.setdefault(tensor, i)
    return {
        tensor: run
        for run in runs[:start]
        for tensor in run.writes
        if tensor.scheduled and first.get(tensor, 0) > last[tensor] + 1
    }


def forward_cuts(forward: Collection[Run]) -> set[Run]:
    """Return the runs behind which one tensor alone is read by later forward runs."""
    last = {t: i for i, run in enumerate(forward) for t in run.reads if t.scheduled}
    live: set[Tensor] = set()
    cuts: set[Run] = set()
    for i, run in enumerate(forward):
        live.update(t for t in run.writes if last.get(t, i) > i)
        live.difference_update([t for t in run.reads if last.get(t) == i])
        if len(live) == 1 and live <= {*run.writes}:
            cuts.add(run)
    return cuts


def rebuild(
    plan: Plan,
    dropped: Collection[Tensor],
    stay: Stay = "to the last use",
    kept: Collection[Tensor] = (),
) -> Plan:
    """Insert the forward runs that compute dropped tensors again.

    dropped  tensors that do not stay for the backward pass
    stay     how long a tensor stays that is computed again: to its last use; or for one
             run, and for the next backward run if that reads it, too
    kept     tensors that stay though no backward run reads them, so that others can be
             computed from them

    The runs come right before the backward run that reads the tensor. They begin at
    what is on the device; what they read and is not there is computed again, too.

    A convolution whose output is kept, a ReLU whose output is dropped, and its reader:

    >>> from snref.plans import Launch
    >>> x, y, z, dz, dy = (Tensor(name, (64,)) for name in ("x", "y", "z", "dz", "dy"))
    >>> plan = Plan((
    ...     Run("conv1", "forward", (Launch("", (x,)),)),
    ...     Run("relu1", "forward", (Launch("", (y,), (x,)),)),
    ...     Run("conv2", "forward", (Launch("", (z,), (y,)),)),
    ...     Run("conv2", "backward", (Launch("", (dy,), (y, dz)),)),
    ... ))
    >>> print(rebuild(plan, [y], kept=[x]))
    forward   conv1  -> x
    forward   relu1  x -> y
    forward   conv2  y -> z
    recompute relu1  x -> y
    backward  conv2  y dz -> dy
    """
    runs = only_runs(plan, "a policy")
    start = first_backward(runs)
    maker = {t: i for i, run in enumerate(runs[:start]) for t in run.writes}
    needed = {tensor for run in runs[start:] for tensor in run.reads}
    gone = {t for t in maker if t.scheduled and t not in needed and t not in kept}
    missing = gone | {*dropped}
    short = set(missing if stay == "for one run" else gone)
    steps = list(runs[:start])
    for run, following in pairwise((*runs[start:], runs[-1])):
        places: set[int] = set()
        todo = [tensor for tensor in run.reads if tensor in missing]
        while todo:
            place = maker[todo.pop()]
            if place not in places:
                places.add(place)
                todo += [tensor for tensor in runs[place].reads if tensor in missing]
        rebuilt = [runs[place] for place in sorted(places)]
        made = {tensor for source in rebuilt for tensor in source.writes}
        missing -= made
        steps += [*rebuilt, run]
        missing |= (made & short).difference(following.reads)
    return Plan(tuple(steps))


def without_useless(
    runs: Sequence[Run], after: Collection[Tensor] = ()
) -> tuple[Run, ...]:
    """Leave out recomputations whose outputs no run reads, nor anyone after the runs.

    Every run counts as one if the tensors that are needed after the runs are given.
    """
    first: set[int] = set()
    seen: set[Run] = set()
    for i, run in enumerate(runs):
        if run not in seen:
            first.add(i)
            seen.add(run)
    live = set(after)
    kept: list[Run] = []
    for i in reversed(range(len(runs))):
        run = runs[i]
        if (i in first and not after) or not live.isdisjoint(run.writes):
            kept.append(run)
            live.difference_update(run.writes)
            live.update(t for t in run.reads if t.scheduled)
    return tuple(reversed(kept))


def fitting(
    make: Callable[[int], Plan], least: int, options: Options, costs: Costs
) -> Plan:
    """Return the complete plan of a planner that counts bytes, not addresses.

    make   returns the plan, without addresses, for so many bytes of device memory, or
           raises OutOfMemory
    least  bytes below which it has none

    Holes between addresses cost bytes. So the planner gets fewer bytes until the
    addresses fit, too. Raises OutOfMemory with the fewest bytes that are found to do.
    """
    if options.limit is None:
        return complete(make(ENDLESS), options, costs)
    limit = options.limit

    def attempt(nbytes: int) -> Plan:
        within = replace(options, capacity=nbytes, slab=nbytes)
        return _attempt(make, least, nbytes, within, costs)

    try:
        return attempt(limit)
    except OutOfMemory as error:
        if error.step == "the host":
            raise
        failed = error
    # Find out how many bytes would do: the least that there can be, or else halve the
    # range between what is too little and what the planner needs at most.
    low, high = max(limit, least), extent(place(free_dead(make(ENDLESS))))
    middle = low
    while high - low > max(ALIGNMENT, low // 50):
        try:
            attempt(middle)
        except OutOfMemory:
            low = max(low, middle)
        else:
            high = middle
        middle = (low + high) // 2
    raise OutOfMemory(failed.step, high, limit, high)


def _attempt(
    make: Callable[[int], Plan], least: int, limit: int, options: Options, costs: Costs
) -> Plan:
    left = max(limit, least)
    for _ in range(ATTEMPTS):
        try:
            return complete(make(left), options, costs)
        except OutOfMemory as error:
            if error.step == "the host" or left == least:
                raise
            left = max(least, left - max(error.least - limit, left // 64))
    return complete(make(least), options, costs)
