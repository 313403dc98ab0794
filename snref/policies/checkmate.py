"""Checkmate's optimum: what is kept and computed again, as an integer programme.

Jain et al., Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization,
MLSys 2020, section 4. A stage of the programme ends with one run of the route; S(t, x)
says whether the value of tensor x is in memory when stage t begins, R(t, i) whether run
i is computed in it, FREE(t, x, k) whether x is freed after run k:

    minimize   sum of R(t, i) seconds(i)
    with       S(t+1, x) <= S(t, x) + R(t, maker of x)
               R(t, i) <= S(t, x) + R(t, maker of x)          for each x that i reads
               U(t, k) <= memory                              for each run k in stage t

where U(t, k), the bytes in use, is summed from S, R and FREE as in the paper's
equations 4 to 7.

Our reading: only forward runs are computed again, and only in the backward pass; each
gradient is computed once and has a fixed lifetime. So there is a stage for each
backward run, and the values kept from the forward pass are S of the first. The solver
is HiGHS (extra ``optimal``). It stops at a gap of 0.1 %, or with the best that it has
found after a minute, in which the tries must fit that find addresses for the plan; each
has a second at least. Nets of more than 50 runs, forward and backward, are refused.
"""

import time
from importlib.util import find_spec
from typing import Any

from snref.plans import OutOfMemory, Plan, Run, Tensor, lower_bound, memory
from snref.policies.rebuilding import (
    NotApplicable,
    first_backward,
    fitting,
    without_useless,
)
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.options import Options
from snref.timing.costs import Costs

RUNS = 50
SECONDS = 60.0  # of the solver, for a plan
GAP = 1e-3


