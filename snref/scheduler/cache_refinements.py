"""What the preset "cache" does beyond the paper's Algorithm 2 (``lru_cache.py``).

together          All missing tensors of a run get their holes together, the largest
                  first. If nothing else can leave and no hole is large enough, the
                  run's own tensors are evicted, the smallest first, and fetched again
                  to other addresses. So a plan exists in every slab that holds the
                  largest working set.
short-lived high  Tensors that live shortly get the highest addresses, all others the
                  lowest, which leaves fewer holes between those that stay.
put back          If the holes found do not touch a victim's bytes, it stays.
levels            The slab is used only up to one of 64 sizes. Of these the one with
                  the highest peak is taken, so that a smaller slab never gives a
                  higher peak. Without this it can: more memory can fragment worse.
useless re-runs   A re-run whose outputs are evicted unread, and were on the host
                  before, is removed and the plan played again. ``verify`` refuses
                  such a plan. Only nets with shared forks have them.

What they earn, on AlexNet (batch 200), VGG-16, ResNet-50, Inception-v4, DenseNet-121
(32) and U-Net (1), with cost-aware recomputation and six slabs a net, from the largest
working set to the peak. First row: in how many of the six the paper's cache has no
plan. The others: by how many percent more bytes are copied without the refinement. The
levels cost some: there it is with them.

    no plan               0   3   1   1   1   1
    short-lived high     -2  21   5   1   8  10
    put back              4   0   0   0   1   5
    levels               -4  -3   1   1   1   2
"""

from snref.plans import (
    ALIGNMENT,
    Alloc,
    Free,
    Offload,
    OutOfMemory,
    Plan,
    Prefetch,
    Run,
    Tensor,
    aligned,
    lower_bound,
    memory,
)
from snref.scheduler.liveness import free_dead
from snref.scheduler.lru_cache import (
    ChooseAlgorithms,
    TensorCache,
    Victim,
    least_recently_used,
)
from snref.scheduler.slab import Fit

LEVELS = 64  # sizes of slab that are tried between the largest working set and the peak


def refined_cache(
    plan: Plan,
    slab: int,
    victim: Victim = least_recently_used,
    choose: ChooseAlgorithms | None = None,
) -> Plan:
    """Return the plan with the transfers of a cache in this slab, allocated and placed.

    The arguments are those of ``tensor_cache``. A plan exists for every slab that
    holds the largest working set, and a smaller slab never gives a higher peak.

    Raises OutOfMemory if the largest working set does not fit.
    """
    bound = lower_bound(plan)
    if slab < bound:
        run = max(
            plan.runs(), key=lambda run: sum(t.aligned_bytes for t in run.working_set)
        )
        raise OutOfMemory(f"{run.layer} {run.phase}", bound, slab, bound)
    peak = max(memory(free_dead(plan), workspace=True))
    step = max(ALIGNMENT, aligned((peak - bound) // LEVELS))
    level = bound + max(0, min(slab, peak) - bound) // step * step
    best, highest = None, -1
    while level >= bound and level > highest:
        made = _without_useless_reruns(plan, level, victim, choose)
        if max(memory(made)) > highest:
            best, highest = made, max(memory(made))
        level -= step
    assert best is not None
    return best


def _without_useless_reruns(
    plan: Plan, slab: int, victim: Victim, choose: ChooseAlgorithms | None
) -> Plan:
    """Play the plan until no re-run is useless, each time without those that were."""
    made = _RefinedCache(plan, slab, victim, choose).play()
    while useless := _useless_reruns(made):
        needed = (run for i, run in enumerate(plan.steps) if i not in useless)
        plan = Plan(tuple(needed))
        made = _RefinedCache(plan, slab, victim, choose).play()
    return made


def _useless_reruns(plan: Plan) -> set[int]:
    """Return the useless re-runs of a plan, each by its number among the plan's runs.

    A re-run is useless if all its outputs were evicted before a run read them, and the
    host had them already.
    """
    useless: set[int] = set()
    unread: dict[Tensor, int] = {}  # output of a re-run -> the number of that re-run
    seen: set[str] = set()
    number = 0
    for step in plan.steps:
        match step:
            case Run():
                useless.difference_update([unread.pop(t, -1) for t in step.reads])
                if step.phase == "forward" and step.layer in seen:
                    useless.add(number)
                    unread |= {t: number for t in step.writes if t.scheduled}
                seen.add(step.layer)
                number += 1
            case Offload(tensor):
                useless.discard(unread.pop(tensor, -1))
            case Free(tensor):
                unread.pop(tensor, None)
            case Alloc() | Prefetch():
                pass
    return useless


class _RefinedCache(TensorCache):
    """A cache that allocates all missing tensors of a run together."""

    def __init__(
        self, plan: Plan, slab: int, victim: Victim, choose: ChooseAlgorithms | None
    ) -> None:
        super().__init__(plan, slab, victim, choose)
        self.short_lived = _short_lived(plan)

    def allocate(self, missing: list[Tensor], run: Run) -> None:
        """Free victims until all missing tensors have a hole, then allocate them.

        If the holes found do not touch a victim's bytes, it stays. ``missing`` grows
        by those of the run's own tensors that are evicted and fetched again.
        """
        stay = set(run.working_set)
        victims: list[Tensor] = []
        while (offsets := self.find_holes(missing)) is None:
            victim = self.choose_victim(stay)
            if victim is None:
                own = (tensor for tensor in self.used if tensor not in victims)
                victim = min(own, key=lambda tensor: tensor.aligned_bytes)
                missing.append(victim)
            stay.add(victim)
            victims.append(victim)
            self.pool.free(self.offsets[victim])
        for victim in reversed(victims):
            if victim in missing or not self.put_back(victim):
                self.evict(victim)
        for tensor, offset in offsets.items():
            self.insert(tensor, offset)

    def find_holes(self, tensors: list[Tensor]) -> dict[Tensor, int] | None:
        """Allocate these in the pool, the largest first; None if one has no hole.

        Short-lived tensors get the highest addresses that fit, all others the lowest.
        """
        offsets: dict[Tensor, int] = {}
        for tensor in sorted(tensors, key=lambda tensor: -tensor.aligned_bytes):
            fit: Fit = "last" if tensor in self.short_lived else "first"
            offset = self.pool.allocate(tensor.aligned_bytes, fit)
            if offset is None:
                for taken in offsets.values():
                    self.pool.free(taken)
                return None
            offsets[tensor] = offset
        return offsets

    def put_back(self, victim: Tensor) -> bool:
        """Keep a victim after all, if nothing was allocated in its bytes."""
        return self.pool.take(self.offsets[victim], victim.aligned_bytes)


def _short_lived(plan: Plan) -> set[Tensor]:
    """Return the half of the tensors whose first and last uses are closest."""
    first: dict[Tensor, int] = {}
    last: dict[Tensor, int] = {}
    for number, run in enumerate(plan.runs()):
        for tensor in run.working_set:
            first.setdefault(tensor, number)
            last[tensor] = number
    spans = {tensor: last[tensor] - begin for tensor, begin in first.items()}
    median = sorted(spans.values())[len(spans) // 2]
    return {tensor for tensor, span in spans.items() if span <= median}
