"""``snref verify``: check a plan in JSON, and time it as our own are timed."""

import argparse
from typing import Any

from snref.commands import arguments as shared
from snref.commands.tables import Table, put
from snref.planning.exchange import graph_from_json, parsed_json, plan_from_json
from snref.plans import (
    Alloc,
    OutOfMemory,
    Plan,
    extent,
    host_memory,
    lower_bound,
    memory,
)
from snref.plans.verification import verify
from snref.scheduler.placement import place
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
        "--place",
        action="store_true",
        help="give addresses to a plan that has none, as for our own plans",
    )
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument(
        "--slab",
        type=shared.size,
        metavar="SIZE",
        help="bytes for what the plan allocates, beside parameters and input",
    )
    limit.add_argument(
        "--memory",
        type=shared.size,
        metavar="SIZE",
        help="bytes of the device, parameters and input included",
    )
    parser.add_argument(
        "--host-memory", type=shared.size, metavar="SIZE", help="bytes of the host"
    )
    shared.add_tables(parser, "the numbers")


def run(arguments: argparse.Namespace) -> int:
    with no_garbage_collection():
        graph, planned = map(_loaded, (arguments.graph, arguments.plan))
        route, costs = graph_from_json(graph, arguments.graph)
        _check_same_parts(planned, graph, arguments)
        plan = _read(planned, route, arguments)
        for what in ("net", "batch"):  # a plan may say what it is of
            if planned.get(what, graph[what]) != graph[what]:
                raise ValueError(
                    f"{arguments.plan}: is for {what} {shortened(planned[what])}, "
                    f"the graph for {shortened(graph[what])}"
                )
        plan = _with_addresses(plan, route, arguments)
        numbers = _judged(plan, route, arguments)
        timeline = simulate(plan, costs)
        numbers |= {
            "seconds": timeline.seconds,
            "compute_seconds": timeline.compute_seconds,
            "stall_seconds": timeline.stall_seconds,
        }
        table = Table(("what", "value"), tuple(numbers.items()))
        mib = mebibytes(numbers["peak_bytes"])
        text = f"valid: {mib} MiB at most, {timeline.seconds:.4g} s on {costs.source}"
        if numbers["extent_bytes"] is None:
            text += "\nThe plan has no addresses, so no extent: --place gives them."
        put(
            arguments,
            f"{text}\n\n{table.text()}",
            table,
            _report(numbers, costs.source),
        )
    return 0


def _check_same_parts(planned: Any, graph: Any, arguments: argparse.Namespace) -> None:
    """Raise ValueError if a plan says other parts of the batch than the graph."""
    if not isinstance(planned, dict):
        return
    here, there = graph.get("parts", []), planned.get("parts")
    if there is not None and there != here:
        raise ValueError(
            f"{arguments.plan}: is for {_said(there)}, the graph for {_said(here)}: "
            "export it with the --parts and --overwrite of the plan"
        )


def _said(parts: Any) -> str:
    """Say what a file says of parts of the batch.

    >>> _said([{"layers": ["conv1"], "images": [8, 8]}])
    '2 parts of conv1'
    """
    try:
        found = [(len(p["images"]), " to ".join(_ends(p["layers"]))) for p in parts]
    except (TypeError, KeyError, IndexError):
        return shortened(parts)
    return " and ".join(f"{n} parts of {which}" for n, which in found) or "no parts"


def _ends(layers: list[str]) -> list[str]:
    return layers[:1] + layers[1:][-1:]


def _read(planned: Any, route: Plan, arguments: argparse.Namespace) -> Plan:
    """Return the plan, or raise ValueError that says how its net was exported."""
    try:
        return plan_from_json(planned, route, arguments.plan)
    except ValueError as error:
        options = planned.get("options", {}) if isinstance(planned, dict) else {}
        match options:
            case {"declarations": str(declarations), "fork": str(fork)}:
                raise ValueError(
                    f"{error}. The plan is for a net exported with --declarations "
                    f"{declarations} --fork {fork}: is {arguments.graph}?"
                ) from None
        raise


def _with_addresses(plan: Plan, route: Plan, arguments: argparse.Namespace) -> Plan:
    """Return the plan, placed with ``--place``.

    Raises ValueError if it has addresses already, or none where a limit needs them.
    """
    offsets = [step.offset for step in plan.of(Alloc)]
    has_some = any(offset is not None for offset in offsets)
    if arguments.place:
        if has_some:
            raise ValueError(f"{arguments.plan}: has addresses already: omit --place")
        verify(plan, route)  # only a plan that frees what it allocates can be placed
        return place(plan, _slab(route, arguments))
    if offsets and not has_some and _slab(route, arguments) is not None:
        raise ValueError(
            f"{arguments.plan}: has no addresses, which --slab and --memory need: "
            "--place gives them"
        )
    return plan


def _slab(route: Plan, arguments: argparse.Namespace) -> int | None:
    """Return the bytes for what the plan allocates, if they are limited."""
    slab: int | None = arguments.slab
    if arguments.memory is not None:
        slab = max(0, arguments.memory - _resident(route))
    return slab


def _resident(route: Plan) -> int:
    """Return the bytes of what stays on the device: parameters, input, and so on."""
    tensors = {t for run in route.runs() for t in (*run.reads, *run.writes)}
    return sum(tensor.nbytes for tensor in tensors if not tensor.scheduled)


def _judged(plan: Plan, route: Plan, arguments: argparse.Namespace) -> dict[str, Any]:
    """Verify the plan and return its bytes. Raise OutOfMemory, in bytes of --memory."""
    slab = arguments.slab
    verify(plan, route, slab=slab, capacity=slab, host_capacity=arguments.host_memory)
    placed = all(
        step.offset is not None for step in plan.steps if isinstance(step, Alloc)
    )
    resident = _resident(route)
    total = resident + extent(plan)
    if arguments.memory is not None and total > arguments.memory:
        raise OutOfMemory("the plan", total, arguments.memory, total)
    forwards = [run.layer for run in plan.runs() if run.phase == "forward"]
    return {
        "peak_bytes": max(memory(plan)),
        "peak_with_workspace_bytes": max(memory(plan, workspace=True)),
        "extent_bytes": extent(plan) if placed else None,
        "resident_bytes": resident,
        "total_bytes": total if placed else None,
        "lower_bound_bytes": lower_bound(plan),
        "extra_forwards": len(forwards) - len(set(forwards)),
        "host_bytes": max(host_memory(plan)),
    }


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
    return parsed_json(read(path), path)
