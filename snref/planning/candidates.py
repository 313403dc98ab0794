"""Candidates: plans that are compared, of presets, policies, files and the quickest.

A comparison means something only beside the savings that each planner had. So every
answer comes with four options: declarations, fork, overwrite and algorithms.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from snref.net import Net, route
from snref.planning.exchange import parsed_json, plan_from_json
from snref.planning.planned import PRESET_NAMES, options_of, plan, prepared
from snref.planning.reports import PlannedNet
from snref.plans import Launch, OutOfMemory, Plan
from snref.policies import POLICIES, NotApplicable
from snref.scheduler import Options
from snref.support.files import read
from snref.support.units import shortened
from snref.timing import roofline
from snref.timing.costs import Costs
from snref.timing.roofline import Machine

LEAST_TIME = "least time"
SAVINGS = ("declarations", "fork", "overwrite", "algorithms")
_LINK, _BANDWIDTH = ("to_host", "to_device"), ("bandwidth",)
VARIATIONS: Mapping[str, tuple[Sequence[str], float]] = {  # of a machine's numbers
    "link x 0.75": (_LINK, 0.75),
    "link x 1.25": (_LINK, 1.25),
    "bandwidth x 0.75": (_BANDWIDTH, 0.75),
    "bandwidth x 1.25": (_BANDWIDTH, 1.25),
}
TIE = 1e-3  # seconds that differ by less than this share have the same rank

Answer: TypeAlias = PlannedNet | OutOfMemory | NotApplicable


@dataclass(frozen=True)
class Candidate:
    """A way to plan a net, by the arguments of ``plan`` that ask for it."""

    name: str
    given: Mapping[str, Any] = field(default_factory=dict)

    def answer(self, net: Net, machine: Machine | None = None, **limits: Any) -> Answer:
        """Plan a net, all layers whole; return why there is no plan if it does not fit.

        machine  whose roofline models the time, in place of limits["costs"]
        """
        net = prepared(net, self.given.get("preset"))
        if machine is not None:
            limits["costs"] = roofline.costs(route(net), machine)
        try:
            return plan(net, **{"parts": 1, **limits, **self.given})
        except (OutOfMemory, NotApplicable) as error:
            return error

    def savings(self, net: Net, answer: Answer, **common: Any) -> dict[str, str | None]:
        """Return the four options. Of an unknown planner, those that its plan uses."""
        preset, policy = self.given.get("preset"), self.given.get("policy")
        net = prepared(net, preset)
        found: dict[str, str | None] = {"declarations": net.declarations}
        found["fork"] = net.forks
        if policy is None:
            options = replace(options_of(preset), **common)
            found |= {"overwrite": options.overwrite, "algorithms": options.algorithms}
        elif policy in POLICIES:
            known = POLICIES[policy]
            found |= {"overwrite": known.overwrite, "algorithms": known.algorithms}
            found |= common
        else:
            used = _used(answer) if isinstance(answer, PlannedNet) else (None, None)
            found["overwrite"], found["algorithms"] = used
        return found


def _used(planned: PlannedNet) -> tuple[str, str]:
    """Return the options of overwrite and algorithms that a plan needs at the least."""
    origin = {(run.layer, run.phase): run for run in planned.route.runs()}
    by_gradients = {  # what the setting "gradients" overwrites, too: a softmax's y
        target
        for run in origin.values()
        for piece in run.work
        if isinstance(piece, Launch)
        for _, target, setting in piece.may_overwrite
        if setting == "gradients"
    }
    overwrite, algorithms = "never", {"none"}
    for run in planned.plan.runs():
        theirs = origin[run.layer, run.phase]
        over = {*run.writes} - {*theirs.writes}
        if any(t.kind == "activation" and t not in by_gradients for t in over):
            overwrite = "activations"
        elif over and overwrite == "never":
            overwrite = "gradients"
        for choice in run.choices:
            first = choice.algorithms[0]
            if choice.chosen is not first:
                same = choice.chosen.order == first.order
                algorithms.add("exact" if same else "fastest")
    return overwrite, next(a for a in ("fastest", "exact", "none") if a in algorithms)


def candidate(name: str) -> Candidate:
    """Return the candidate of a name: a preset, a policy, least-time, MODULE:FUNCTION.

    Raises ValueError that lists the names.
    """
    if name in PRESET_NAMES:
        return Candidate(name, {"preset": name})
    if name in POLICIES or ":" in name:
        return Candidate(name, {"policy": name})
    if name.replace("-", " ") == LEAST_TIME:
        return Candidate(LEAST_TIME)
    names = ", ".join((*PRESET_NAMES, *POLICIES))
    raise ValueError(
        f"no preset or policy {shortened(name)}: {names}, least-time, or "
        "MODULE:FUNCTION"
    )


def candidates(texts: Sequence[str]) -> dict[str, Candidate]:
    """Return the candidates of lists of names with commas; "all" is every policy."""
    found: dict[str, Candidate] = {}
    for name in ",".join(texts).split(","):
        names = POLICIES if name.strip() == "all" else (name.strip(),)
        for each in names:
            made = candidate(each)
            found[made.name] = made
    return found


def from_file(path: str, net: Net) -> Candidate:
    """Return the plan in a JSON file. Raises ValueError if it is for another net."""
    there = parsed_json(read(path), path)
    here = {"net": net.name, "batch": net.batch}
    here |= {"declarations": net.declarations, "fork": net.forks}
    told = dict[str, Any]()
    for part in (there, there.get("options")) if isinstance(there, dict) else ():
        if isinstance(part, dict):
            told |= {what: part[what] for what in here if what in part}
    for what, value in told.items():
        if value is not None and value != here[what]:
            raise ValueError(
                f"{path}: is for {what} {shortened(value)}, this net has {here[what]!r}"
            )
    plan_from_json(there, route(net), path)  # before any other plan is made

    def planner(whole: Plan, options: Options, costs: Costs) -> Plan:
        """Return the plan of the file, whatever the options are."""
        return plan_from_json(there, whole, path)

    planner.__name__ = path
    return Candidate(path, {"policy": planner})


def variations(device: str) -> Iterator[tuple[str, Machine]]:
    """Yield the machine with its link, or its bandwidth, a quarter off."""
    machine = roofline.machine(device)
    for name, (numbers, factor) in VARIATIONS.items():
        varied = {number: factor * getattr(machine, number) for number in numbers}
        yield name, replace(machine, **varied)


def moved(
    before: Mapping[str, float | None], after: Mapping[str, float | None]
) -> set[str]:
    """Return the names that another one has overtaken, or that overtook another.

    Seconds that are nearly equal, or that are missing on one side, change no rank.

    >>> sorted(moved({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 3.5, "c": 3.0}))
    ['b', 'c']
    """
    found: set[str] = set()
    names = [n for n in before if before[n] is not None and after.get(n) is not None]
    for name in names:
        for other in names:
            if _less(before[name], before[other]) and _less(after[other], after[name]):
                found |= {name, other}
    return found


def _less(left: float | None, right: float | None) -> bool:
    return left is not None and right is not None and left < right * (1 - TIE)