def checkmate(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the quickest plan that computes forward runs again.

    Raises NotApplicable for a larger net, and without SciPy.
    """
    plan = overwrite(route, options.overwrite)
    runs = [run for run in plan.runs() if run.phase != "update"]
    if len(runs) > RUNS:
        raise NotApplicable(
            f"checkmate plans at most {RUNS} runs; these are {len(runs)}"
        )
    if find_spec("scipy") is None:
        raise NotApplicable("checkmate needs SciPy: pip install 'snref[optimal]'")
    updates = [run for run in plan.runs() if run.phase == "update"]

    most = max(memory(free_dead(plan), workspace=True))
    end = time.monotonic() + SECONDS

    def make(capacity: int) -> Plan:
        programme = _Programme(runs, costs, min(capacity, most))
        seconds = max(1.0, end - time.monotonic())
        return Plan((*without_useless(programme.solve(seconds)), *updates))

    return fitting(make, lower_bound(plan), options, costs)


class _Programme:
    """The variables and rows of the programme for so many bytes of memory."""

    def __init__(self, runs: list[Run], costs: Costs, capacity: int) -> None:
        start = first_backward(runs)
        self.forward, self.backward = runs[:start], runs[start:]
        self.capacity = capacity
        self.costs: list[float] = []
        self.binary: list[bool] = []
        self.rows: list[tuple[dict[int, float], float]] = []  # row . x <= bound
        self.maker = {
            t: i
            for i, run in enumerate(self.forward)
            for t in run.writes
            if t.scheduled
        }
        # A value that backward writes over is a gradient from then on.
        self.ends = {
            tensor: t
            for t, run in reversed([*enumerate(self.backward)])
            for tensor in run.writes
            if tensor in self.maker
        }
        self.last = {
            t: i for i, run in enumerate(self.forward) for t in run.working_set
        }
        stages = range(len(self.backward))
        self.S = [{x: self.variable() for x in self.maker} for _ in stages]
        self.R = [
            [self.variable(costs.seconds(run)) for run in self.forward] for _ in stages
        ]

    def variable(self, cost: float = 0.0, binary: bool = True) -> int:
        self.costs.append(cost)
        self.binary.append(binary)
        return len(self.costs) - 1

    def at_most(self, bound: float, *terms: tuple[int, float]) -> None:
        """Add a row: the sum of the terms is at most the bound."""
        row: dict[int, float] = {}
        for variable, factor in terms:
            row[variable] = row.get(variable, 0.0) + factor
        self.rows.append((row, bound))

    def solve(self, seconds: float) -> list[Run]:
        """Return forward and backward runs in order. Raises OutOfMemory if none fit."""
        self._forward_memory()
        gradients = self._gradient_bytes()
        for t, run in enumerate(self.backward):
            self._dependencies(t, run)
            self._memory(t, run, *gradients[t])
        chosen = self._solution(seconds)
        if chosen is None:
            enough = self.capacity + 1
            raise OutOfMemory("the programme", enough, self.capacity, enough)
        order = list(self.forward)
        for t, run in enumerate(self.backward):
            order += [f for i, f in enumerate(self.forward) if chosen[self.R[t][i]]]
            order.append(run)
        return order

    def _forward_memory(self) -> None:
        """Bytes during each forward run: what forward reads later, and what is kept."""
        for i, run in enumerate(self.forward):
            here = {x for x, made in self.maker.items() if made <= i <= self.last[x]}
            fixed = sum(x.aligned_bytes for x in here | {*run.working_set})
            kept = [x for x, made in self.maker.items() if made <= i and x not in here]
            self.at_most(
                self.capacity - fixed,
                *((self.S[0][x], float(x.aligned_bytes)) for x in kept),
            )

    def _gradient_bytes(self) -> list[tuple[int, int]]:
        """Bytes of gradients before and during each backward run."""
        first: dict[Tensor, int] = {}
        last: dict[Tensor, int] = {}
        for t, run in enumerate(self.backward):
            for tensor in run.working_set:
                if tensor not in self.maker or self.ends.get(tensor, t + 1) <= t:
                    first.setdefault(tensor, t)
                    last[tensor] = t
        return [
            (
                sum(x.aligned_bytes for x in first if first[x] < t <= last[x]),
                sum(
                    x.aligned_bytes
                    for x in first
                    if first[x] <= t <= last[x] and self.ends.get(x) != t
                ),
            )
            for t in range(len(self.backward))
        ]

    def _dependencies(self, t: int, run: Run) -> None:
        """Rows: what is read in a stage is in memory, or computed in it."""
        for x, made in self.maker.items():
            here = (self.S[t][x], -1.0), (self.R[t][made], -1.0)
            if t + 1 < len(self.backward):
                self.at_most(0.0, (self.S[t + 1][x], 1.0), *here)
            if x in run.reads and self.ends.get(x, t) >= t:
                self.at_most(-1.0, *here)
            for i, forward in enumerate(self.forward):
                if x in forward.reads:
                    self.at_most(0.0, (self.R[t][i], 1.0), *here)
            if self.ends.get(x, t) < t:
                self.at_most(0.0, (self.S[t][x], 1.0), (self.R[t][made], 1.0))

    def _memory(self, t: int, run: Run, before: int, during: int) -> None:
        """Rows: the bytes in use at each run of a stage are at most the capacity.

        They are summed run by run. ``after`` is what may be freed after a run: if it
        ran, no later run of the stage reads it, and the next stage does not keep it.
        """
        in_use = {self.S[t][x]: float(x.aligned_bytes) for x in self.maker}
        ahead = self.S[t + 1] if t + 1 < len(self.backward) else {}
        for i, forward in enumerate(self.forward):
            for x in forward.writes:
                if x in self.maker:
                    place = self.R[t][i]
                    in_use[place] = in_use.get(place, 0.0) + x.aligned_bytes
            self.at_most(self.capacity - before, *in_use.items())
            for x in {*forward.reads, *forward.writes} & self.maker.keys():
                if x in run.reads:
                    continue
                free = self.variable(binary=False)  # 0 or 1 since R and S are
                self.at_most(0.0, (free, 1.0), (self.R[t][i], -1.0))
                if x in ahead:
                    self.at_most(1.0, (free, 1.0), (ahead[x], 1.0))
                for later in range(i + 1, len(self.forward)):
                    if x in self.forward[later].reads:
                        self.at_most(1.0, (free, 1.0), (self.R[t][later], 1.0))
                in_use[free] = -float(x.aligned_bytes)
        self.at_most(self.capacity - during, *in_use.items())

    def _solution(self, seconds: float) -> list[bool] | None:
        """Return which variables are 1, by SciPy's HiGHS; None if nothing is found."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        rows, columns, values = [], [], []
        unit = float(self.capacity or 1)
        upper: list[float] = []
        for number, (row, bound) in enumerate(self.rows):
            scale = unit if any(abs(value) > 1 for value in row.values()) else 1.0
            upper.append(bound / scale)
            for column, value in row.items():
                rows.append(number)
                columns.append(column)
                values.append(value / scale)
        shape = len(self.rows), len(self.costs)
        matrix = csr_array((values, (rows, columns)), shape=shape)
        most = max(self.costs) or 1.0
        found: Any = milp(
            [cost / most for cost in self.costs],
            constraints=LinearConstraint(matrix, ub=upper),
            bounds=Bounds(0, 1),
            integrality=[int(binary) for binary in self.binary],
            options={"time_limit": seconds, "mip_rel_gap": GAP},
        )
        if found.x is None:
            return None
        return [value > 0.5 for value in found.x]
