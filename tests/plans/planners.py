"""Planners by hand: they know the route, and nothing of the scheduler.

Each follows the route. Before a run, what it reads and is not there is copied back, if
the host has it, or computed again; after it, what the planner does not keep is freed,
or copied out and freed.
"""

from collections.abc import Callable, Iterable
from math import isqrt
from random import Random
from typing import Literal, TypeAlias

from snref.plans import Alloc, Free, Offload, Plan, Prefetch, Run, Step, Tensor

Fate: TypeAlias = Literal["keep", "drop", "copy"]  # of an activation that is read later
Policy: TypeAlias = Callable[[Tensor], Fate]


class Planner:
    """A plan that grows along a route."""

    def __init__(self, route: Plan) -> None:
        self.runs = [*route.runs()]
        self.maker = {t: run for run in self.runs for t in run.writes}
        self.steps: list[Step] = []
        self.here: dict[Tensor, None] = {}
        self.host: set[Tensor] = set()

    def bring(self, tensors: Iterable[Tensor]) -> None:
        """Make sure that these are allocated and hold their values."""
        for tensor in tensors:
            if not tensor.scheduled or tensor in self.here:
                continue
            if tensor in self.host:
                self.allocate([tensor])
                self.steps.append(Prefetch(tensor))
            else:
                self.run(self.maker[tensor])

    def run(self, run: Run) -> None:
        self.bring(run.reads)
        self.allocate(run.writes)
        self.steps.append(run)

    def allocate(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if tensor.scheduled and tensor not in self.here:
                self.here[tensor] = None
                self.steps.append(Alloc(tensor))

    def free(self, tensor: Tensor) -> None:
        del self.here[tensor]
        self.steps.append(Free(tensor))

    def copy_out(self, tensor: Tensor) -> None:
        if tensor not in self.host:
            self.host.add(tensor)
            self.steps.append(Offload(tensor))

    def plan(self, policy: Policy) -> Plan:
        """Follow the route; after each run free what is no more read, or not kept."""
        last = {t: i for i, run in enumerate(self.runs) for t in run.reads}
        fates: dict[Tensor, Fate] = {}
        for i, run in enumerate(self.runs):
            self.run(run)
            for tensor in [*self.here]:
                fate: Fate = "drop"
                if last.get(tensor, i) > i:
                    fate = fates.setdefault(tensor, policy(tensor))
                    if tensor.kind == "gradient" and fate == "drop":
                        fate = "keep"  # backward runs once
                if fate == "copy":
                    self.copy_out(tensor)
                if fate != "keep":
                    self.free(tensor)
        return Plan(tuple(self.steps))


def keep_all(route: Plan) -> Plan:
    """Everything allocated at the beginning and freed at the end."""
    tensors = dict.fromkeys(t for run in route.runs() for t in run.working_set)
    return Plan((*map(Alloc, tensors), *route.steps, *map(Free, tensors)))


def keep_what_is_read(route: Plan) -> Plan:
    return Planner(route).plan(lambda tensor: "keep")


def recompute_all(route: Plan) -> Plan:
    """No activation is kept for a moment after it was read."""
    return Planner(route).plan(lambda tensor: "drop")


def sqrt_n(route: Plan) -> Plan:
    """Every sqrt(n)-th layer's outputs are kept (Chen et al. 2016)."""
    forwards = [run for run in route.runs() if run.phase == "forward"]
    distance = max(2, isqrt(len(forwards)))
    kept = {tensor for run in forwards[::distance] for tensor in run.writes}
    return Planner(route).plan(lambda tensor: "keep" if tensor in kept else "drop")


def copy_all(route: Plan) -> Plan:
    return Planner(route).plan(lambda tensor: "copy")


def at_random(route: Plan) -> Plan:
    random = Random(len(route.steps))
    return Planner(route).plan(lambda tensor: random.choice(("keep", "drop", "copy")))


def largest_working_set(route: Plan) -> int:
    return max(sum(t.nbytes for t in run.working_set) for run in route.runs())


def belady(route: Plan) -> Plan:
    """In the least memory that can do: what is read again last leaves (Belady 1966)."""
    planner = Planner(route)
    uses: dict[Tensor, list[int]] = {}
    for i, run in enumerate(planner.runs):
        for tensor in run.working_set:
            uses.setdefault(tensor, []).append(i)
    capacity = largest_working_set(route)
    for i, run in enumerate(planner.runs):
        needed = sum(t.nbytes for t in run.working_set if t not in planner.here)
        others = [t for t in planner.here if t not in run.working_set]
        others.sort(key=lambda t: next(use for use in uses[t] if use > i))
        while others and needed + sum(t.nbytes for t in planner.here) > capacity:
            victim = others.pop()
            planner.copy_out(victim)
            planner.free(victim)
        planner.run(run)
        for tensor in run.working_set:
            if uses[tensor][-1] == i:
                planner.free(tensor)
    return Plan(tuple(planner.steps))


PLANNERS: dict[str, Callable[[Plan], Plan]] = {
    "keep all": keep_all,
    "keep what is read": keep_what_is_read,
    "recompute all": recompute_all,
    "sqrt(n)": sqrt_n,
    "copy all": copy_all,
    "Belady": belady,
    "random": at_random,
}
