"""Seconds against the budget of memory: every planner, and the certified bound.

AlexNet, batch 200, on a virtual K40c: the seconds are a model. No plan with the same
options is below the bound (``snref/planning/bound.py``). Beside it the planners' ranks
in the middle budget, and on machines whose link or bandwidth is a quarter off. Planners
with other options, as joint and reuse, may be below it: the table names the options.

python -m figures budget --net resnet50 --batch 32
"""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.compare import seconds_of
from snref.commands.progress import Progress
from snref.commands.sweep import evenly
from snref.commands.tables import Cell, Table
from snref.net import Net
from snref.nets import find
from snref.planning.candidates import (
    LEAST_TIME,
    SAVINGS,
    VARIATIONS,
    candidate,
    variations,
)
from snref.planning.planned import PRESET_NAMES, plan
from snref.planning.reports import PlannedNet
from snref.plans import extent, lower_bound
from snref.policies import POLICIES
from snref.views import BLACK, PAGE, look

NET, BATCH = "alexnet", 200
BUDGETS = 9
DEVICE = "virtual:k40c"
PLANNERS = (*PRESET_NAMES, *POLICIES, LEAST_TIME)
HERE = "k40c"
MACHINES = (HERE, *VARIATIONS)
MIB = 2**20


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Plan AlexNet for what is not among the rows: yields a row each."""
    yield from _search(find(NET, BATCH), NET, rows)


def measure_net(name: str, batch: int | None) -> list[dict[str, Any]]:
    """Return the rows of another net."""
    return [*_search(find(name, batch), name, [])]


def _search(
    net: Net, name: str, rows: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each planner and budget: the least, to what liveness needs."""
    freed = plan(net, preset="liveness")
    least = freed.total_bytes - extent(freed.plan) + lower_bound(freed.plan)
    budgets = evenly(least, freed.total_bytes, BUDGETS)
    done = {(row["planner"], row["memory_bytes"]) for row in rows}
    todo = [(p, m) for p in PLANNERS for m in budgets if (p, m) not in done]
    machines = dict(variations(DEVICE))
    with Progress("budget", len(todo)) as progress:
        for planner, memory in todo:
            progress.show(f"{name}, {planner}, {memory / MIB:.0f} MiB")
            asked = candidate(planner)
            answer = asked.answer(net, memory=memory, device=DEVICE)
            varied: dict[str, float | None] = dict.fromkeys(machines)
            if not (planner in POLICIES and POLICIES[planner].is_optimum):
                varied = {
                    title: seconds_of(asked.answer(net, other, memory=memory))
                    for title, other in machines.items()
                }
            bound: float | None = None
            if planner == LEAST_TIME and isinstance(answer, PlannedNet):
                bound = answer.bound_seconds
            yield {
                "net": name,
                "batch": net.batch,
                "planner": planner,
                "memory_bytes": memory,
                f"seconds {HERE}": _rounded(seconds_of(answer)),
                **{f"seconds {m}": _rounded(s) for m, s in varied.items()},
                "bound_seconds": _rounded(bound),
                **asked.savings(net, answer),
            }


