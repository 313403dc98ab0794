"""A planned net and its numbers: for people as a table, for programs as JSON.

Unless it says otherwise, a number counts the bytes of data tensors: layer outputs and
data gradients. That is what the papers count. The keys of the JSON:

    baseline_bytes              all of them together
    peak_bytes                  the most in use at once: at route step ``peak_step``
                                (from 1; the first, if several), ``peak_layer``'s
                                ``peak_phase``
    memory_by_step              a number a route step, which is a forward or backward
                                run; re-runs and copies count to the step after them,
                                updates to the one before
    live_tensors_by_step        how many they are
    lower_bound_bytes           the largest run's tensors, each rounded up to 256 bytes,
                                merged gradients of parameters, too: below it this
                                route has no plan
    layer_peak_bytes            the largest backward run's: the paper's max(l_i);
                                ``original_layer_peak_bytes`` as its code sums it
    peak_with_workspace_bytes   the most in use, rounded up to 256: workspaces, too, and
                                merged gradients of parameters
    extent_bytes                the highest address: that, and what lies between
    parts                       the layers that run in parts of the batch, with the
                                images of each part
    resident                    bytes of what is not planned but always there
    total_bytes                 resident and extent: what the device needs in all
    total_lower_bound_bytes     resident and lower bound
    extra_forwards              forward runs beyond each layer's first
    offload_bytes, prefetch_bytes, host_bytes
                                copied to the host; copied back; kept there at once
    modelled                    seconds of an iteration: of compute, and of waiting for
                                copies (stall); with the constants of the machine
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import snref
from snref.net import Net
from snref.planning.bound import bound
from snref.planning.distance import Distance, distance
from snref.planning.exchange import parts_to_json, plan_to_json
from snref.planning.quickest.gaps import Problem
from snref.planning.splitting import InParts
from snref.plans import (
    Algorithm,
    Alloc,
    Free,
    Kind,
    Launch,
    Offload,
    Phase,
    Plan,
    Prefetch,
    Run,
    Tensor,
    extent,
    host_peak,
    layer_peak,
    lower_bound,
    memory,
)
from snref.policies import POLICIES
from snref.scheduler import Options
from snref.scheduler.in_place import overwrite
from snref.support.garbage import no_garbage_collection
from snref.support.units import mebibytes
from snref.timing.costs import Costs
from snref.timing.roofline import Machine
from snref.timing.timeline import Timeline, simulate

COUNTS = "data tensors: layer outputs and data gradients"
DECIDED = ("liveness", "recompute", "transfers", "algorithms", "overwrite")
STATIC = """\
  Every activation has a region throughout, its input's where a ReLU, dropout or
  addition may write over that. Gradients lie on activations; those that cannot have
  regions, too. Beside these: what a run leaves for a later one, such as indices of
  max pooling, signs and dw. Where w is larger than x there is no dw: the momentum
  takes it."""  # how the second paper alone is counted
BY_POLICY = "decided by the policy"
RESIDENT: tuple[Kind, ...] = (
    "parameter",
    "parameter_gradient",
    "momentum",
    "state",
    "input",
)


@dataclass(frozen=True)
class RouteStep:
    """A forward or backward run of the route, with what comes before it in the plan.

    nbytes, tensors   the most that is on the device during the run and during every
                      re-run and copy since the run before
    """

    layer: str
    phase: Phase
    nbytes: int
    tensors: int


@dataclass(frozen=True)
class PlannedNet:
    """A net and a plan for it. Bytes are bytes, seconds are modelled seconds.

    preset    the preset's or policy's name, or "least time"
    options   what the scheduler was told; a policy must keep only the limits of memory
    memory    bytes of the device that the run may use in all; None for no limit
    machine   whose constants the costs are from; None if they were measured
    """

    net: Net
    route: Plan = field(repr=False)
    plan: Plan = field(repr=False)
    options: Options
    preset: str
    memory: int | None
    costs: Costs = field(repr=False)
    machine: Machine | None = field(repr=False)
    planning_seconds: float
    by_policy: bool = False  # made by another planner than the scheduler
    parts: tuple[InParts, ...] = ()  # the layers that run in parts of the batch

    @cached_property
    def steps(self) -> tuple[RouteStep, ...]:
        """The curve of memory over the iteration: a number a route step."""
        return route_steps(self.plan, self._in_use)

    @property
    def peak_bytes(self) -> int:
        """Activations and gradients in use at once, at most; no workspace."""
        return max(self._in_use)

    @cached_property
    def _in_use(self) -> list[int]:
        return memory(self.plan)

    @cached_property
    def peak_step(self) -> int:
        """The first route step, counted from 1, that has the peak."""
        curve = [step.nbytes for step in self.steps]
        return 1 + curve.index(max(curve))

    @property
    def decided_by_policy(self) -> tuple[str, ...]:
        """The options that a policy decided; one of ``POLICIES`` keeps two of them."""
        if not self.by_policy:
            return ()
        kept = ("algorithms", "overwrite") if self.preset in POLICIES else ()
        return tuple(name for name in DECIDED if name not in kept)

    @cached_property
    def bound_seconds(self) -> float:
        """A certified lower bound of the modelled seconds (``bound.py``).

        It holds for every plan with the same options, in the memory that the plan may
        use, or else in the memory that it does use. Raises ValueError if this plan,
        made by a policy, is not one of them, and without SciPy.
        """
        self._check_options(self._problem)
        return bound(self._problem, self._slab_bytes, self.timeline.seconds)

    @cached_property
    def distance(self) -> Distance:
        """By how much the plan takes longer than ``bound_seconds``, and why.

        Raises what that raises.
        """
        nbytes, least = self._slab_bytes, self.bound_seconds
        return distance(self.plan, self._problem, nbytes, least)

    @cached_property
    def _problem(self) -> Problem:
        base = overwrite(self.route, self.options.overwrite)
        return Problem(base, self.costs, self.options.algorithms)

    @property
    def _slab_bytes(self) -> int:
        """Bytes that the plan may use beside what is resident, or else does use."""
        return self.options.limit or extent(self.plan)

    @property
    def has_static_regions(self) -> bool:
        """Whether nothing is freed, and outputs of forward lie over its inputs, too."""
        options = self.options
        return not options.liveness and options.overwrite == "activations"

    def _check_options(self, problem: Problem) -> None:
        """Raise ValueError if a run is quicker, or smaller, than the options allow."""
        if self.has_static_regions and not self.by_policy:
            raise ValueError(
                f"no bound for preset {self.preset!r}: its forward writes over inputs "
                "that a plan which computes again, as a bound allows, still needs"
            )
        places = {(run.layer, run.phase): i for i, run in enumerate(problem.runs)}
        for run in self.plan.runs():
            place = places[run.layer, run.phase]
            nbytes = sum(t.aligned_bytes for t in run.working_set)
            quickest = problem.menus[place][-1][1]
            if nbytes < problem.own[place] or self.costs.seconds(run) < quickest:
                raise ValueError(
                    f"no bound for this plan: {run.phase} {run.layer} does what "
                    f"algorithms {self.options.algorithms!r}, overwrite "
                    f"{self.options.overwrite!r} do not allow"
                )

    def compared(self) -> str:
        """Say how far the plan is, at most, from the quickest one, and why."""
        seconds, least = self.timeline.seconds, self.bound_seconds
        if seconds == 0:
            return "  This plan takes no time, so none is quicker."
        nbytes = sum(self.resident.values()) + self._slab_bytes
        said = (
            f"  No plan of this net in {nbytes:,} bytes, with the same declarations, "
            f"fork, overwrite and algorithms,\n  takes less than {least:.4g} s"
        )
        if least == 0:
            return f"{said}: this bound does not say how far this one is from it."
        said += (
            f": this one takes at most {seconds / least:.3f} times as long as "
            "the quickest."
        )
        causes = self.distance
        return "\n".join(
            [
                said,
                f"  {'seconds above that':44} {causes.seconds:>16.4g}",
                *(
                    f"    {what:42} {value:>16.4g}"
                    for what, value in (
                        ("recomputation", causes.recomputation),
                        ("waiting for copies", causes.waiting),
                        ("waiting that only addresses cause", causes.placement),
                        ("slower algorithms, for want of workspace", causes.algorithms),
                        ("less what any plan needs of these", -causes.unavoidable),
                    )
                ),
            ]
        )

    @cached_property
    def data_tensors(self) -> tuple[Tensor, ...]:
        """Activations and gradients that the plan has memory for."""
        found = dict.fromkeys([step.tensor for step in self.plan.of(Alloc)])
        return tuple([tensor for tensor in found if tensor.is_data])

    @property
    def baseline_bytes(self) -> int:
        """All activations and gradients together."""
        return sum(tensor.nbytes for tensor in self.data_tensors)

    @property
    def extra_forwards(self) -> int:
        """Forward runs beyond each layer's first: the recomputations."""
        forwards = [run.layer for run in self.plan.runs() if run.phase == "forward"]
        return len(forwards) - len(set(forwards))

    @property
    def offload_bytes(self) -> int:
        return sum(step.tensor.nbytes for step in self.plan.of(Offload))

    @property
    def prefetch_bytes(self) -> int:
        return sum(step.tensor.nbytes for step in self.plan.of(Prefetch))

    @property
    def host_bytes(self) -> int:
        """The most that is kept on the host at once."""
        return host_peak(self.plan)

    @property
    def workspace_peak_bytes(self) -> int:
        """The largest workspace of a step."""
        workspaces = (step.tensor for step in self.plan.of(Alloc))
        return max((w.nbytes for w in workspaces if w.kind == "workspace"), default=0)

    @cached_property
    def resident(self) -> dict[Kind, int]:
        """Bytes that stay on the device throughout, by kind."""
        return resident(self.net)

    @property
    def total_bytes(self) -> int:
        """All the device memory that the plan needs: resident and slab."""
        return sum(self.resident.values()) + extent(self.plan)

    @cached_property
    def timeline(self) -> Timeline:
        return simulate(self.plan, self.costs)

    @cached_property
    def algorithms(self) -> dict[str, dict[str, str]]:
        """Layer -> part -> the algorithm that was chosen."""
        return self._choices(lambda algorithm: algorithm.name)

    @cached_property
    def orders(self) -> dict[str, dict[str, str]]:
        """Layer -> part -> its order of summation: the same orders, the same bits.

        All parts of the batch have one order, that of their layer.
        """
        whole = {name: layer for each in self.parts for name, layer in each.names()}
        found = self._choices(lambda algorithm: algorithm.order)
        return {whole.get(name, name): orders for name, orders in found.items()}

    def _choices(self, say: Callable[[Algorithm], str]) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for run in self.plan.runs():
            for choice in run.choices:
                found.setdefault(run.layer, {})[choice.part] = say(choice.chosen)
        return found

    def summary(self) -> str:
        """The numbers as a table for people."""
        with no_garbage_collection():
            return "\n".join(_summary(self))

    def to_json(self, steps: bool = False) -> dict[str, Any]:
        """The numbers for programs: what ``snref plan --json`` writes.

        With steps, also the plan itself, in the form of ``exchange.py``.
        """
        with no_garbage_collection():
            report = _report(self)
            if steps:
                report |= plan_to_json(self.plan, self.route)
            return report


