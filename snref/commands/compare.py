"""``snref compare``: every preset side by side, and the paper's numbers beside ours."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import snref
from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.net import Net
from snref.planning.planned import plan
from snref.planning.quickest import Overrides
from snref.planning.reports import COUNTS, PlannedNet
from snref.plans import OutOfMemory, extent
from snref.scheduler import PRESETS
from snref.scheduler.placement import place
from snref.support.garbage import no_garbage_collection
from snref.support.units import mebibytes

EXAMPLE = "snref compare alexnet --batch 200"
DEMAND = ("speed-centric", "memory-centric", "superneurons")

COLUMNS = (
    "plan",
    "peak MiB",
    "at step",
    "extent MiB",
    "first fit MiB",
    "extra forwards",
    "copied out MiB",
    "host MiB",
    "seconds",
    "waiting",
)


@dataclass(frozen=True)
class Claim:
    """A number of the SuperNeurons paper, recalled without its text at hand.

    explained: whether the paper's nets and rules, derived by hand, give all digits of
    it. Those that are not explained are shown, and nothing is fitted to them.
    """

    plan: str
    what: str  # "peak MiB" or "extra forwards"
    number: float
    explained: bool = True


_PEAK, _AGAIN = "peak MiB", "extra forwards"
ALEXNET = (
    Claim("baseline", _PEAK, 2189.437),
    Claim("liveness", _PEAK, 1489.355),
    Claim("offload", _PEAK, 1132.155, explained=False),
    Claim("speed-centric", _PEAK, 993.018),
    Claim("memory-centric", _PEAK, 886.23),
    Claim("superneurons", _PEAK, 886.23),  # in its table of strategies
    Claim("superneurons", _PEAK, 886.385, explained=False),  # in its figure by step
    Claim("speed-centric", _AGAIN, 14),
    Claim("memory-centric", _AGAIN, 23),
    Claim("superneurons", _AGAIN, 17),
)


def _resnet(speed: int, memory: int, cost: int) -> tuple[Claim, ...]:
    """Both ResNets have the same peaks: those of their first layers."""
    return (
        Claim("speed-centric, demand", _PEAK, 455.125),
        Claim("memory-centric, demand", _PEAK, 401, explained=False),
        Claim("superneurons, demand", _PEAK, 401, explained=False),
        Claim("speed-centric, demand", _AGAIN, speed),
        Claim("memory-centric, demand", _AGAIN, memory),
        Claim("superneurons, demand", _AGAIN, cost),
    )


CLAIMS: Mapping[tuple[str, int], tuple[Claim, ...]] = {  # by net and batch
    ("alexnet", 200): ALEXNET,
    ("resnet50", 32): _resnet(84, 118, 85),
    ("resnet101", 32): _resnet(169, 237, 170),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="another planner, to be compared, too; may be given several times",
    )
    shared.add_memory(parser)
    shared.add_machine(parser)
    shared.add_tables(parser, "the table")


def run(arguments: argparse.Namespace) -> int:
    with no_garbage_collection():
        net = shared.net_of(arguments)
        plans = dict(_plans(arguments, net))
        table = Table(COLUMNS, [_row(name, made) for name, made in plans.items()])
        claims = _claims(net, arguments) if arguments.memory is None else ()
        text = "\n".join([_heading(net), "", table.text(), *_beside(claims, plans)])
        put(
            arguments,
            text,
            table,
            _report(net, plans, claims) if arguments.json else {},
        )
    return 0


def _plans(
    arguments: argparse.Namespace, net: Net
) -> Iterator[tuple[str, PlannedNet | OutOfMemory]]:
    """Every preset, those with copies on demand, and what else was asked for."""
    costs = shared.costs_of(arguments)

    def planned(
        preset: str | None = None, policy: str | None = None, **given: Any
    ) -> PlannedNet | OutOfMemory:
        try:
            return plan(
                net,
                preset=preset,
                policy=policy,
                memory=arguments.memory,
                host_memory=arguments.host_memory,
                device=arguments.device,
                costs=costs,
                **cast(Overrides, given),
            )
        except OutOfMemory as error:
            return error

    for name in PRESETS:
        yield name, planned(name)
    for name in DEMAND:
        yield f"{name}, demand", planned(name, transfers="demand")
    for policy in arguments.policy:
        yield policy, planned(policy=policy)
    if arguments.memory is not None:
        yield "least time", planned()


def _row(name: str, made: PlannedNet | OutOfMemory) -> tuple[Any, ...]:
    if isinstance(made, OutOfMemory):
        least = f"does not fit: least {mebibytes(made.least)} MiB"
        return (name, None, least, *(None for _ in COLUMNS[3:]))
    step = made.steps[made.peak_step - 1]
    return (
        name,
        _mib(made.peak_bytes),
        f"{made.peak_step} {step.layer} {step.phase}",
        _mib(extent(made.plan)),
        _mib(extent(place(made.plan, None, "arrival"))),
        made.extra_forwards,
        _mib(made.offload_bytes),
        _mib(made.host_bytes),
        made.timeline.seconds,
        made.timeline.stall_seconds,
    )


def _mib(nbytes: int) -> float:
    return nbytes / 2**20


def _heading(net: Net) -> str:
    shape = " x ".join(map(str, net.input_shape))
    return (
        f"{net.name}, input {shape}, declarations {net.declarations}, "
        f"fork {net.forks}; peak: {COUNTS}; seconds: modelled"
    )


def _claims(net: Net, arguments: argparse.Namespace) -> tuple[Claim, ...]:
    """The paper's numbers that this very net is about."""
    as_original = net.declarations == "original" and net.forks == "copy"
    if not as_original or arguments.input_size not in (None, 227):
        return ()
    return CLAIMS.get((arguments.net, net.batch), ())


def _ours(claim: Claim, plans: Mapping[str, PlannedNet | OutOfMemory]) -> float:
    made = plans[claim.plan]
    assert isinstance(made, PlannedNet), "claims are compared without a budget"
    if claim.what == _AGAIN:
        return made.extra_forwards
    return made.peak_bytes / 2**20


def _beside(
    claims: tuple[Claim, ...], plans: Mapping[str, PlannedNet | OutOfMemory]
) -> Iterator[str]:
    """The lines that put the paper's numbers beside ours."""
    if not claims:
        return
    rows = [
        (
            claim.plan,
            claim.what,
            str(claim.number),
            _ours(claim, plans),
            "all digits agree" if claim.explained else "not explained, not fitted",
        )
        for claim in claims
    ]
    yield "\nThe paper's numbers as they are remembered, without its text at hand:\n"
    yield Table(("plan", "what", "paper", "here", "verdict"), rows).text()


def _report(
    net: Net,
    plans: Mapping[str, PlannedNet | OutOfMemory],
    claims: tuple[Claim, ...],
) -> dict[str, Any]:
    def entry(made: PlannedNet | OutOfMemory) -> dict[str, Any]:
        if isinstance(made, OutOfMemory):
            return {
                "fits": False,
                "step": made.step,
                "needed_bytes": made.needed,
                "available_bytes": made.available,
                "least_bytes": made.least,
            }
        first_fit = extent(place(made.plan, None, "arrival"))
        return {"fits": True, "first_fit_extent_bytes": first_fit, **made.to_json()}

    return {
        "schema": "snref.comparison/1",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "counts": COUNTS,
        "unit": "bytes",
        "plans": {name: entry(made) for name, made in plans.items()},
        "paper": [
            {
                "plan": claim.plan,
                "what": claim.what,
                "paper": claim.number,
                "here": _ours(claim, plans),
                "explained": claim.explained,
            }
            for claim in claims
        ],
    }
