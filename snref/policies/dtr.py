"""Dynamic tensor rematerialization: an online rule, which knows no future.

Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, section 3. Tensors are
computed as the program asks for them. If memory is short, the tensor with the least

    h(t) = cost(t) / (size(t) staleness(t))

is evicted: cost is the time to compute it again, together with its evicted
neighbourhood e*(t), the evicted tensors that it would need or that need it; staleness
is the time since its last use. An evicted tensor that is used is computed again, and
what that needs.

Our reading: e*(t) is the set of evicted tensors that are connected with t through
evicted ones (the paper keeps such sets by union and find). A tensor that the program
does not use again is evicted at once (its policy for deallocation). Gradients stay.
Nothing is copied to the host.
"""

from snref.plans import OutOfMemory, Plan, Run, Step, Tensor, lower_bound
from snref.policies.rebuilding import first_backward, fitting
from snref.scheduler.in_place import overwrite
from snref.scheduler.options import Options
from snref.timing.costs import Costs


def dtr(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the runs in the order in which DTR would come to them."""
    plan = overwrite(route, options.overwrite)

    def make(capacity: int) -> Plan:
        return _Runtime(plan, costs, capacity).play()

    return fitting(make, lower_bound(plan), options, costs)


class _Runtime:
    """The tensors on the device while a route is played, and when each was used."""

    def __init__(self, plan: Plan, costs: Costs, capacity: int) -> None:
        self.runs, self.costs, self.capacity = tuple(plan.runs()), costs, capacity
        start = first_backward(self.runs)
        self.maker = {
            t: run for run in self.runs[:start] for t in run.writes if t.scheduled
        }
        self.seconds = {t: costs.seconds(run) for t, run in self.maker.items()}
        self.neighbours: dict[Tensor, set[Tensor]] = {t: set() for t in self.maker}
        for tensor, run in self.maker.items():
            for read in self.maker.keys() & {*run.reads}:
                self.neighbours[tensor].add(read)
                self.neighbours[read].add(tensor)
        self.last = {t: i for i, run in enumerate(self.runs) for t in run.working_set}
        self.used: dict[Tensor, float] = {}  # on the device -> when it was last used
        self.evicted: dict[Tensor, None] = {}
        self.changed: set[Tensor] = set()  # by the backward pass: not to be had again
        self.clock = 0.0
        self.in_use = 0
        self.steps: list[Step] = []

    def play(self) -> Plan:
        for i, run in enumerate(self.runs):
            self.compute(run)
            if run.phase == "backward":
                self.changed.update(run.writes)
            for tensor in [t for t in self.used if self.last[t] <= i]:
                self.evict(tensor)
        return Plan(tuple(self.steps))

    def compute(self, run: Run) -> None:
        """Run, after what it reads was computed again; lock its tensors meanwhile."""
        locked: set[Tensor] = set()
        waiting = [(run, self.lock(run, locked), iter(run.reads))]
        while waiting:
            run, own, reads = waiting[-1]
            tensor = next((t for t in reads if t in self.evicted), None)
            if tensor is not None:
                maker = self.maker[tensor]
                waiting.append((maker, self.lock(maker, locked), iter(maker.reads)))
                continue
            waiting.pop()
            self.run(run, locked)
            locked -= own

    def lock(self, run: Run, locked: set[Tensor]) -> set[Tensor]:
        """Lock the tensors of a run; return those that were not locked."""
        own = {*run.working_set} - locked
        locked |= own
        return own

    def run(self, run: Run, locked: set[Tensor]) -> None:
        """Run, what it reads being there; evict others until there is memory."""
        missing = [t for t in run.working_set if t not in self.used]
        needed = sum(tensor.aligned_bytes for tensor in missing)
        while self.in_use + needed > self.capacity:
            self.evict(self.victim(run, locked, needed))
        self.in_use += needed
        self.clock += self.costs.seconds(run)
        self.evicted = {t: None for t in self.evicted if t not in missing}
        self.used |= dict.fromkeys(run.working_set, self.clock)
        self.steps.append(run)

    def victim(self, run: Run, locked: set[Tensor], needed: int) -> Tensor:
        """Return the tensor with the least h of those that can be computed again."""
        there = [t for t in self.used if t in self.maker and t not in locked]
        free = [t for t in there if t not in self.changed]
        if not free:
            enough = self.in_use + needed
            raise OutOfMemory(f"{run.layer} {run.phase}", enough, self.capacity, enough)
        connected = self.connected()

        def h(tensor: Tensor) -> float:
            near = {connected[t] for t in self.near(tensor)}
            cost = self.seconds[tensor] + sum(seconds for _, seconds in near)
            staleness = self.clock - self.used[tensor]
            return cost / (tensor.aligned_bytes * max(staleness, 1e-12))

        return min(free, key=h)

    def connected(self) -> dict[Tensor, tuple[int, float]]:
        """Return, for each evicted tensor, the number and the cost of its set e*."""
        found: dict[Tensor, tuple[int, float]] = {}
        for number, start in enumerate(self.evicted):
            if start in found:
                continue
            members, todo = {start}, [start]
            while todo:
                new = self.near(todo.pop()) - members
                members |= new
                todo += new
            cost = sum(self.seconds[tensor] for tensor in members)
            found |= dict.fromkeys(members, (number, cost))
        return found

    def near(self, tensor: Tensor) -> set[Tensor]:
        """Return the evicted tensors that a tensor needs, and those that need it."""
        return self.evicted.keys() & self.neighbours[tensor]

    def evict(self, tensor: Tensor) -> None:
        del self.used[tensor]
        self.in_use -= tensor.aligned_bytes
        if tensor in self.maker and tensor not in self.changed:
            self.evicted[tensor] = None