def resident(net: Net) -> dict[Kind, int]:
    """Bytes that stay on the device throughout an iteration, by kind."""
    nbytes = dict.fromkeys(RESIDENT, 0)
    for tensor in net.tensors(*RESIDENT):
        nbytes[tensor.kind] += tensor.nbytes
    return nbytes


def route_steps(plan: Plan, in_use: Sequence[int] = ()) -> tuple[RouteStep, ...]:
    """Memory over an iteration as the papers draw it: a number a route step.

    A route step is a layer's first forward run, or its backward run. Re-runs and
    copies count to the route step that follows, updates to the one before.

    in_use  ``memory(plan)``, if it is known

    >>> x, y = Tensor("x", (256,)), Tensor("y", (256,))
    >>> first = Run("data", "forward", (Launch("", (x,)),))
    >>> second = Run("relu", "forward", (Launch("", (y,), (x,)),))
    >>> line = (Alloc(x), first, Free(x), Alloc(x), Alloc(y), first, second)
    >>> [step.nbytes for step in route_steps(Plan(line))]
    [1024, 2048]
    """
    steps: list[RouteStep] = []
    seen: set[str] = set()
    live = most = count = 0
    for step, nbytes in zip(plan.steps, in_use or memory(plan), strict=True):
        if isinstance(step, Alloc):
            live += step.tensor.is_data
        elif isinstance(step, Free):
            live -= step.tensor.is_data
        else:
            most = nbytes if nbytes > most else most
            count = live if live > count else count
            if not isinstance(step, Run):
                continue
            if step.phase == "update" and steps:
                last = steps[-1]
                most, count = max(last.nbytes, most), max(last.tensors, count)
                steps[-1] = RouteStep(last.layer, last.phase, most, count)
                most = count = 0
            elif step.phase == "backward" or step.layer not in seen:
                seen.add(step.layer)
                steps.append(RouteStep(step.layer, step.phase, most, count))
                most = count = 0
    return tuple(steps)


