"""Nets and plans as JSON: what comes back is what went out, and errors say where."""

import copy
import json

import pytest

import snref
from snref.nets import find, lenet
from snref.planning.exchange import (
    GRAPH,
    PLAN,
    check,
    graph_from_json,
    graph_to_json,
    plan_from_json,
    plan_to_json,
)
from snref.plans import (
    Alloc,
    Free,
    InvalidPlan,
    Launch,
    Plan,
    Tensor,
    extent,
    host_memory,
    memory,
)
from snref.plans.verification import verify
from snref.scheduler import PRESETS, schedule
from snref.timing.timeline import simulate


def through_text(value):
    return json.loads(json.dumps(value))


def exported(net, **options):
    """A plan, and the texts of its net's graph and of itself."""
    planned = snref.plan(net, **options)
    graph = through_text(graph_to_json(planned.net, planned.costs, planned.machine))
    return planned, graph, through_text(plan_to_json(planned.plan, planned.route))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ["lenet", "random:3", "random:8", "resnet:1,1,1,1"])
def test_a_plan_survives_the_way_through_files(name, preset):
    planned, graph, text = exported(
        find(name, batch=2), preset=preset, algorithms="fastest"
    )
    route, costs = graph_from_json(graph)
    plan = plan_from_json(text, route)
    verify(plan, route)
    for workspace in False, True:
        assert memory(plan, workspace) == memory(planned.plan, workspace)
    assert extent(plan) == extent(planned.plan)
    assert host_memory(plan) == host_memory(planned.plan)
    assert simulate(plan, costs) == planned.timeline
    assert plan_to_json(plan, route) == text


@pytest.mark.parametrize("preset", PRESETS)
def test_a_net_from_a_file_is_planned_like_the_net_itself(preset):
    _, graph, text = exported(find("random:5", batch=2), preset=preset)
    route, costs = graph_from_json(graph)
    again = schedule(route, PRESETS[preset], costs)
    assert through_text(plan_to_json(again, route)) == text


def test_a_tight_cache_survives_too():
    net = find("random:3", batch=2)
    least = snref.plan(net, preset="cache").to_json()["total_lower_bound_bytes"]
    planned, graph, text = exported(net, preset="cache", recompute=None, memory=least)
    assert planned.offload_bytes > 0
    route, _ = graph_from_json(graph)
    assert plan_to_json(plan_from_json(text, route), route) == text


def test_a_report_with_steps_is_a_plan():
    planned, graph, text = exported(lenet(batch=2))
    report = through_text(planned.to_json(steps=True))
    check(report, PLAN, "report")
    route, _ = graph_from_json(graph)
    assert plan_to_json(plan_from_json(report, route), route) == text


def test_everything_written_agrees_with_its_schema():
    _, graph, text = exported(lenet(batch=2))
    check(graph, GRAPH, "graph")
    check(text, PLAN, "plan")


