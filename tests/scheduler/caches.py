"""Plans for caches, other caches to compare ours with, and what a cache copies."""

from collections import OrderedDict
from collections.abc import Container

from snref.plans import Launch, Offload, Plan, Prefetch, Run, Tensor
from snref.scheduler.liveness import last_uses
from snref.scheduler.lru_cache import TensorCache

SIZE = 256  # bytes of a tensor


def plan_of(*runs: str) -> Plan:
    """A plan from runs as text, "x y -> z": reads x and y, writes z.

    Every tensor has 256 bytes; one in capital letters has 512.
    """
    tensors: dict[str, Tensor] = {}

    def named(names: str) -> tuple[Tensor, ...]:
        for name in names.split():
            size = 2 * SIZE if name.isupper() else SIZE
            tensors.setdefault(name, Tensor(name, (size // 4,)))
        return tuple(tensors[name] for name in names.split())

    steps = []
    for number, text in enumerate(runs):
        reads, writes = text.split("->")
        work = (Launch("", named(writes), named(reads)),)
        steps.append(Run(f"run{number}", "forward", work))
    return Plan(tuple(steps))


def bytes_copied(plan: Plan) -> int:
    """Bytes that a plan copies to the host and back."""
    copies = (s for s in plan.steps if isinstance(s, Offload | Prefetch))
    return sum(copy.tensor.nbytes for copy in copies)


def byte_counting_lru(plan: Plan, capacity: int) -> int:
    """Bytes that a cache copies which counts bytes and knows no addresses."""
    present: OrderedDict[Tensor, None] = OrderedDict()
    clean: set[Tensor] = set()
    used = copied = 0
    for run, dying in zip(plan.steps, last_uses(plan), strict=True):
        assert isinstance(run, Run)
        for tensor in run.working_set:
            if tensor in present:
                present.move_to_end(tensor)
        for tensor in run.working_set:
            if tensor in present:
                continue
            while used + tensor.aligned_bytes > capacity:
                victim = next(t for t in present if t not in run.working_set)
                del present[victim]
                used -= victim.aligned_bytes
                if victim not in clean:
                    clean.add(victim)
                    copied += victim.nbytes
            present[tensor] = None
            used += tensor.aligned_bytes
            if tensor in run.reads:
                copied += tensor.nbytes
        for tensor in dying:
            del present[tensor]
            used -= tensor.aligned_bytes
        clean.difference_update(run.writes)
    return copied


# Wrong rules, which the tests of the right one must tell from it.


def first_in(cache: TensorCache, locked: Container[Tensor]) -> Tensor | None:
    return next((t for t in cache.offsets if t not in locked), None)


def most_recently_used(cache: TensorCache, locked: Container[Tensor]) -> Tensor | None:
    return next((t for t in reversed(cache.used) if t not in locked), None)


def clock(cache: TensorCache, locked: Container[Tensor]) -> Tensor | None:
    """First in, first out, but a tensor used since the hand passed it stays a round."""
    ring = [tensor for tensor in cache.offsets if tensor not in locked]
    for tensor in (*ring, *ring):
        if not cache.used[tensor]:
            return tensor
        cache.used[tensor] = False
        cache.offsets[tensor] = cache.offsets.pop(tensor)  # behind the hand
    return None