def _rounded(seconds: float | None) -> float | str:
    return "" if seconds is None else round(seconds, 6)


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return seconds by planner and budget, and the ranks in the middle budget."""
    budgets = _budgets(rows)
    lines: list[tuple[Cell, ...]] = []
    for planner in _planners(rows):
        of_it = {r["memory_bytes"]: r for r in rows if r["planner"] == planner}
        cells = [_cell(of_it[m], HERE) if m in of_it else "not run" for m in budgets]
        lines.append(
            (planner, *cells, *(next(iter(of_it.values()))[s] for s in SAVINGS))
        )
    bound = _bound(rows)
    lines.append(("bound", *(f"{bound[m]:.3f}" if m in bound else "" for m in budgets)))
    lines[-1] = (*lines[-1], *("" for _ in SAVINGS))
    heads = (f"{memory / MIB:.0f}" for memory in budgets)
    middle = _middle(rows)
    ranks = Table(
        ("planner", *MACHINES),
        [
            (planner, *(found[planner] for found in _ranks(rows, middle)))
            for planner in _ranks(rows, middle)[0]
        ],
    )
    return (
        "modelled seconds by MiB of device memory; empty: no plan\n\n"
        f"{Table(('planner', *heads, *SAVINGS), lines).text()}\n\n"
        f"ranks in {middle / MIB:.0f} MiB\n\n{ranks.text()}"
    )


def _cell(row: dict[str, Any], machine: str) -> str:
    seconds = row[f"seconds {machine}"]
    return "" if seconds == "" else f"{seconds:.3f}"


def _budgets(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted({row["memory_bytes"] for row in rows})


def _planners(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [*dict.fromkeys(row["planner"] for row in rows)]


def _middle(rows: Sequence[dict[str, Any]]) -> int:
    return _budgets(rows)[len(_budgets(rows)) // 2]


def _kept(rows: Sequence[dict[str, Any]]) -> str:
    """Say how many planners keep their rank on all machines."""
    ranks = _ranks(rows, _middle(rows))
    kept = sum(len({found[planner] for found in ranks}) == 1 for planner in ranks[0])
    return f"{kept} of {len(ranks[0])} planners keep their rank"


def _bound(rows: Sequence[dict[str, Any]]) -> dict[int, float]:
    """Return the certified bound by budget."""
    return {
        row["memory_bytes"]: row["bound_seconds"]
        for row in rows
        if row["bound_seconds"] != ""
    }


def _ranks(rows: Sequence[dict[str, Any]], memory: int) -> list[dict[str, int]]:
    """Return for each machine the planners' ranks, from 1.

    Of those that have a plan on all of them: the optima are planned for one only.
    """
    seconds = {
        row["planner"]: [row[f"seconds {machine}"] for machine in MACHINES]
        for row in rows
        if row["memory_bytes"] == memory
    }
    seconds = {p: found for p, found in seconds.items() if "" not in found}
    return [
        {
            planner: rank
            for rank, planner in enumerate(
                sorted(seconds, key=lambda planner: seconds[planner][number]), 1
            )
        }
        for number in range(len(MACHINES))
    ]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw seconds over memory beside the ranks in the middle budget."""
    figure = Figure(figsize=(PAGE, 3.9))
    axes, ranks = figure.subplots(1, 2, width_ratios=(2.2, 1))
    for planner in _planners(rows):
        points = [
            (row["memory_bytes"] / MIB, row[f"seconds {HERE}"])
            for row in rows
            if row["planner"] == planner and row[f"seconds {HERE}"] != ""
        ]
        if not points:
            continue
        wide = 2.2 if planner == LEAST_TIME else 1.0
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linewidth=wide,
            label=planner,
            **look(planner),
        )
    bound = _bound(rows)
    sizes = [memory / MIB for memory in sorted(bound)]
    least = [bound[memory] for memory in sorted(bound)]
    low = 0.9 * min(least, default=0)
    axes.fill_between(
        sizes, low, least, color="#dddddd", label="below the bound for least time"
    )
    axes.set_ylim(bottom=low)
    axes.set_xlabel("MiB of device memory, parameters and all")
    axes.set_ylabel("seconds of an iteration (model)")
    axes.set_title(f"{rows[0]['net']}, batch {rows[0]['batch']}, virtual K40c")
    middle = _middle(rows)
    found = _ranks(rows, middle)
    markers = ("|", "<", ">", "v", "^")
    for machine, ranked, marker in zip(MACHINES, found, markers, strict=True):
        ranks.plot(
            [*ranked.values()],
            [found[0][planner] for planner in ranked],
            marker,
            color=BLACK,
            markerfacecolor="none",
            markersize=8 if machine == HERE else 4,
            label=machine,
        )
    ranks.set_yticks([*found[0].values()], [*found[0]])
    ranks.set_xticks(range(1, len(found[0]) + 1, 2))
    ranks.invert_yaxis()
    ranks.set_xlabel(f"rank in {middle / MIB:.0f} MiB")
    ranks.legend(loc="upper right", handletextpad=0.2)
    ranks.set_title("ranks on other machines")
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6)
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    bound = _bound(rows)
    middle = _middle(rows)
    ratios = [
        row[f"seconds {HERE}"] / bound[row["memory_bytes"]]
        for row in rows
        if row["planner"] == LEAST_TIME and row["memory_bytes"] in bound
    ]
    return (
        f"Modelled seconds of an iteration of {rows[0]['net']}, batch "
        f"{rows[0]['batch']}, over the memory it may use: the plan of least time is "
        f"between {min(ratios):.3f} and {max(ratios):.3f} times the certified "
        f"bound. In {middle / MIB:.0f} MiB, {_kept(rows)} when link or bandwidth is a "
        "quarter off. Planners with other options may be below that bound"
        f"{f', here {lower}' if (lower := _below(rows)) else ''}: joint and reuse also "
        "leave out the gradient of the images, which nothing reads."
    )


def _below(rows: Sequence[dict[str, Any]]) -> str:
    """Name the planners whose curve goes below the bound for least time."""
    bound = _bound(rows)
    found = dict.fromkeys(
        row["planner"]
        for row in rows
        if row["memory_bytes"] in bound
        and row[f"seconds {HERE}"] != ""
        and row[f"seconds {HERE}"] < bound[row["memory_bytes"]]
    )
    return " and ".join(found)