def test_a_planner_that_knows_only_json_can_write_a_plan():
    """Every tensor at an address of its own throughout: a few lines in any language."""
    _, graph, _ = exported(lenet(batch=2))
    kinds = "activation", "gradient"
    wanted = [t for t in graph["tensors"] if t["kind"] in kinds]
    steps, offset = [], 0
    for tensor in wanted:
        steps.append({"alloc": tensor["name"], "offset": offset})
        offset += -(-tensor["bytes"] // 256) * 256
    steps += [{"run": run["run"], "phase": run["phase"]} for run in graph["route"]]
    steps += [{"free": tensor["name"]} for tensor in wanted]
    route, costs = graph_from_json(graph)
    plan = plan_from_json({"schema": "snref.plan/2", "steps": steps}, route)
    verify(plan, route)
    seconds = sum(run["seconds"] for run in graph["route"])
    seconds += sum(
        piece["algorithms"][0]["seconds"]
        for run in graph["route"]
        for piece in run["work"]
        if "part" in piece
    )
    assert simulate(plan, costs).seconds == pytest.approx(seconds)


def test_a_plan_that_computes_something_else_is_refused_by_verify():
    _, graph, text = exported(lenet(batch=2))
    route, _ = graph_from_json(graph)
    last = max(i for i, step in enumerate(text["steps"]) if "run" in step)
    del text["steps"][last]
    with pytest.raises(InvalidPlan):
        verify(plan_from_json(text, route), route)


def test_kernels_of_a_net_from_a_file_cannot_be_launched():
    _, graph, _ = exported(lenet(batch=2))
    route, _ = graph_from_json(graph)
    conv = next(run for run in route.runs() if run.choices)
    with pytest.raises(ValueError, match="has no kernels to launch"):
        _ = conv.launches


def test_a_graph_says_which_launches_write_a_portion():
    planned, graph, _ = exported(find("random:3", batch=2))
    launches = [
        (run.layer, launch.portion)
        for run in planned.route.runs()
        for launch in run.work
        if isinstance(launch, Launch) and launch.portion
    ]
    assert launches
    route, _ = graph_from_json(graph)
    assert launches == [
        (run.layer, launch.portion)
        for run in route.runs()
        for launch in run.work
        if isinstance(launch, Launch) and launch.portion
    ]


def test_a_tensor_that_no_file_can_name_is_refused():
    planned, _, _ = exported(lenet(batch=2))
    stranger = Tensor("stranger", (1,))
    steps = (Alloc(stranger), *planned.plan.steps, Free(stranger))
    with pytest.raises(ValueError, match=r"^stranger is not of the route"):
        plan_to_json(Plan(steps), planned.route)


def changed(document, path, value):
    """The document with another value at a path; None takes the member away."""
    document = copy.deepcopy(document)
    *way, last = path
    here = document
    for step in way:
        here = here[step]
    if value is None:
        del here[last]
    else:
        here[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["schema"],
            "snref.graph/9",
            "schema: 'snref.graph/9', must be 'snref.graph/3' or 'snref.graph/2'",
        ),
        (["route"], None, "has no 'route'"),
        (["route"], {}, "route: must be a list"),
        (["nets"], 1, "has 'nets', which is none of"),
        (["tensors", 0, "bytes"], 7, r"tensors\[0\]\.bytes: 7, but shape"),
        (["tensors", 0, "shape"], [0], r"tensors\[0\]\.shape\[0\]: must be at least 1"),
        (["tensors", 0, "kind"], "gas", r"tensors\[0\]\.kind: 'gas', must be"),
        (["tensors", 1, "name"], "data", "two tensors are called 'data'"),
        (["tensors", 1, "name"], "", r"tensors\[1\]\.name: must not be empty"),
        (["route", 1, "run"], "conv1", r"route\[1\]: a second forward of 'conv1'"),
        (["route", 0, "seconds"], -1, r"route\[0\]\.seconds: must be at least 0"),
        (["route", 0, "seconds"], float("nan"), "must be a number, not nan"),
        (["route", 0, "work", 0, "reads", 0], "z", "there is no tensor 'z'"),
        (["route", 0, "work", 0, "part"], None, "none of kernel, part"),
        (["route", 0, "work", 0, "algorithms"], [], r"work\[0\]: a part writes one"),
        (["route", 0, "seconds"], 1e999, r"route\[0\]\.seconds: must be at most"),
        (["route", 0, "seconds"], True, r"route\[0\]\.seconds: must be a number"),
        (["tensors", 0, "bytes"], 2**63, r"tensors\[0\]\.bytes: must be at most"),
        (["tensors", 0, "shape"], [10**400], r"shape\[0\]: must be at most"),
        (["route"], [], r"route: must not be empty"),
        (
            ["schema"],
            "snref.graph/1",
            r"schema: 'snref.graph/1', must be 'snref.graph/3' or 'snref.graph/2'",
        ),
        (["link", "to_host"], 0, r"link\.to_host: must be at least 0.001"),
        (
            ["route", 0, "work", 0, "algorithms", 1, "name"],
            "tiled",
            r"route\[0\]\.work\[0\]: a second algorithm 'tiled' of this layer",
        ),
        (
            ["route", 1, "work", 0, "portion"],
            {"index": 2, "of": 2},
            r"route\[1\]\.work\[0\]\.portion: index 2 of 2",
        ),
        (["route", 1, "work", 0, "portion"], [0, 2], r"portion: must be an object"),
    ],
)
def test_a_wrong_graph_is_refused_at_its_place(path, value, message):
    _, graph, _ = exported(lenet(batch=2))
    with pytest.raises(ValueError, match=f"^mine.json: .*{message}"):
        graph_from_json(changed(graph, path, value), "mine.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["steps"], None, "has no 'steps'"),
        (["steps", 0], {"fre": "conv1.y"}, r"steps\[0\]: has 'fre', and none of alloc"),
        (["steps", 0], 3, r"steps\[0\]: must be an object, not 3"),
        (["steps", 0, "alloc"], "z.y", r"steps\[0\]: there is no tensor 'z.y'"),
        (["steps", 0, "offset"], -256, r"steps\[0\]\.offset: must be at least 0"),
        (["steps", 0, "offset"], 0.5, r"steps\[0\]\.offset: must be a whole number"),
        (["steps", 1, "phase"], "sideways", r"steps\[1\]\.phase: 'sideways', must be"),
        (["steps", 1, "run"], "conv9", "the route has no forward of 'conv9'"),
        (["steps", 1, "algorithms"], {"forward": "fft"}, "forward by 'fft': one of"),
        (["steps", 1, "algorithms"], {"back": "tiled"}, "has no part back"),
        (["steps", 1, "renamed"], {"conv1.y": "q"}, "there is no tensor 'q'"),
        (
            ["steps", 1, "renamed"],
            {"fc3.y": "fc4.y"},
            "conv1 forward has no tensor 'fc",
        ),
    ],
)
def test_a_wrong_plan_is_refused_at_its_place(path, value, message):
    _, graph, text = exported(lenet(batch=2), preset="liveness")
    route, _ = graph_from_json(graph)
    if path[1:2] == [1]:  # the first run
        path[1] = next(i for i, step in enumerate(text["steps"]) if "run" in step)
        message = message.replace(r"\[1\]", rf"\[{path[1]}\]")
    with pytest.raises(ValueError, match=f"^mine.json: .*{message}"):
        plan_from_json(changed(text, path, value), route, "mine.json")
