"""Nets and plans as JSON, so that planners in any language can be checked and timed.

``snref export NET --out graph.json`` writes the net: its tensors, and the route as a
list of runs with what each reads and writes, how long it takes on a machine, and the
ways to compute its convolutions. A planner reads it and writes a plan:

    {"schema": "snref.plan/3",
     "workspaces": [{"name": "conv1.scratch", "bytes": 1024}],
     "steps": [
       {"alloc": "conv1.y", "offset": 0},
       {"run": "conv1", "phase": "forward"},
       {"offload": "conv1.y"}, {"free": "conv1.y"},
       {"alloc": "conv1.y", "offset": 512}, {"prefetch": "conv1.y"}, ...]}

    alloc     allocates the tensor; offset in bytes, a multiple of 256. A plan without
              any offset is placed by ``snref verify --place``
    free      frees the tensor
    offload   copies the tensor to the host
    prefetch  copies it back
    run       runs the forward, prepare, backward or update of a layer; a second forward
              is a recomputation. "algorithms": how to compute a convolution, by part
              (otherwise by the first of its list, which needs no workspace).
              "workspace": the workspace of these algorithms; it is allocated and freed
              like a tensor. "renamed": the kernels use another tensor in place of one,
              an activation or gradient of the same shape and type. They may so write
              over their own input where ``may_overwrite`` of the graph allows it:
              {"relu1.dy": "lrn1.dy"}; and over what only earlier kernels of the run
              read

Where layers run part by part (``snref export --parts``), the graph's route has a run
of each part: the third of conv1 is "conv1[3]". "parts" says which layers, and how many
images each part has. The gradient of a parameter is a partial sum until the last part:
what adds to it has "updates". "joins.take" and "joins.put" copy parts out of a tensor
and into it. Files of schema 2, which know no parts, are read, too.

``snref verify graph.json plan.json`` checks and times it. All of both files is in
``GRAPH`` and ``PLAN`` below, in the words of JSON Schema (``snref export --schema``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, NoReturn, TypeAlias, cast, get_args

import snref
from snref.net import Net, route
from snref.planning.splitting import InParts, Split
from snref.plans import (
    ITEM_BYTES,
    Algorithm,
    Alloc,
    Choice,
    Free,
    InPlace,
    Kind,
    Launch,
    Offload,
    Part,
    Phase,
    Plan,
    Prefetch,
    Run,
    Step,
    Tensor,
    Work,
)
from snref.support.units import shortened
from snref.timing.costs import LEAST_SPEED, MOST, Costs
from snref.timing.roofline import Machine

Schema: TypeAlias = Mapping[str, Any]

_NAME = {"type": "string", "minLength": 1}
_NAMES = {"type": "array", "items": _NAME}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_SECONDS = {"type": "number", "minimum": 0, "maximum": MOST}
_SPEED = {"type": "number", "minimum": LEAST_SPEED, "maximum": MOST}
_PHASE = {"enum": list(get_args(Phase))}


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    """An object with exactly these members."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


