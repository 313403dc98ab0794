"""How long the stages of the scheduler take, over four depths of a ResNet.

Seconds of one core, for the preset superneurons: the best of several rounds. The four
nets have the same first and last stages, and twice as many blocks each as the one
before. Nothing here is a test: seconds are a fact about a machine.

python -m figures planning_time --measure long
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from snref.commands.tables import Cell, Table
from snref.net import route
from snref.nets import find
from snref.planning.planned import plan
from snref.plans import memory
from snref.plans.verification import verify
from snref.scheduler import PRESETS
from snref.scheduler.algorithms import choose_algorithms
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.offloading import offload
from snref.scheduler.placement import place
from snref.scheduler.recomputation import recompute
from snref.support.garbage import no_garbage_collection
from snref.timing import roofline
from snref.views import PAGE

BLOCKS = 98, 197, 394, 788  # of the third stage; 788: ResNet2500
ROUNDS = 3
PRESET = "superneurons"
COLOURS = 8  # of the style


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Time the stages of each net: yields a row a stage, with a column a depth.

    All are timed in one run. So none is if there are rows.
    """
    if rows:
        return
    best = [_times(blocks) for blocks in BLOCKS]
    for _ in range(ROUNDS - 1):
        for blocks, found in zip(BLOCKS, best, strict=True):
            for stage, seconds in _times(blocks).items():
                found[stage] = min(found[stage], seconds)
    for stage in best[0]:
        yield {
            "stage": stage,
            **{
                f"blocks_{blocks}": round(found[stage], 4)
                for blocks, found in zip(BLOCKS, best, strict=True)
            },
        }


def _times(blocks: int) -> dict[str, float]:
    """Seconds of each stage, and of all that the command snref plan does."""
    found: dict[str, float] = {}
    options = PRESETS[PRESET]

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        made = work()
        found[stage] = time.process_time() - start
        return made

    name = f"resnet:6,32,{blocks},6"
    with no_garbage_collection():
        net = timed("net", lambda: find(name, batch=1))
        whole = timed("route", lambda: route(net))
        machine = roofline.machine("virtual:k40c")
        costs = timed("costs", lambda: roofline.costs(whole, machine))
        made = timed("in place", lambda: overwrite(whole, options.overwrite))
        made = timed("recomputation", lambda: recompute(made, "cost-aware"))
        made = timed("offloading", lambda: offload(made, "offload", 1))
        made = timed("liveness", lambda: free_dead(made))
        peak = timed("peak", lambda: max(memory(made, workspace=True)))
        made = timed(
            "algorithms",
            lambda: choose_algorithms(made, peak, costs, options.algorithms),
        )
        made = timed("placement", lambda: place(made))
        timed("verification", lambda: verify(made, whole))
        planned = plan(find(name, batch=1), preset=PRESET)
        timed("summary", planned.summary)
    timed("all", lambda: plan(find(name, batch=1), preset=PRESET).summary())
    return found


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table."""
    heads = ["stage", *(f"{blocks} blocks" for blocks in BLOCKS)]
    lines: list[tuple[Cell, ...]] = [
        (row["stage"], *(f"{row[f'blocks_{blocks}']:.3f}" for blocks in BLOCKS))
        for row in rows
        if row["stage"] != "all"
    ]
    lines.append(("sum", *(f"{_sum(rows, blocks):.3f}" for blocks in BLOCKS)))
    lines += [
        ("all, in a run of its own", *(f"{row[f'blocks_{b}']:.3f}" for b in BLOCKS))
        for row in rows
        if row["stage"] == "all"
    ]
    said = f"seconds of resnet:6,32,N,6, batch 1, best of {ROUNDS}"
    return f"{said}\n\n{Table(heads, lines).text()}"


def _sum(rows: Sequence[dict[str, Any]], blocks: int) -> float:
    """Return the sum of all stages: where the bar ends."""
    own = (row for row in rows if row["stage"] != "all")
    return sum(float(row[f"blocks_{blocks}"]) for row in own)


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a stacked bar a depth."""
    figure = Figure(figsize=(PAGE, 2.4))
    axes = figure.subplots()
    labels = [f"{blocks} blocks" for blocks in BLOCKS]
    ends = [0.0 for _ in BLOCKS]
    for number, row in enumerate(row for row in rows if row["stage"] != "all"):
        seconds = [row[f"blocks_{blocks}"] for blocks in BLOCKS]
        axes.barh(
            labels,
            seconds,
            left=ends,
            label=row["stage"],
            hatch="////" if number >= COLOURS else None,  # they begin again
            edgecolor="white",
            linewidth=0.3,
        )
        ends = [end + more for end, more in zip(ends, seconds, strict=True)]
    axes.set_xlabel(f"seconds of one core, by stage: {PRESET}")
    figure.legend(loc="outside right upper")
    return figure


def caption(rows: Sequence[dict[str, Any]]) -> str:
    (whole,) = (row for row in rows if row["stage"] == "all")
    last, half = BLOCKS[-1], BLOCKS[-2]
    longest = max(
        (row for row in rows if row["stage"] != "all"),
        key=lambda row: float(row[f"blocks_{last}"]),
    )
    return (
        f"The stages of planning resnet:6,32,{last},6 take {_sum(rows, last):.2f} s of "
        f"one core in sum, with half as many blocks {_sum(rows, half):.2f} s, each the "
        f"best of {ROUNDS}; the longest is {longest['stage']}. All of it in a run of "
        f"its own, without a clock for each, takes {whole[f'blocks_{last}']:.2f} and "
        f"{whole[f'blocks_{half}']:.2f} s."
    )
