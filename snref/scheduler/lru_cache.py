"""The unified tensor pool, lazy: an LRU tensor cache (SuperNeurons, section 3.3.2).

The device's slab is a cache of the host. A tensor stays on the device until the room is
needed; then the one used longest ago leaves. Backward uses the latest forward tensors
first, which is why least-recently-used is a good rule. With enough memory nothing
moves at all.

An iteration of a static net is known beforehand, so the cache is played once, here, and
what it did is written down: Alloc with an address, Offload, Free, Prefetch.

It is the paper's Algorithm 2, played against addresses: allocate; while that fails,
evict. Before a layer runs its tensors are locked; whatever is not locked may leave,
gradients too. What was to leave but does not border the hole that was made stays. If
everything unlocked has left and the holes are still too small, the layer's own tensors
leave and come back side by side: so a plan exists for every slab that holds the largest
working set.

Three tensors of 256 bytes in a slab of 512:

>>> from snref.plans import Launch
>>> x, y, dy, dx = (Tensor(name, (64,)) for name in ("x", "y", "dy", "dx"))
>>> plan = Plan((
...     Run("conv1", "forward", (Launch("", (x,)),)),
...     Run("relu1", "forward", (Launch("", (y,), (x,)),)),
...     Run("loss", "backward", (Launch("", (dy,), (y,)),)),
...     Run("relu1", "backward", (Launch("", (dy,), (x, dy)),)),
... ))
>>> print(tensor_cache(plan, 512))
alloc     x  256 at 0
forward   conv1  -> x
alloc     y  256 at 256
forward   relu1  x -> y
offload   x
free      x
alloc     dy  256 at 0
backward  loss  y -> dy
free      y
alloc     x  256 at 256
prefetch  x
backward  relu1  x dy -> dy
free      x
free      dy
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from snref.plans import (
    ALIGNMENT,
    Alloc,
    Free,
    Offload,
    OutOfMemory,
    Phase,
    Plan,
    Prefetch,
    Run,
    Step,
    Tensor,
    aligned,
    lower_bound,
    memory,
)
from snref.scheduler.liveness import free_dead, last_uses
from snref.scheduler.slab import Fit, Pool

LEVELS = 64  # how finely a budget between the bound and the peak is used

ChooseAlgorithms = Callable[[Run, int], Run]  # (run, bytes left) -> run


def tensor_cache(plan: Plan, slab: int, choose: ChooseAlgorithms | None = None) -> Plan:
    """The plan with the transfers of a cache in a slab of so many bytes, placed.

    Less memory never gives a higher peak. LRU alone does not promise that: a slightly
    larger slab can fragment worse. So the slab is used in levels, and of all levels
    up to it the one with the highest peak is taken. A level under that peak cannot
    exceed it and need not be played.

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
    best, highest = _play(plan, level, choose), 0
    highest = max(memory(best))
    while (level := level - step) > highest and level >= bound:
        other = _play(plan, level, choose)
        if max(memory(other)) > highest:
            best, highest = other, max(memory(other))
    return best


def _play(plan: Plan, slab: int, choose: ChooseAlgorithms | None) -> Plan:
    """Run the plan against a cache; write down what it does."""
    cache = _Cache(slab, _fleeting(plan))
    for run, dying in zip(plan.steps, last_uses(plan), strict=True):
        assert isinstance(run, Run), "the cache comes before all transfers"
        cache.lock(run)
        if choose is not None and run.choices:
            run = choose(run, cache.pool.largest_hole)
        scratch = run.workspaces
        cache.scratch(scratch)
        cache.steps.append(run)
        for tensor in (*scratch, *dying):
            cache.free(tensor)
        cache.values.update((t, (run.layer, run.phase)) for t in run.writes)
    played = Plan(tuple(cache.steps), (*plan.history, f"tensor_cache {slab}"))
    vain = _in_vain(played)
    if not vain:
        return played
    needed = (run for place, run in enumerate(plan.steps) if place not in vain)
    return _play(Plan(tuple(needed), plan.history), slab, choose)