_TENSOR = _object(
    {
        "name": _NAME,
        "shape": {"type": "array", "items": {**_COUNT, "minimum": 1}},
        "dtype": {"enum": list(ITEM_BYTES)},
        "kind": {"enum": [kind for kind in get_args(Kind) if kind != "workspace"]},
        "bytes": _COUNT,
    }
)
_LAUNCH = _object(
    {
        "kernel": _NAME,
        "writes": _NAMES,
        "reads": _NAMES,
        "flops": _COUNT,
        "bytes_accessed": _COUNT,
    },
    {
        "updates": {"type": "boolean"},  # it reads what it writes, too
        "portion": _object(  # it writes one of several portions of each output
            {"index": _COUNT, "of": {**_COUNT, "minimum": 1}}
        ),
        "retained": _NAMES,  # must be on the device, but no kernel reads them
        "may_overwrite": {  # [output, input, under which setting]
            "type": "array",
            "items": {"type": "array", "items": _NAME},
        },
    },
)
_ALGORITHM = _object(
    {
        "name": _NAME,
        "order": _NAME,  # of summation: same order, same bits
        "workspace": _COUNT,  # bytes
        "flops": _COUNT,
        "bytes_accessed": _COUNT,
        "seconds": _SECONDS,
    }
)
_CHOICE = _object(
    {
        "part": {"enum": list(get_args(Part))},
        "writes": _NAMES,
        "reads": _NAMES,
        "algorithms": {"type": "array", "items": _ALGORITHM},
    },
    {"updates": {"type": "boolean"}},  # a filter gradient: adds to what is there
)
_PARTS = {  # of the batch
    "type": "array",
    "items": _object(
        {
            "layers": {**_NAMES, "minItems": 1},  # run part by part
            "images": {"type": "array", "items": _COUNT, "minItems": 1},  # of each part
        }
    ),
}
_GRAPH_RUN = _object(
    {
        "run": _NAME,
        "phase": _PHASE,
        "checkpoint": {"type": "boolean"},  # keep its output, or copy it out
        "offload": {"type": "boolean"},  # its output is worth the copies
        "seconds": _SECONDS,  # without those of the algorithms of its choices
        "work": {"type": "array", "items": {"oneOf": [_LAUNCH, _CHOICE]}},
    }
)
GRAPH: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A net, to be planned",
    **_object(
        {
            "schema": {"enum": ["snref.graph/3", "snref.graph/2"]},
            "snref_version": _NAME,
            "net": _NAME,
            "batch": _COUNT,
            "counts": _NAME,
            "tensors": {"type": "array", "items": _TENSOR},
            "route": {"type": "array", "items": _GRAPH_RUN, "minItems": 1},
            "link": _object(
                {
                    "source": _NAME,  # of all seconds in the file
                    "to_host": _SPEED,  # bytes per second
                    "to_device": _SPEED,
                    "latency": _SECONDS,
                }
            ),
        },
        {"machine": {"type": "object"}, "parts": _PARTS},
    ),
}
_PLAN_STEP = {
    "oneOf": [
        _object({"alloc": _NAME}, {"offset": _COUNT}),
        _object({"free": _NAME}),
        _object({"offload": _NAME}),
        _object({"prefetch": _NAME}),
        _object(
            {"run": _NAME, "phase": _PHASE},
            {
                "algorithms": {"type": "object", "additionalProperties": _NAME},
                "workspace": _NAME,
                "renamed": {"type": "object", "additionalProperties": _NAME},
            },
        ),
    ]
}
PLAN: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A plan for a net; whatever else is in the file is not read",
    "type": "object",
    "properties": {
        "schema": {"enum": ["snref.plan/3", "snref.plan/2"]},
        "workspaces": {
            "type": "array",
            "items": _object({"name": _NAME, "bytes": _COUNT}),
        },
        "steps": {"type": "array", "items": _PLAN_STEP},
        "parts": _PARTS,
    },
    "required": ["schema", "steps"],
}


# Writing


def graph_to_json(
    net: Net,
    costs: Costs,
    machine: Machine | None = None,
    split: Split | None = None,
) -> dict[str, Any]:
    """A net as a planner needs it, with the machine if the costs are its model.

    split  how some of its layers run in parts of the batch; the costs are of its route

    Raises ValueError if two tensors share a name.
    """
    whole = split.route if split else route(net)
    tensors = dict.fromkeys(
        tensor for run in whole.runs() for tensor in (*run.reads, *run.writes)
    )
    _by_name(tuple(tensors), "the net")
    return {
        "schema": "snref.graph/3",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "counts": "bytes of each tensor, without rounding",
        "tensors": [
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "dtype": tensor.dtype,
                "kind": tensor.kind,
                "bytes": tensor.nbytes,
            }
            for tensor in tensors
        ],
        "route": [_run_to_json(run, costs) for run in whole.runs()],
        "link": {
            "source": costs.source,
            "to_host": costs.to_host,
            "to_device": costs.to_device,
            "latency": costs.latency,
        },
        **({"machine": machine.constants()} if machine else {}),
        **({"parts": parts_to_json(split.parts)} if split else {}),
    }


