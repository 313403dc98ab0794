"""``snref verify``: check a plan in JSON, and time it as our own are timed."""

import argparse
import json
from typing import Any

from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.planning.exchange import graph_from_json, plan_from_json
from snref.plans import extent, host_memory, lower_bound, memory
from snref.plans.verification import verify
from snref.support.files import read
from snref.support.garbage import no_garbage_collection
from snref.support.units import mebibytes, shortened
from snref.timing.timeline import simulate

EXAMPLE = "snref verify graph.json plan.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="graph.json", help="from snref export")
    parser.add_argument(
        "plan",
        metavar="plan.json",
        help="from a planner, or from snref plan --steps --json plan.json; "
        "- is standard input",
    )
    parser.add_argument(
        "--slab",
        type=shared.size,
        metavar="SIZE",
        help="what the plan must fit into, beside parameters and input",
    )
    parser.add_argument(
        "--host-memory", type=shared.size, metavar="SIZE", help="the same, of the host"
    )
    shared.add_tables(parser, "the numbers")


def run(arguments: argparse.Namespace) -> int:
    with no_garbage_collection():
        graph, planned = _loaded(arguments.graph), _loaded(arguments.plan)
        route, costs = graph_from_json(graph, arguments.graph)
        plan = plan_from_json(planned, route, arguments.plan)
        for what in ("net", "batch"):  # a plan may say what it is of
            if planned.get(what, graph[what]) != graph[what]:
                raise ValueError(
                    f"{arguments.plan}: is for {what} {shortened(planned[what])}, "
                    f"the graph for {shortened(graph[what])}"
                )
        slab = arguments.slab
        verify(
            plan, route, slab=slab, capacity=slab, host_capacity=arguments.host_memory
        )
        timeline = simulate(plan, costs)
        forwards = [run.layer for run in plan.runs() if run.phase == "forward"]
        numbers = {
            "peak_bytes": max(memory(plan)),
            "peak_with_workspace_bytes": max(memory(plan, workspace=True)),
            "extent_bytes": extent(plan),
            "lower_bound_bytes": lower_bound(plan),
            "extra_forwards": len(forwards) - len(set(forwards)),
            "host_bytes": max(host_memory(plan)),
            "seconds": timeline.seconds,
            "compute_seconds": timeline.compute_seconds,
            "stall_seconds": timeline.stall_seconds,
        }
        table = Table(("what", "value"), tuple(numbers.items()))
        mib = mebibytes(max(memory(plan)))
        text = f"valid: {mib} MiB at most, {timeline.seconds:.4g} s on {costs.source}"
        put(
            arguments,
            f"{text}\n\n{table.text()}",
            table,
            _report(numbers, costs.source),
        )
    return 0


def _report(numbers: dict[str, Any], source: str) -> dict[str, Any]:
    import snref
    from snref.planning.reports import COUNTS

    return {
        "schema": "snref.verdict/1",
        "snref_version": snref.__version__,
        "counts": COUNTS,
        "unit": "bytes",
        "device": source,
        "valid": True,
        **numbers,
    }


def _loaded(path: str) -> Any:
    """A JSON file, or standard input."""
    text = read(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON: {error}") from None
