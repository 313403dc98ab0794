"""Planning a net: from a preset, or an amount of memory, to a plan.

``plan`` is what the command ``snref plan`` runs. It returns a ``PlannedNet``
(``reports.py``), from which each number that the command prints can be had by itself.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import NoneType
from typing import Unpack, get_args

from snref.layers.base import Declarations
from snref.net import ForkMode, Net, route
from snref.planning.quickest import Overrides, least_time
from snref.planning.reports import PlannedNet, resident
from snref.planning.splitting import InParts, Split, check_parts, split, splits
from snref.plans import (
    Alloc,
    OutOfMemory,
    Plan,
    Run,
    Step,
    Tensor,
    extent,
    lower_bound,
)
from snref.plans.verification import verify
from snref.policies import POLICIES, NotApplicable, Policy
from snref.scheduler import PRESETS, Options, check_host, schedule
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.placement import place
from snref.support.garbage import no_garbage_collection
from snref.support.imports import blamed, imported
from snref.support.units import parsed, shortened
from snref.timing import roofline
from snref.timing.costs import Costs

JOINT = "joint"  # both papers in one plan
PRESET_NAMES = (*PRESETS, JOINT)
NET_OPTIONS: Mapping[str, tuple[Declarations, ForkMode]] = {  # what a preset needs
    "reuse": ("static", "share"),
    JOINT: ("reuse", "share"),
}


def plan(
    net: Net,
    *,
    preset: str | None = None,
    policy: str | Policy | None = None,
    memory: str | int | None = None,
    host_memory: str | int | None = None,
    device: str = "virtual:k40c",
    costs: Costs | None = None,
    effort: float = 1.0,
    parts: int | None = None,
    **overrides: Unpack[Overrides],
) -> PlannedNet:
    """Plan an iteration of training a net, without running it.

    preset       a name of ``PRESETS``. Without one: "superneurons"; or, if memory is
                 given, the plan of least modelled time that fits it. "joint" is that
                 plan, too, with gradients over activations and the net's declarations
                 "reuse"; without memory, it is the plan of least memory. "reuse" is the
                 second paper alone, with the declarations "static": every activation
                 has one region throughout, as in Caffe; ReLU writes y over x, gradients
                 lie on activations, and all dw in one region, or in none where w is
                 larger than x
    policy       instead of the scheduler: a name of ``POLICIES``, "module:function", or
                 a function from route, options and costs to a plan. For a function of
                 your own, only the limits of memory hold, not the other options
    memory       bytes of the device that the run may use, for all it needs; or a size
                 such as "1.5GiB"
    host_memory  bytes of the host that it may use for copies
    device       whose roofline models the time: "virtual:" and a machine, or a file
    costs        measured seconds, instead of a roofline
    effort       with memory alone: how long to look for a quicker plan
    parts        of the batch, on each of which the largest layers run by themselves.
                 None: as few as fit the memory, without a preset and with "joint"; and
                 none at all if the plan fits without. 1: none, whatever fits
    overrides    options to change in the preset; beside a policy, recompute and
                 transfers are refused

    Raises OutOfMemory, in bytes of ``memory``, and ValueError for an unknown name.

    >>> from snref.nets import alexnet
    >>> planned = plan(alexnet(batch=200), preset="liveness")
    >>> planned.peak_bytes, planned.peak_step, planned.steps[31].layer
    (1561702400, 32, 'pool5')
    """
    if not isinstance(net, Net):
        raise ValueError(
            f"{shortened(net)} is no Net; snref.nets.find makes one of a name"
        )
    start = time.perf_counter()
    net = prepared(net, preset)
    machine = None if costs else roofline.machine(device)
    with no_garbage_collection():
        fixed = sum(resident(net).values())
        limit = None if memory is None else parsed(memory)
        capacity = None if limit is None else max(0, limit - fixed)
        if host_memory is not None:
            overrides["host_capacity"] = parsed(host_memory)

        def planned(whole: Plan, in_parts: tuple[InParts, ...] = ()) -> PlannedNet:
            seconds = roofline.costs(whole, machine) if machine else costs
            assert seconds is not None
            found = plan_route(
                whole, seconds, preset, policy, capacity, effort, overrides
            )
            name, options, made = found
            took = time.perf_counter() - start
            return PlannedNet(
                *(net, whole, made, options, name, limit, seconds, machine, took),
                by_policy=policy is not None,
                parts=in_parts,
            )

        setting = overrides.get("overwrite", options_of(preset).overwrite)
        try:
            if parts == 1:
                return planned(route(net))
            if parts is not None:
                check_parts(parts, net, costs)
                if isinstance(policy, str) and policy in POLICIES:
                    raise ValueError(
                        f"policy {policy!r} does not plan parts: omit them"
                    )
                chosen = split(net, parts, setting)
                return planned(chosen.route, chosen.parts)
            try:
                return planned(route(net))
            except OutOfMemory as error:
                free = policy is None and preset in (None, JOINT) and costs is None
                if not free or overrides.keys() - {"overwrite", "algorithms"}:
                    raise
                fewest: Split | None = None
                for fewest in splits(net, setting):
                    if fewest.least <= error.available:
                        with suppress(OutOfMemory):
                            return planned(fewest.route, fewest.parts)
                if fewest is None:
                    raise
                return planned(fewest.route, fewest.parts)  # says what would fit
        except OutOfMemory as error:
            error = error.under(overrides.get("host_capacity"))
            error = error.beside(fixed, limit or 0)
            if preset != JOINT and overrides.get("host_capacity") is None:
                error = error.unless_joint(least_of_joint(net))
            raise error from None


def least_of_joint(net: Net) -> int:
    """Return the fewest bytes in which the preset "joint" has a plan, all layers whole.

    The memory of the host has no limit.
    """
    made = prepared(net, JOINT)
    bound = lower_bound(overwrite(route(made), options_of(JOINT).overwrite))
    return bound + sum(resident(made).values())


def prepared(net: Net, preset: str | None) -> Net:
    """Return the net under the options that a preset needs."""
    needed = NET_OPTIONS.get(preset or "")
    return net.with_options(*needed) if needed else net


def options_of(preset: str | None) -> Options:
    """Return the options of a preset; without one those of the quickest plan.

    Raises ValueError if there is none of the name.
    """
    if preset in (None, JOINT):
        return Options(overwrite="activations") if preset == JOINT else Options()
    if preset not in PRESETS:
        raise ValueError(f"no preset {preset!r}: {', '.join(PRESET_NAMES)}")
    return PRESETS[preset]


def plan_route(
    whole: Plan,
    costs: Costs,
    preset: str | None,
    policy: str | Policy | None,
    capacity: int | None,
    effort: float,
    overrides: Overrides,
) -> tuple[str, Options, Plan]:
    """Plan a route. Returns the planner's name, the options, and the plan.

    capacity  bytes for what is scheduled; the rest as for ``plan``
    """
    if policy is not None:
        taken = [name for name in ("recompute", "transfers") if name in overrides]
        if taken and policy in POLICIES:
            raise ValueError(
                f"policy {policy!r} decides itself what is computed again and what is "
                f"copied: omit {' and '.join(taken)}"
            )
        own = replace(_options(policy), capacity=capacity, slab=capacity)
        options = replace(own, **overrides)
        return _name(policy), options, by_policy(whole, policy, options, costs)
    if preset is None and capacity is not None:
        options, made = least_time(whole, costs, capacity, effort=effort, **overrides)
        return "least time", options, made
    if preset == JOINT:
        over: Overrides = {"overwrite": options_of(JOINT).overwrite, **overrides}
        if capacity is None:  # the least that there is a plan for, under these options
            capacity = lower_bound(overwrite(whole, over["overwrite"]))
            try:
                least_time(whole, costs, capacity, effort=effort, **over)
            except OutOfMemory as error:
                if error.step == "the host":
                    raise
                capacity = error.least
        options, made = least_time(whole, costs, capacity, effort=effort, **over)
        return JOINT, options, made
    preset = preset or "superneurons"
    own = options_of(preset)
    options = replace(own, capacity=capacity, slab=capacity, **overrides)
    return preset, options, schedule(whole, options, costs)


def by_policy(
    whole: Plan, policy: str | Policy, options: Options, costs: Costs
) -> Plan:
    """Return the plan of a policy: allocated and placed if it is not, and verified.

    Raises OutOfMemory if it does not fit, InvalidPlan if it computes something else,
    and ValueError if the planner fails, or returns no plan.
    """
    name = _name(policy)
    if isinstance(policy, str) and policy in POLICIES:
        # They expect that a tensor which forward wrote holds that value throughout,
        # that the backward of a layer is one run, and that updates come last.
        if options.overwrite == "activations":
            raise NotApplicable(
                f"policy {name!r} does not overwrite activations: overwrite must be "
                "never or gradients"
            )
        if any(t.kind == "merged_gradient" for run in whole.runs() for t in run.writes):
            raise NotApplicable(
                f"policy {name!r} does not plan under the declarations 'reuse' and "
                "'static': they must be original or lean"
            )
        made = POLICIES[policy].plan(whole, options, costs)
    else:
        function = _imported(policy) if isinstance(policy, str) else policy
        with blamed(name, "policy"):
            made = function(whole, options, costs)
    if not isinstance(made, Plan):
        kind = type(made).__name__
        raise ValueError(f"policy {name!r}: must return a Plan, returned {kind}")
    made = _checked(made, name)
    if not made.of(Alloc):
        made = free_dead(made)
    verify(made, whole)
    check_host(made, options.host_capacity)
    if any(step.offset is None for step in made.of(Alloc)):
        made = place(made, options.slab)
    limit = options.limit
    if limit is not None and extent(made) > limit:
        raise OutOfMemory(f"the plan of {name}", extent(made), limit, extent(made))
    verify(made, whole, slab=options.slab, host_capacity=options.host_capacity)
    return made


def _options(policy: str | Policy) -> Options:
    """Return the options that hold for a policy if none are given."""
    if not isinstance(policy, str) or policy not in POLICIES:
        return Options()
    known = POLICIES[policy]
    return Options(overwrite=known.overwrite, algorithms=known.algorithms)


def _imported(policy: str) -> Policy:
    """Return the function that is named. Raises ValueError if there is none."""
    if policy in PRESET_NAMES:
        raise ValueError(f"{policy!r} is a preset, not a policy: --preset {policy}")
    if ":" not in policy:
        raise ValueError(
            f"no policy {shortened(policy)}: {', '.join(POLICIES)}, or MODULE:FUNCTION"
        )
    return imported(policy, "policy")


def _checked(made: Plan, name: str) -> Plan:
    """Return the plan, its steps as a tuple; raise ValueError unless all are steps."""
    if not isinstance(made.steps, Sequence):
        kind = type(made.steps).__name__
        raise ValueError(f"policy {name!r}: the steps must be a tuple, not {kind}")
    for index, step in enumerate(made.steps):
        where = f"policy {name!r}: steps[{index}]"
        if type(step) not in get_args(Step):
            raise ValueError(f"{where} is no step but {type(step).__name__}")
        if isinstance(step, Run):
            continue
        if not isinstance(step.tensor, Tensor):
            raise ValueError(f"{where} has no Tensor but {type(step.tensor).__name__}")
        if isinstance(step, Alloc) and type(step.offset) not in (int, NoneType):
            said = shortened(step.offset)
            raise ValueError(f"{where}: the offset must be an int or None, not {said}")
    return Plan(tuple(made.steps))


def _name(policy: str | Policy) -> str:
    if isinstance(policy, str):
        return policy
    return getattr(policy, "__name__", type(policy).__name__)