def parts_to_json(parts: Sequence[InParts]) -> list[dict[str, Any]]:
    """Which layers run part by part, and how many images each part has."""
    return [{"layers": [*p.layers], "images": [*p.images]} for p in parts]


def _run_to_json(run: Run, costs: Costs) -> dict[str, Any]:
    return {
        "run": run.layer,
        "phase": run.phase,
        "checkpoint": run.checkpoint,
        "offload": run.offload,
        "seconds": costs.runs[run.layer, run.phase],
        "work": [_work_to_json(piece, run, costs) for piece in run.work],
    }


def _work_to_json(piece: Work, run: Run, costs: Costs) -> dict[str, Any]:
    flow = {"writes": _names(piece.outputs), "reads": _names(piece.inputs)}
    if isinstance(piece, Launch):
        work: dict[str, Any] = {"kernel": piece.kernel_name, **flow}
        if piece.updates:
            work["updates"] = True
        if piece.portion:
            index, of = piece.portion
            work["portion"] = {"index": index, "of": of}
        if piece.retained:
            work["retained"] = _names(piece.retained)
        if piece.may_overwrite:
            work["may_overwrite"] = [
                [output.name, target.name, setting]
                for output, target, setting in piece.may_overwrite
            ]
        return {**work, "flops": piece.flops, "bytes_accessed": piece.bytes_accessed}
    return {
        "part": piece.part,
        **flow,
        **({"updates": True} if piece.updates else {}),
        "algorithms": [
            {
                "name": way.name,
                "order": way.order,
                "workspace": way.workspace,
                "flops": way.flops,
                "bytes_accessed": way.bytes_accessed,
                "seconds": costs.algorithm(run.layer, piece.part, way.name),
            }
            for way in piece.algorithms
        ],
    }