def original_layer_peak(plan: Plan) -> int:
    """Bytes of the largest backward run, as the paper's code sums them.

    It sums a layer's list of tensors, not the set, and LRN lists the gradient that it
    overwrites twice: 886.23 MiB for AlexNet, where distinct tensors come to 664.67.
    """
    largest = 0
    for run in plan.runs():
        if run.in_backward:
            tensors: set[Tensor] = set()
            listed: list[Tensor] = []
            for piece in run.work:
                tensors.update(piece.outputs, piece.inputs)
                listed += piece.retained if isinstance(piece, Launch) else ()
            nbytes = sum([t.nbytes for t in (*tensors, *listed) if t.is_data])
            largest = max(largest, nbytes)
    return largest


def _report(planned: PlannedNet) -> dict[str, Any]:
    """Every number of ``snref plan --json``; the names are fixed."""
    net, made, options = planned.net, planned.plan, planned.options
    peak = planned.steps[planned.peak_step - 1]
    fixed = planned.resident
    timeline = planned.timeline
    return {
        "schema": "snref.plan/3",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "input": net.input_shape,
        "preset": planned.preset,
        "memory_bytes": planned.memory,
        "options": {
            **asdict(options),
            **dict.fromkeys(planned.decided_by_policy, BY_POLICY),
            "declarations": net.declarations,
            "fork": net.forks,
            "branch_order": net.branch_order,
            "image_gradient": net.has_image_gradient,
        },
        "parts": parts_to_json(planned.parts),
        "unit": "bytes",
        "counts": COUNTS,
        "layers": len(net.nodes),
        "tensors": len(planned.data_tensors),
        "route_steps": len(planned.steps),
        "baseline_bytes": planned.baseline_bytes,
        "peak_bytes": planned.peak_bytes,
        "peak_step": planned.peak_step,
        "peak_layer": peak.layer,
        "peak_phase": peak.phase,
        "memory_by_step": [step.nbytes for step in planned.steps],
        "live_tensors_by_step": [step.tensors for step in planned.steps],
        "peak_with_workspace_bytes": max(memory(made, workspace=True)),
        "extent_bytes": extent(made),
        "lower_bound_bytes": lower_bound(made),
        "total_lower_bound_bytes": lower_bound(made) + sum(fixed.values()),
        "layer_peak_bytes": layer_peak(made),
        "original_layer_peak_bytes": original_layer_peak(made),
        "extra_forwards": planned.extra_forwards,
        "offload_bytes": planned.offload_bytes,
        "prefetch_bytes": planned.prefetch_bytes,
        "host_bytes": planned.host_bytes,
        "resident": {
            "parameters": fixed["parameter"],
            "parameter_gradients": fixed["parameter_gradient"],
            "momentum": fixed["momentum"],
            "state": fixed["state"],
            "input": fixed["input"],
        },
        "workspace_peak_bytes": planned.workspace_peak_bytes,
        "total_bytes": planned.total_bytes,
        "algorithms": planned.algorithms,
        "orders": planned.orders,
        "modelled": {
            "device": planned.costs.source,
            "seconds": timeline.seconds,
            "compute_seconds": timeline.compute_seconds,
            "stall_seconds": timeline.stall_seconds,
            "copy_out_seconds": timeline.copy_out_seconds,
            "copy_in_seconds": timeline.copy_in_seconds,
            "machine": planned.machine.constants() if planned.machine else None,
        },
        "planning_seconds": planned.planning_seconds,
    }