def _in_vain(plan: Plan) -> set[int]:
    """Re-runs whose outputs all left unread, when the host had them; by place among
    the runs. The host's copy serves as well: they need not run again.
    """
    vain: set[int] = set()
    unread: dict[Tensor, int] = {}
    seen: set[str] = set()
    place = 0
    for step in plan.steps:
        match step:
            case Run():
                vain.difference_update([unread.pop(t, -1) for t in step.reads])
                if step.phase == "forward" and step.layer in seen:
                    vain.add(place)
                    unread |= {t: place for t in step.writes if t.scheduled}
                seen.add(step.layer)
                place += 1
            case Offload(tensor):
                vain.discard(unread.pop(tensor, -1))
            case Free(tensor):
                unread.pop(tensor, None)
            case Alloc() | Prefetch():
                pass
    return vain


class _Cache:
    """The tensors on the device, least recently used first, and where they lie."""

    def __init__(self, slab: int, fleeting: set[Tensor]) -> None:
        self.pool = Pool(slab, block=ALIGNMENT)
        self.fleeting = fleeting
        self.offsets: OrderedDict[Tensor, int] = OrderedDict()
        # A value is named for the run that computes it: a re-run computes it again.
        self.values: dict[Tensor, tuple[str, Phase]] = {}
        self.on_host: dict[Tensor, tuple[str, Phase]] = {}
        self.steps: list[Step] = []

    def lock(self, run: Run) -> None:
        """Bring in all a run touches; nothing else of it may leave meanwhile."""
        locked = run.working_set
        waiting = []
        for tensor in locked:
            if tensor in self.offsets:
                self.offsets.move_to_end(tensor)
            else:
                waiting.append(tensor)
        leaving: dict[Tensor, int] = {}
        while (offsets := self.find_room(waiting)) is None:
            victim = next((t for t in self.offsets if t not in locked), None)
            if victim is None:  # the last resort: the smallest of the run's own
                victim = min(self.offsets, key=lambda tensor: tensor.aligned_bytes)
                waiting.append(victim)
            leaving[victim] = self.offsets.pop(victim)
            self.pool.free(leaving[victim])
        for victim, offset in reversed(leaving.items()):
            if victim not in locked and self.pool.take(offset, victim.aligned_bytes):
                self.offsets[victim] = offset  # it was not in the way after all
                self.offsets.move_to_end(victim, last=False)
            else:
                self.copy_out(victim)
                self.steps.append(Free(victim))
        self.offsets |= offsets
        self.steps += (Alloc(tensor, offset) for tensor, offset in offsets.items())
        self.steps += (Prefetch(t) for t in waiting if t in run.reads)

    def find_room(self, tensors: Sequence[Tensor]) -> dict[Tensor, int] | None:
        """An offset for each of these, the largest first; None if one has no hole.

        Those that live long lie low and the fleeting ones high: fewer holes between.
        """
        offsets: dict[Tensor, int] = {}
        for tensor in sorted(tensors, key=lambda tensor: -tensor.aligned_bytes):
            fit: Fit = "last" if tensor in self.fleeting else "first"
            offset = self.pool.allocate(tensor.aligned_bytes, fit)
            if offset is None:
                for taken in offsets.values():
                    self.pool.free(taken)
                return None
            offsets[tensor] = offset
        return offsets

    def copy_out(self, tensor: Tensor) -> None:
        """See that the host has the value of a tensor that will be read again."""
        if self.on_host.get(tensor) != self.values[tensor]:
            self.on_host[tensor] = self.values[tensor]
            self.steps.append(Offload(tensor))

    def scratch(self, tensors: Sequence[Tensor]) -> None:
        """Give workspaces a hole; they were chosen to fit one."""
        for tensor in tensors:
            offset = self.pool.allocate(tensor.aligned_bytes)
            assert offset is not None
            self.offsets[tensor] = offset
            self.steps.append(Alloc(tensor, offset))

    def free(self, tensor: Tensor) -> None:
        self.pool.free(self.offsets.pop(tensor))
        self.steps.append(Free(tensor))


def _fleeting(plan: Plan) -> set[Tensor]:
    """The half of the tensors that are in use for the fewest steps."""
    first: dict[Tensor, int] = {}
    last: dict[Tensor, int] = {}
    for place, run in enumerate(plan.runs()):
        for tensor in run.working_set:
            first.setdefault(tensor, place)
            last[tensor] = place
    spans = {tensor: last[tensor] - begin for tensor, begin in first.items()}
    median = sorted(spans.values())[len(spans) // 2]
    return {tensor for tensor, span in spans.items() if span <= median}
