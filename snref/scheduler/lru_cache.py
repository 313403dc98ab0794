"""The unified tensor pool, lazy: an LRU tensor cache (SuperNeurons, section 3.3.2).

The device's slab is a cache of the host. A tensor stays on the device until the room is
needed; then the one used longest ago leaves. Backward uses the latest forward tensors
first, which is why least-recently-used is a good rule. With enough memory nothing
moves at all.

An iteration of a static net is known beforehand, so the cache is played once, here, and
what it did is written down: Alloc with an address, Offload, Free, Prefetch.

It is the paper's Algorithm 2, played against addresses: allocate; while that fails,
evict. Before a layer runs its tensors are locked; whatever is not locked may leave,
gradients too. If everything unlocked has left and the holes are still too small, the
layer's own tensors leave and come back side by side: so a plan exists for every slab
that holds the largest working set.

Three tensors of 256 bytes in a slab of 512:

>>> from snref.layer import Launch
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
    Alloc,
    Free,
    Offload,
    OutOfMemory,
    Phase,
    Plan,
    Prefetch,
    Run,
    Step,
    lower_bound,
    memory,
)
from snref.pool import Pool
from snref.scheduler.liveness import deaths, free_dead
from snref.tensor import ALIGNMENT, Tensor, aligned

LEVELS = 64  # how finely a budget between the bound and the peak is used

ChooseAlgorithms = Callable[[Run, int], Run]  # (run, bytes left) -> run


def tensor_cache(
    plan: Plan, slab: int, choose: ChooseAlgorithms | None = None
) -> Plan:
    """The plan with the transfers of a cache in a slab of so many bytes, placed.

    Less memory never gives a higher peak. LRU alone does not promise that: a slightly
    larger slab can fragment worse. So the slab is used in levels, and of all levels
    up to it the one with the highest peak is taken. A level under that peak cannot
    exceed it and need not be played.

    Raises OutOfMemory if the largest working set does not fit.
    """
    bound = lower_bound(plan)
    if slab < bound:
        run = max(plan.runs(), key=lambda run: sum(t.room for t in run.working_set))
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
    cache = _Cache(slab)
    for run, dying in zip(plan.steps, deaths(plan), strict=True):
        assert isinstance(run, Run), "the cache comes before all transfers"
        cache.lock(run)
        if choose is not None and run.choices:
            run = choose(run, cache.pool.largest_hole)
        scratch = run.workspaces
        cache.allocate(scratch)
        cache.steps.append(run)
        for tensor in (*scratch, *dying):
            cache.free(tensor)
        cache.values.update((t, (run.layer, run.phase)) for t in run.writes)
    return Plan(tuple(cache.steps), (*plan.history, f"tensor_cache {slab}"))


class _Cache:
    """The tensors on the device, least recently used first, and where they lie."""

    def __init__(self, slab: int) -> None:
        self.pool = Pool(slab, block=ALIGNMENT)
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
        while not self.allocate(waiting):
            victim = next((t for t in self.offsets if t not in locked), None)
            if victim is None:  # the last resort: the smallest of the run's own
                victim = min(self.offsets, key=lambda tensor: tensor.room)
                waiting.append(victim)
            self.evict(victim)
        self.steps += (Prefetch(t) for t in waiting if t in run.reads)

    def allocate(self, tensors: Sequence[Tensor]) -> bool:
        """Give all of these room, the largest first; or none, if one finds no hole."""
        placed: dict[Tensor, int] = {}
        for tensor in sorted(tensors, key=lambda tensor: -tensor.room):
            offset = self.pool.allocate(tensor.room)
            if offset is None:
                for taken in placed.values():
                    self.pool.free(taken)
                return False
            placed[tensor] = offset
        self.offsets |= placed
        self.steps += (Alloc(tensor, offset) for tensor, offset in placed.items())
        return True

    def evict(self, tensor: Tensor) -> None:
        """Free a tensor that will be read again: see that the host has it."""
        if self.on_host.get(tensor) != self.values[tensor]:
            self.on_host[tensor] = self.values[tensor]
            self.steps.append(Offload(tensor))
        self.free(tensor)

    def free(self, tensor: Tensor) -> None:
        self.pool.free(self.offsets.pop(tensor))
        self.steps.append(Free(tensor))