def _summary(planned: PlannedNet) -> Iterator[str]:
    """The lines of the table for people."""
    net, made, options = planned.net, planned.plan, planned.options
    shape = " x ".join(map(str, net.input_shape))
    peak = planned.steps[planned.peak_step - 1]
    fixed, timeline = planned.resident, planned.timeline

    def row(what: str, nbytes: int) -> str:
        return f"  {what:44} {nbytes:>16,} {mebibytes(nbytes):>12}"

    yield (
        f"{net.name}, input {shape}: {len(net.nodes)} layers, "
        f"{len(planned.data_tensors)} tensors, {len(planned.steps)} steps"
    )
    decided = (
        f"recompute {options.recompute or 'off'}, transfers {options.transfers}, "
        f"overwrite {options.overwrite}, algorithms {options.algorithms}"
    )
    if planned.by_policy:
        told = set(DECIDED).difference(planned.decided_by_policy)
        given = (f"{name} {getattr(options, name)}" for name in DECIDED if name in told)
        decided = ", ".join((BY_POLICY, *given))
    yield (
        f"{planned.preset}: {decided}, declarations {net.declarations}, "
        f"fork {net.forks}{'' if net.has_image_gradient else ', no image gradient'}"
    )
    if net.declarations == "static" and planned.has_static_regions:
        yield STATIC
    for each in planned.parts:
        yield f"parts of the batch: {each}"
    yield ""
    yield f"  {COUNTS:44} {'bytes':>16} {'MiB = 2^20':>12}"
    yield row(f"baseline: all of them held, {net.declarations}", planned.baseline_bytes)
    where = f"peak: step {planned.peak_step}, {peak.layer} {peak.phase}"
    yield row(where, planned.peak_bytes)
    yield row("lower bound of this route", lower_bound(made))
    yield row("largest backward run, the paper's max(l_i)", layer_peak(made))
    yield row("the same as the paper's code sums it", original_layer_peak(made))
    yield "  with workspaces, each rounded up to 256 bytes"
    yield row("peak", max(memory(made, workspace=True)))
    yield row("extent: the highest address", extent(made))
    yield "  in all"
    yield row(
        "parameters, gradients, momentum, state", sum(fixed.values()) - fixed["input"]
    )
    yield row("input", fixed["input"])
    yield row("total: resident and extent", planned.total_bytes)
    if planned.memory is not None:
        yield row("of", planned.memory)
    yield "  savings"
    yield f"  {'extra forwards':44} {planned.extra_forwards:>16,}"
    yield row("copied to the host", planned.offload_bytes)
    yield row("copied back", planned.prefetch_bytes)
    yield row("kept on the host at once", planned.host_bytes)
    ways = Counter(
        f"{choice.chosen.name} ({choice.chosen.order})"
        for run in made.runs()
        for choice in run.choices
    )
    if ways:
        yield "  convolutions by algorithm, and the order in which it sums"
    for name, count in ways.most_common():
        yield f"  {name:44} {count:>16,}"
    yield ""
    yield (
        f"  {timeline.seconds:.4g} s an iteration on {planned.costs.source}: "
        f"{timeline.compute_seconds:.4g} s of compute, "
        f"{timeline.stall_seconds:.4g} s of waiting for copies"
        f"{' (a model, no measurement)' if planned.machine else ''}"
    )
    yield f"  planned in {1000 * planned.planning_seconds:.0f} ms"