def _names(tensors: Sequence[Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]


def plan_to_json(plan: Plan, route: Plan) -> dict[str, Any]:
    """A plan for this route; ``plan_from_json`` reads it.

    Raises ValueError if it allocates a tensor that is neither of the route nor a
    workspace.
    """
    runs = {(run.layer, run.phase): run for run in route.runs()}
    known = {t for run in runs.values() for t in (*run.reads, *run.writes)}
    taken = {tensor.name for tensor in known}
    names: dict[Tensor, str] = {}  # of workspaces: often several have one name
    for step in plan.steps:
        if isinstance(step, Alloc) and step.tensor not in known:
            tensor = step.tensor
            if tensor.kind != "workspace":
                raise ValueError(f"{tensor.name} is not of the route: no file names it")
            if tensor not in names:
                names[tensor] = _unused(tensor.name, taken)

    def step_to_json(step: Step) -> dict[str, Any]:
        match step:
            case Run():
                return _step_to_json(step, runs[step.layer, step.phase], names)
            case Alloc(tensor, None):
                return {"alloc": names.get(tensor, tensor.name)}
            case Alloc(tensor, offset):
                return {"alloc": names.get(tensor, tensor.name), "offset": offset}
            case Free(tensor):
                return {"free": names.get(tensor, tensor.name)}
            case Offload(tensor):
                return {"offload": tensor.name}
            case Prefetch(tensor):
                return {"prefetch": tensor.name}

    return {
        "schema": "snref.plan/3",
        "workspaces": [
            {"name": name, "bytes": tensor.nbytes} for tensor, name in names.items()
        ],
        "steps": [step_to_json(step) for step in plan.steps],
    }


def _unused(name: str, taken: set[str]) -> str:
    """The name, or with a number if it is taken; takes it."""
    numbers = (f"{name}.{number}" for number in count(2))
    new = next(each for each in chain((name,), numbers) if each not in taken)
    taken.add(new)
    return new


def _step_to_json(run: Run, origin: Run, names: Mapping[Tensor, str]) -> dict[str, Any]:
    """A run, with how it differs from the route's."""
    step: dict[str, Any] = {"run": run.layer, "phase": run.phase}
    if run is origin:
        return step
    chosen = {c.part: c.chosen.name for c in run.choices if c.chosen.workspace}
    chosen |= {
        now.part: now.chosen.name
        for now, first in zip(run.choices, origin.choices, strict=True)
        if now.chosen is not first.chosen
    }
    if chosen:
        step["algorithms"] = chosen
    for workspace in run.workspaces:
        step["workspace"] = names[workspace]
    renamed = {
        before.name: now.name
        for theirs, ours in zip(origin.work, run.work, strict=True)
        for before, now in zip(theirs.tensors, ours.tensors, strict=True)
        if before is not now
    }
    if renamed:
        step["renamed"] = renamed
    return step


# Reading


def parsed_json(text: str, where: str) -> Any:
    """Parse a JSON file. Raise ValueError that names it, also if a key is repeated.

    >>> parsed_json('{"batch": 2, "batch": 4}', "plan.json")
    Traceback (most recent call last):
    ValueError: plan.json: not JSON: an object has two members 'batch'
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"an object has two members {shortened(twice)}")
        return found

    try:
        return json.loads(text, object_pairs_hook=members)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None


def graph_from_json(graph: Any, where: str = "graph") -> tuple[Plan, Costs]:
    """The route of a net that was exported, and the seconds that stand in it.

    Such a route can be planned, verified and timed; its kernels cannot be launched.
    Raises ValueError that says where in the file (``where``) something is wrong.
    """
    check(graph, GRAPH, where)
    tensors = []
    for i, entry in enumerate(graph["tensors"]):
        tensor = Tensor(
            entry["name"], tuple(entry["shape"]), entry["kind"], entry["dtype"]
        )
        if tensor.nbytes != entry["bytes"]:
            _fail(
                f"{where}: tensors[{i}].bytes",
                f"{entry['bytes']}, but shape and dtype make it {tensor.nbytes}",
            )
        tensors.append(tensor)
    by_name = _by_name(tensors, where)
    runs: dict[tuple[str, Phase], float] = {}
    algorithms: dict[tuple[str, Part, str], float] = {}
    steps = []
    for i, entry in enumerate(graph["route"]):
        here = f"{where}: route[{i}]"
        work: list[Work] = []
        for j, piece in enumerate(entry["work"]):
            work.append(_work_from_json(piece, by_name, f"{here}.work[{j}]"))
            for way in piece.get("algorithms", ()):
                key = entry["run"], piece["part"], way["name"]
                if key in algorithms:
                    _fail(
                        f"{here}.work[{j}]",
                        f"a second algorithm {way['name']!r} of this layer and part",
                    )
                algorithms[key] = way["seconds"]
        if (entry["run"], entry["phase"]) in runs:
            _fail(here, f"a second {entry['phase']} of {entry['run']!r}")
        runs[entry["run"], entry["phase"]] = entry["seconds"]
        steps.append(
            Run(
                entry["run"],
                entry["phase"],
                tuple(work),
                entry["checkpoint"],
                entry["offload"],
            )
        )
    return Plan(tuple(steps)), Costs(
        graph["link"]["source"],
        runs,
        algorithms,
        graph["link"]["to_host"],
        graph["link"]["to_device"],
        graph["link"]["latency"],
    )


def _work_from_json(piece: Any, by_name: Mapping[str, Tensor], where: str) -> Work:
    def found(member: str) -> tuple[Tensor, ...]:
        return tuple(
            _find(by_name, name, f"{where}.{member}") for name in piece.get(member, ())
        )

    outputs, inputs = found("writes"), found("reads")
    if "kernel" in piece:
        overlays = []
        for names in piece.get("may_overwrite", ()):
            if len(names) != 3 or names[2] not in ("gradients", "activations"):
                _fail(f"{where}.may_overwrite", "[output, input, setting] each")
            output, target = (
                _find(by_name, name, f"{where}.may_overwrite") for name in names[:2]
            )
            overlays.append(cast(InPlace, (output, target, names[2])))
        portion = None
        if "portion" in piece:
            portion = piece["portion"]["index"], piece["portion"]["of"]
            if portion[0] >= portion[1]:
                _fail(f"{where}.portion", f"index {portion[0]} of {portion[1]}")
        return Launch(
            piece["kernel"],
            outputs,
            inputs,
            updates=piece.get("updates", False),
            portion=portion,
            retained=found("retained"),
            may_overwrite=tuple(overlays),
            flops=piece["flops"],
            bytes_accessed=piece["bytes_accessed"],
        )
    if len(outputs) != 1 or len(inputs) != 2 or not piece["algorithms"]:
        _fail(where, "a part writes one tensor, reads two and has an algorithm")
    ways = tuple(
        Algorithm(
            way["name"],
            way["order"],
            way["workspace"],
            way["flops"],
            way["bytes_accessed"],
            _no_kernels,
        )
        for way in piece["algorithms"]
    )
    updates = piece.get("updates", False)
    read = inputs[0], inputs[1]
    return Choice(piece["part"], outputs[0], read, ways, ways[0], updates=updates)


def _no_kernels(*tensors: Tensor | None) -> NoReturn:
    raise ValueError("a net that was read from a file has no kernels to launch")


def plan_from_json(plan: Any, route: Plan, where: str = "plan") -> Plan:
    """The plan in a file, for this route. Raises ValueError that says where."""
    if isinstance(plan, dict) and "options" in plan and "steps" not in plan:
        raise ValueError(f"{where}: has no steps; snref plan writes them with --steps")
    check(plan, PLAN, where)
    runs = {(run.layer, run.phase): run for run in route.runs()}
    tensors = dict.fromkeys(t for r in runs.values() for t in (*r.reads, *r.writes))
    workspaces = [
        Tensor(entry["name"], (-(-entry["bytes"] // 4),), "workspace")
        for entry in plan.get("workspaces", ())
    ]
    by_name = _by_name((*tensors, *workspaces), where)
    steps: list[Step] = []
    for i, entry in enumerate(plan["steps"]):
        here = f"{where}: steps[{i}]"
        match entry:
            case {"alloc": name}:
                tensor = _find(by_name, name, here)
                steps.append(Alloc(tensor, entry.get("offset")))
            case {"free": name}:
                steps.append(Free(_find(by_name, name, here)))
            case {"offload": name}:
                steps.append(Offload(_find(by_name, name, here)))
            case {"prefetch": name}:
                steps.append(Prefetch(_find(by_name, name, here)))
            case {"run": layer, "phase": phase}:
                if (layer, phase) not in runs:
                    _fail(here, f"the route has no {phase} of {layer!r}")
                steps.append(_step_from_json(entry, runs[layer, phase], by_name, here))
    return Plan(tuple(steps))


def _step_from_json(
    entry: Any, origin: Run, by_name: Mapping[str, Tensor], where: str
) -> Run:
    """The route's run, with the algorithms, workspace and names that the step gives."""
    algorithms = dict(entry.get("algorithms", {}))
    renamed = {
        _find(by_name, before, where): _find(by_name, now, where)
        for before, now in entry.get("renamed", {}).items()
    }
    scratch = None
    if "workspace" in entry:
        scratch = _find(by_name, entry["workspace"], where)
    if not algorithms and not renamed:
        return origin
    touched = {tensor for piece in origin.work for tensor in piece.tensors}
    for tensor in renamed:
        if tensor not in touched:
            _fail(where, f"{origin.layer} {origin.phase} has no tensor {tensor.name!r}")

    work: list[Work] = []
    for piece in origin.work:
        piece = piece.renamed(renamed)
        if isinstance(piece, Choice):
            name = algorithms.pop(piece.part, piece.chosen.name)
            ways = {way.name: way for way in piece.algorithms}
            if name not in ways:
                _fail(where, f"{piece.part} by {name!r}: one of {', '.join(ways)}")
            needed = ways[name].workspace
            if needed and (scratch is None or scratch.nbytes < needed):
                _fail(
                    where,
                    f"{piece.part} by {name!r} needs a workspace of {needed} bytes",
                )
            workspace = scratch if needed else None
            piece = replace(piece, chosen=ways[name], workspace=workspace)
        work.append(piece)
    if algorithms:
        _fail(
            where, f"{origin.layer} {origin.phase} has no part {', '.join(algorithms)}"
        )
    return origin.with_work(tuple(work))


def _by_name(tensors: Sequence[Tensor], where: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for tensor in tensors:
        if tensor.name in found:
            _fail(where, f"two tensors are called {tensor.name!r}")
        found[tensor.name] = tensor
    return found


def _find(by_name: Mapping[str, Tensor], name: str, where: str) -> Tensor:
    if name not in by_name:
        _fail(where, f"there is no tensor {name!r}")
    return by_name[name]


# Checking


def check(value: Any, schema: Schema, where: str) -> None:
    """Raise ValueError, naming the place, unless the value agrees with the schema.

    Knows what the schemas above use of JSON Schema: type, properties, required,
    additionalProperties, items, minItems, minimum, maximum, minLength, enum, oneOf.

    >>> check({"schema": "snref.plan/3", "steps": [{"fre": "x"}]}, PLAN, "plan.json")
    Traceback (most recent call last):
    ValueError: plan.json: steps[0]: has 'fre', and none of alloc, free, offload, ...
    """
    _check(value, schema, f"{where}:", "")


def _check(value: Any, schema: Schema, file: str, path: str) -> None:
    where = f"{file} {path}".rstrip()
    if "enum" in schema and value not in schema["enum"]:
        allowed = " or ".join(map(repr, schema["enum"]))
        _fail(where, f"{shortened(value)}, must be {allowed}")
    if "oneOf" in schema:
        _check(value, _the_one(value, schema["oneOf"], where), file, path)
    if "type" in schema and not _is_a(value, schema["type"]):
        _fail(where, f"must be {_A[schema['type']]}, not {shortened(value)}")
    if "minimum" in schema and value < schema["minimum"]:
        _fail(where, f"must be at least {schema['minimum']}, not {shortened(value)}")
    if "maximum" in schema and value > schema["maximum"]:
        _fail(where, f"must be at most {schema['maximum']}, not {shortened(value)}")
    if ("minLength" in schema or "minItems" in schema) and not value:
        _fail(where, "must not be empty")
    if isinstance(value, dict):
        members = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        if "schema" in members and "schema" in value:  # first: which file is it?
            _check(value["schema"], members["schema"], file, "schema")
        for name in schema.get("required", ()):
            if name not in value:
                _fail(where, f"has no {name!r}")
        for name, member in value.items():
            below = f"{path}.{name}" if path else name
            if name in members:
                _check(member, members[name], file, below)
            elif isinstance(others, Mapping):
                _check(member, others, file, below)
            elif not others:
                known = ", ".join(members)
                _fail(where, f"has {shortened(name)}, which is none of {known}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            _check(item, schema.get("items", {}), file, f"{path}[{i}]")


def _the_one(value: Any, schemas: Sequence[Schema], where: str) -> Schema:
    """The schema that an object means: its first required member tells."""
    keys = [schema["required"][0] for schema in schemas]
    if isinstance(value, dict):
        for key, schema in zip(keys, schemas, strict=True):
            if key in value:
                return schema
        names = ", ".join(map(shortened, list(value)[:5])) or "nothing"
        _fail(where, f"has {names}, and none of {', '.join(keys)}")
    _fail(where, f"must be an object, not {shortened(value)}")


_A = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


def _is_a(value: Any, kind: str) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:  # NaN is no number; infinity is above every maximum
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and value == value


def _fail(where: str, message: str) -> NoReturn:
    raise ValueError(f"{where.rstrip(':')}: {message}")
