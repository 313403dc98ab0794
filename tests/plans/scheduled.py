"""Plans of the scheduler for random nets, made in every way that it knows."""

from collections.abc import Callable
from dataclasses import replace

from snref.layers.base import Declarations
from snref.net import route as route_of
from snref.nets import random_net
from snref.parts import cut, groups, route_in_parts
from snref.plans import Algorithm, Choice, Plan, Step, lower_bound, memory
from snref.scheduler import PRESETS, Options, schedule
from snref.scheduler.options import Overwrite
from snref.timing.costs import Costs

DEMAND = {
    f"{name} on demand": replace(PRESETS[name], transfers="demand")
    for name in ("speed-centric", "memory-centric", "superneurons")
}
NEVER = {"never in place": replace(PRESETS["superneurons"], overwrite="never")}
OPTIONS: dict[str, Options] = {**PRESETS, **DEMAND, **NEVER}


def scratch(nbytes: int, order: str = "taps") -> Algorithm:
    """An algorithm that needs so many bytes of workspace."""
    return Algorithm(f"scratch{nbytes}", order, nbytes, 1, 1, lambda y, x, w, s: ())


def with_workspaces(route: Plan) -> tuple[Plan, Costs]:
    """The route with a faster algorithm, at the cost of scratch, per convolution."""
    seconds = {}
    steps: list[Step] = []
    for run in route.runs():
        work = list(run.work)
        for i, choice in enumerate(work):
            if isinstance(choice, Choice):
                menu = (choice.chosen, scratch(choice.output.nbytes))
                work[i] = replace(choice, algorithms=menu)
                for algorithm, time in zip(menu, (2.0, 1.0), strict=True):
                    seconds[run.layer, choice.part, algorithm.name] = time
        steps.append(run.with_work(tuple(work)))
    return Plan(tuple(steps)), Costs("test", {}, seconds, 1e9, 1e9)


def cached(
    route: Plan,
    share: float,
    costs: Costs | None = None,
    over: Overwrite = "gradients",
) -> Plan:
    """Under a tensor cache, between the least memory (0) and what is needed (1)."""
    options = replace(PRESETS["cache"], overwrite=over)
    plenty = schedule(route, options)
    least, peak = lower_bound(plenty), max(memory(plenty, workspace=True))
    budget = round(least + share * (peak - least))
    options = replace(options, capacity=budget, slab=budget)
    return schedule(route, options, costs)


def scheduled(options: Options) -> Callable[[Plan, Costs], Plan]:
    return lambda route, costs: schedule(route, options)


WAYS: dict[str, Callable[[Plan, Costs], Plan]] = {
    **{name: scheduled(options) for name, options in OPTIONS.items()},
    "workspaces": lambda route, costs: schedule(route, OPTIONS["superneurons"], costs),
    "cache, least": lambda route, costs: cached(route, 0.0),
    "cache, half": lambda route, costs: cached(route, 0.5),
    "cache, half, workspaces": lambda route, costs: cached(route, 0.5, costs),
}

OVER_ACTIVATIONS: dict[str, Callable[[Plan, Costs], Plan]] = {
    **{
        name: scheduled(replace(PRESETS[name], overwrite="activations"))
        for name in ("baseline", "speed-centric", "memory-centric")
    },
    "cache, least": lambda route, costs: cached(route, 0.0, costs, "activations"),
}


def a_route_in_parts(
    seed: int, declarations: Declarations, count: int
) -> tuple[Plan, Costs]:
    """The route of a random net of which all layers that can run in so many parts."""
    net = random_net(seed).with_batch(64).with_options(declarations=declarations)
    split = [(group, cut(net, group, count)) for group in groups(net, count)]
    return with_workspaces(route_in_parts(net, split))


def a_route(seed: int, declarations: Declarations) -> tuple[Plan, Costs]:
    net = random_net(seed).with_options(declarations=declarations)
    return with_workspaces(route_of(net))
