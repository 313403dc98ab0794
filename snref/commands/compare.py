"""``snref compare``: presets, policies and plans side by side, and the paper beside."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import snref
from snref.commands import arguments as shared
from snref.commands.progress import Progress
from snref.commands.tables import Table, put
from snref.net import Net
from snref.papers import Claim, Number, numbers
from snref.planning.candidates import (
    LEAST_TIME,
    SAVINGS,
    VARIATIONS,
    Answer,
    Candidate,
    candidate,
    candidates,
    from_file,
    moved,
    variations,
)
from snref.planning.planned import NET_OPTIONS
from snref.planning.reports import COUNTS, PlannedNet
from snref.plans import OutOfMemory, extent
from snref.policies import POLICIES, NotApplicable
from snref.scheduler import PRESETS
from snref.scheduler.placement import place
from snref.support.units import mebibytes

EXAMPLE = "snref compare alexnet --batch 200"
DEMAND = ("speed-centric", "memory-centric", "superneurons")
MIB = 2**20

_Beside: TypeAlias = tuple[Number, Claim]

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


CONFIRMED = (
    "derived: by hand from shapes, and recalled; recalled: without its text at hand"
)
FIRST_FIT = "first fit: the extent if each tensor takes the first place that is free"
MEASURED: Mapping[str, Callable[[PlannedNet], float]] = {  # of the papers' numbers
    "peak": lambda made: made.peak_bytes / MIB,
    "extra forwards": lambda made: made.extra_forwards,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser, several=True)
    shared.add_policies(
        parser, "all policies but the optima, which search long; presets always"
    )
    shared.add_vary(parser)
    shared.add_memory(parser)
    shared.add_machine(parser)
    shared.add_tables(parser, "the table")


def run(arguments: argparse.Namespace) -> int:
    shared.check_vary(arguments)
    if arguments.plan and len(arguments.net) > 1:
        raise ValueError("--plan is a plan for one net: name one NET")
    nets = [shared.net_of(arguments, name) for name in arguments.net]
    asked = [_asked(arguments, net) for net in nets]
    with Progress("compare", sum(map(len, asked))) as progress:
        answered = [
            _Compared(arguments, net, wanted, progress)
            for net, wanted in zip(nets, asked, strict=True)
        ]
    texts: list[str] = []
    rows: list[tuple[Any, ...]] = []
    reports: list[dict[str, Any]] = []
    columns = _columns(arguments)
    for name, net, compared in zip(arguments.net, nets, answered, strict=True):
        table = Table(columns, [*compared.rows()])
        paper = _paper(arguments, name, net, compared.answers)
        texts.append(_text(compared, table, paper, arguments.memory))
        reports.append(_report(compared, paper))
        several = (net.name, net.batch) if len(nets) > 1 else ()
        rows += [(*several, *row) for row in table.rows]
    if len(nets) > 1:
        columns = ("net", "batch", *columns)
        report = {
            "schema": "snref.comparisons/1",
            "snref_version": snref.__version__,
            "comparisons": reports,
        }
    else:
        report = reports[0]
    put(arguments, "\n\n\n".join(texts), Table(columns, rows), report)
    return 0


def _asked(arguments: argparse.Namespace, net: Net) -> list[Candidate]:
    """Return what is compared: presets, those on demand, policies, plans, the best.

    Presets that need other declarations than the net's are compared by name.
    """
    own = [name for name in PRESETS if name not in NET_OPTIONS]
    asked = {name: Candidate(name, {"preset": name}) for name in own}
    for name in DEMAND:
        given = {"preset": name, "transfers": "demand"}
        asked[f"{name}, demand"] = Candidate(f"{name}, demand", given)
    if arguments.policy:
        asked |= candidates(arguments.policy)
    else:
        names = (name for name, known in POLICIES.items() if not known.is_optimum)
        asked |= {name: candidate(name) for name in names}
    asked |= {path: from_file(path, net) for path in arguments.plan}
    asked.pop(LEAST_TIME, None)
    if arguments.memory is not None:
        asked[LEAST_TIME] = Candidate(LEAST_TIME)
    return [*asked.values()]


class _Compared:
    """A net's answers, and their seconds on other machines.

    answers  by the candidate's name
    savings  likewise: the four options
    varied   for each variation of the machine, the seconds by the candidate's name
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        net: Net,
        asked: Sequence[Candidate],
        progress: Progress,
    ) -> None:
        self.net = net
        common = shared.common(arguments)
        limits = {
            "memory": arguments.memory,
            "host_memory": arguments.host_memory,
            "device": arguments.device,
            **common,
        }
        costs = shared.costs_of(arguments)
        self.answers: dict[str, Answer] = {}
        self.savings: dict[str, dict[str, str | None]] = {}
        machines = dict(variations(arguments.device)) if arguments.vary else {}
        self.varied: dict[str, dict[str, float | None]] = {v: {} for v in machines}
        for each in asked:
            progress.show(f"{net.name}: {each.name}")
            answer = each.answer(net, costs=costs, **limits)
            self.answers[each.name] = answer
            self.savings[each.name] = each.savings(net, answer, **common)
            for variant, machine in machines.items():
                seconds = seconds_of(each.answer(net, machine, **limits))
                self.varied[variant][each.name] = seconds

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table."""
        seconds = {name: seconds_of(answer) for name, answer in self.answers.items()}
        best = seconds.get(LEAST_TIME)
        changed = {v: moved(seconds, other) for v, other in self.varied.items()}
        for name, answer in self.answers.items():
            alike = self.savings[name] == self.savings.get(LEAST_TIME)
            here = seconds[name]
            ratio = (here / best,) if here and best and alike else (None,)
            yield (
                *_row(name, answer),
                *(ratio if LEAST_TIME in self.answers else ()),
                *self.savings[name].values(),
                *(
                    marked(other[name], name in changed[variant])
                    for variant, other in self.varied.items()
                ),
            )


def _columns(arguments: argparse.Namespace) -> tuple[str, ...]:
    ratio = ("times least time",) if arguments.memory is not None else ()
    return (*COLUMNS, *ratio, *SAVINGS, *(VARIATIONS if arguments.vary else ()))


def seconds_of(answer: Answer) -> float | None:
    """Return the modelled seconds of a plan; None if there is none."""
    return answer.timeline.seconds if isinstance(answer, PlannedNet) else None


def marked(seconds: float | None, changed: bool) -> str | None:
    """Print seconds, with a mark if the rank is another than on the machine itself."""
    return None if seconds is None else f"{seconds:.4g}{' *' if changed else ''}"


def _row(name: str, made: Answer) -> tuple[Any, ...]:
    """Return a row of the table, without the savings."""
    if isinstance(made, OutOfMemory):
        where = " of the host" if made.step == "the host" else ""
        least = f"does not fit: least {mebibytes(made.least)} MiB{where}"
        return (name, None, least, *(None for _ in COLUMNS[3:]))
    if isinstance(made, NotApplicable):
        return (name, None, str(made), *(None for _ in COLUMNS[3:]))
    step = made.steps[made.peak_step - 1]
    return (
        name,
        made.peak_bytes / MIB,
        f"{made.peak_step} {step.layer} {step.phase}",
        extent(made.plan) / MIB,
        extent(place(made.plan, None, "arrival")) / MIB,
        made.extra_forwards,
        made.offload_bytes / MIB,
        made.host_bytes / MIB,
        made.timeline.seconds,
        made.timeline.stall_seconds,
    )


def _text(
    compared: _Compared, table: Table, paper: Sequence[_Beside], memory: int | None
) -> str:
    net = compared.net
    shape = " x ".join(map(str, net.input_shape))
    folded, terms = table.folded(SAVINGS)
    text = (
        f"{net.name}, input {shape}; peak: {COUNTS}; seconds: modelled\n"
        f"{terms}; {FIRST_FIT}\n\n"
        f"{folded.text()}"
    )
    if idle := shared.idle(compared.answers, memory):
        text += f"\n\n{idle}"
    if compared.varied:
        text += f"\n\n{shared.VARIED}"
    if paper:
        columns = "plan", "what", "paper", "here", "confirmed", "verdict"
        rows = [
            (
                number.plan,
                _what(number),
                number.printed,
                claim.here,
                claim.confirmed,
                claim.verdict,
            )
            for number, claim in paper
        ]
        text += f"\n\nThe paper's numbers; {CONFIRMED}:\n\n"
        text += Table(columns, rows).text()
    return text


def _report(compared: _Compared, paper: Sequence[_Beside]) -> dict[str, Any]:
    return {
        "schema": "snref.comparison/1",
        "snref_version": snref.__version__,
        "net": compared.net.name,
        "batch": compared.net.batch,
        "counts": COUNTS,
        "unit": "bytes",
        "plans": {
            name: {**_entry(answer), "savings": compared.savings[name]}
            for name, answer in compared.answers.items()
        },
        **({"seconds_on_other_machines": compared.varied} if compared.varied else {}),
        "paper": [
            {
                "plan": number.plan,
                "what": _what(number),
                "paper": number.value,
                "here": claim.here,
                "explained": claim.holds,
                "confirmed": claim.confirmed,
            }
            for number, claim in paper
        ],
    }


def _entry(made: Answer) -> dict[str, Any]:
    """Return a plan's entry of the JSON."""
    if isinstance(made, NotApplicable):
        return {"fits": False, "why": str(made)}
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


def _paper(
    arguments: argparse.Namespace,
    name: str,
    net: Net,
    plans: Mapping[str, Answer],
) -> list[_Beside]:
    """Return the paper's numbers of this very net, each with ours."""
    as_original = (net.declarations, net.forks) == ("original", "copy")
    limits = {arguments.memory, arguments.host_memory}
    asked = {arguments.overwrite, arguments.algorithms}
    if not as_original or arguments.input_size not in (None, 227):
        return []
    if limits != {None} or asked != {None}:
        return []
    beside = []
    for number in numbers():
        measure = MEASURED.get(number.what)
        if measure and (number.net, number.batch) == (name, net.batch):
            made = plans[number.plan]
            assert isinstance(made, PlannedNet), "without limits, everything fits"
            beside.append((number, number.beside(measure(made))))
    return beside


def _what(number: Number) -> str:
    """Return what is counted, with its unit."""
    return f"{number.what} {number.unit}".rstrip()
