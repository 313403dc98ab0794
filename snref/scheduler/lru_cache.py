"""The LRU tensor cache (SuperNeurons, section 3.3.2, Algorithm 2).

The device's slab is a cache of the host's memory. A tensor stays on the device until
its memory is needed; then the least recently used tensor is evicted: copied to the
host, unless the host has its value already, and freed. Backward uses the latest
forward tensors first, which is why least recently used is a good rule. Nothing is
copied as long as everything fits.

    before a layer runs       lock its tensors; for each that is not on the device:
                              allocate it; while that fails, evict an unlocked tensor
    after it                  unlock them, and free those whose last use it was

A training iteration is known beforehand, so no cache is needed at run time. The plan
is played here, once, against a slab of that size, and what the cache does becomes
steps of the plan. It decides by address, whether a hole is large enough, so this pass
allocates, places and gives workspaces itself; ``free_dead`` and ``place`` are not
needed after it.

How this differs from Algorithm 2:

- The paper's cache decides at run time. Here each iteration runs the same plan.
- A copy to the host is made when a tensor is evicted. The paper starts the copies of
  convolutions' outputs earlier, right after they are computed.
- A tensor that a re-run computed again counts as unchanged: if the host has the value
  from its first computation, it is not copied again.
- A victim is evicted until a hole is large enough for the tensor, not until enough
  bytes are free: tensors have addresses, and free bytes may be in pieces.
- All of a layer's tensors that are on the device count as used before the first one
  that is missing is allocated.
- Which tensor is evicted is an argument, ``victim``.

``cache_refinements`` adds what the preset "cache" does beyond this.

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
from collections.abc import Callable, Container
from typing import TypeAlias

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
    memory,
)
from snref.scheduler.liveness import hold_all, last_uses
from snref.scheduler.slab import Pool
from snref.support.units import shortened

# (the cache, tensors that must stay) -> the tensor to evict; None if all must stay
Victim: TypeAlias = "Callable[[TensorCache, Container[Tensor]], Tensor | None]"
ChooseAlgorithms: TypeAlias = Callable[[Run, int], Run]  # (run, bytes left) -> run


def least_recently_used(
    cache: "TensorCache", locked: Container[Tensor]
) -> Tensor | None:
    """Return the tensor that was used longest ago, of those that are not locked."""
    return next((tensor for tensor in cache.used if tensor not in locked), None)


def tensor_cache(
    plan: Plan,
    slab: int,
    victim: Victim = least_recently_used,
    choose: ChooseAlgorithms | None = None,
) -> Plan:
    """Return the plan with the transfers of a cache in this slab, allocated and placed.

    slab    bytes
    victim  which tensor to evict
    choose  gives a run the algorithms whose workspace fits the largest hole

    Raises OutOfMemory if a tensor does not fit beside those that are locked.
    """
    return TensorCache(plan, slab, victim, choose).play()


class TensorCache:
    """The tensors on the device while a plan is played, and the steps that it took.

    offsets  the tensors' addresses, in the order in which they were allocated
    used     the same tensors, least recently used first. Each use sets the value to
             True: the reference bit of the CLOCK rule, which least recently used
             does not need. A use reorders ``used``, so a rule like CLOCK, which keeps
             an order of its own, goes through ``offsets``
    """

    def __init__(
        self, plan: Plan, slab: int, victim: Victim, choose: ChooseAlgorithms | None
    ) -> None:
        self.plan = plan
        self.slab = slab
        self.pool = Pool(slab, block=ALIGNMENT)
        self.victim = victim
        self.choose = choose
        self.offsets: dict[Tensor, int] = {}
        self.used: OrderedDict[Tensor, bool] = OrderedDict()
        # A value is named after the run that computes it; a re-run computes it again.
        self.values: dict[Tensor, tuple[str, Phase]] = {}
        self.on_host: dict[Tensor, tuple[str, Phase]] = {}
        self.steps: list[Step] = []

    def play(self) -> Plan:
        """Play the plan; return its runs with all that the cache did between them."""
        for run, dying in zip(self.plan.steps, last_uses(self.plan), strict=True):
            assert isinstance(run, Run), "the cache comes before all transfers"
            self.lock(run)
            if self.choose is not None:
                run = self.choose(run, self.pool.largest_hole)
            for workspace in run.workspaces:
                offset = self.pool.allocate(workspace.aligned_bytes)
                assert offset is not None, "it was chosen to fit the largest hole"
                self.insert(workspace, offset)
            self.steps.append(run)
            self.values |= dict.fromkeys(run.writes, (run.layer, run.phase))
            for tensor in (*run.workspaces, *dying):
                self.pool.free(self.offsets[tensor])
                self.remove(tensor)
        return Plan(tuple(self.steps))

    def lock(self, run: Run) -> None:
        """Bring all tensors of a run to the device; none of them leaves meanwhile."""
        missing = []
        for tensor in run.working_set:
            if tensor in self.offsets:
                self.used[tensor] = True
                self.used.move_to_end(tensor)
            else:
                missing.append(tensor)
        self.allocate(missing, run)
        self.steps += (Prefetch(t) for t in missing if t in run.reads)

    def allocate(self, missing: list[Tensor], run: Run) -> None:
        """Allocate tensors of a run; while that fails, evict one that is not locked."""
        for tensor in missing:
            while (offset := self.pool.allocate(tensor.aligned_bytes)) is None:
                victim = self.choose_victim(run.working_set)
                if victim is None:
                    raise self.everything_is_locked(run)
                self.pool.free(self.offsets[victim])
                self.evict(victim)
            self.insert(tensor, offset)

    def choose_victim(self, locked: Container[Tensor]) -> Tensor | None:
        """Ask the rule for a tensor to evict; None if all of them are locked.

        Raises ValueError if the rule returns anything but a tensor that may leave, or
        returns None though one may, or changes which tensors there are.
        """
        victim = self.victim(self, locked)
        name = getattr(self.victim, "__name__", type(self.victim).__name__)
        if self.used.keys() != self.offsets.keys():
            raise ValueError(
                f"the victim rule {name!r} changed which tensors are in the cache: it "
                "may reorder them, and returns the one to evict"
            )
        if victim is None:
            unlocked = next((t for t in self.used if t not in locked), None)
            if unlocked is None:
                return None
            wrong = f"None though {unlocked.name} may leave"
        elif not isinstance(victim, Tensor):
            wrong = f"{shortened(victim)}, which is no tensor"
        elif victim not in self.offsets:
            wrong = f"{victim.name}, which is not on the device"
        elif victim in locked:
            wrong = f"{victim.name}, which is locked"
        else:
            return victim
        raise ValueError(f"the victim rule {name!r} returned {wrong}")

    def insert(self, tensor: Tensor, offset: int) -> None:
        """Allocate a tensor at an offset that the pool gave. It is used at once."""
        self.offsets[tensor] = offset
        self.used[tensor] = True
        self.steps.append(Alloc(tensor, offset))

    def evict(self, tensor: Tensor) -> None:
        """Copy a tensor to the host, unless the host has its value; then free it."""
        if self.on_host.get(tensor) != self.values[tensor]:
            self.on_host[tensor] = self.values[tensor]
            self.steps.append(Offload(tensor))
        self.remove(tensor)

    def remove(self, tensor: Tensor) -> None:
        """Free a tensor, whose bytes the pool has back already."""
        del self.offsets[tensor], self.used[tensor]
        self.steps.append(Free(tensor))

    def everything_is_locked(self, run: Run) -> OutOfMemory:
        needed = sum(tensor.aligned_bytes for tensor in run.working_set)
        enough = max(memory(hold_all(self.plan), workspace=True))
        return OutOfMemory(f"{run.layer} {run.phase}", needed, self.slab, enough)
