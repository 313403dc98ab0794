"""PyTorch's memory budget: a knapsack chooses which activations are worth their bytes.

``activation_memory_budget`` of PyTorch's compiler (``torch/_functorch/config.py``,
solver "dp"): of the activations that backward needs, the budget is the share of bytes
that may be kept, 1 for all and 0 for none. Which ones, a 0-1 knapsack says: the bytes
of an activation against the seconds that computing it again would take. What is not
kept is computed again in the backward pass, from what is kept.

Our reading: each activation costs the seconds of its own run, whatever else has to be
computed for it, and the seconds are those of ``--costs`` or of the machine. Given
``--memory``, the budget is the largest whose plan fits, of the multiples of 1/64: a
smaller budget may give a higher peak, because more is computed again at once. PyTorch's
partitioner (a minimum cut) narrows the choice before; that is left out.
"""

from collections.abc import Sequence

from snref.plans import OutOfMemory, Plan, Run, Tensor, memory
from snref.policies.rebuilding import kept_for_backward, rebuild
from snref.scheduler import complete
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.options import Options
from snref.scheduler.slab import ENDLESS
from snref.timing.costs import Costs

SLOTS = 1024  # of the knapsack
BUDGETS = 64


def memory_budget(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan that keeps most of the activations of all that fit."""
    plan = overwrite(route, options.overwrite)
    waiting: dict[Run, list[Tensor]] = {}
    for tensor, run in kept_for_backward(plan).items():
        waiting.setdefault(run, []).append(tensor)
    sizes = [sum(tensor.nbytes for tensor in kept) for kept in waiting.values()]
    seconds = [costs.seconds(run) for run in waiting]
    worth = _Knapsack(sizes, seconds)

    least = ENDLESS
    for budget in reversed(range(BUDGETS + 1)):
        kept = worth.best(budget * SLOTS // BUDGETS)
        groups = enumerate(waiting.values())
        dropped = [t for i, group in groups if i not in kept for t in group]
        made = rebuild(plan, dropped)
        peak = max(memory(free_dead(made), workspace=True))
        if options.limit is not None and peak > options.limit:
            least = min(least, peak)
            continue
        try:
            return complete(made, options, costs)
        except OutOfMemory as error:
            if error.step == "the host":
                raise
            least = min(least, error.least)
    limit = options.limit or 0
    raise OutOfMemory("the smallest plan", least, limit, least)


class _Knapsack:
    """The most valuable items for each number of slots.

    >>> worth = _Knapsack([512, 512, 1024], [1.0, 2.0, 2.5])
    >>> sorted(worth.best(SLOTS // 4)), sorted(worth.best(SLOTS // 2))
    ([1], [0, 1])
    """

    def __init__(self, sizes: Sequence[int], values: Sequence[float]) -> None:
        unit = max(1, sum(sizes)) / SLOTS
        self.slots = [round(size / unit) for size in sizes]
        best = [0.0] * (SLOTS + 1)
        self.taken: list[list[bool]] = []  # for each item, at each number of slots
        for slots, value in zip(self.slots, values, strict=True):
            with_it = [best[left] + value for left in range(SLOTS + 1 - slots)]
            taken = [False] * slots + [
                more > less for more, less in zip(with_it, best[slots:], strict=True)
            ]
            best[slots:] = map(max, with_it, best[slots:])
            self.taken.append(taken)

    def best(self, slots: int) -> set[int]:
        """Return which items are taken, by number."""
        chosen: set[int] = set()
        if slots == SLOTS:  # rounded sizes may add up to more
            return {*range(len(self.slots))}
        for i in reversed(range(len(self.slots))):
            if self.taken[i][slots]:
                chosen.add(i)
                slots -= self.slots[i]
        return chosen
