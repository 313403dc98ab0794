"""Layers in parts of the batch: how a net is split, and what a plan then needs."""

import json
from dataclasses import replace

import pytest

import snref
from snref.layers import Conv, Linear, ReLU, Softmax
from snref.net import Net, route
from snref.nets import alexnet, find, random_net
from snref.parts import cut, groups, route_in_parts
from snref.planning.candidates import candidate
from snref.planning.splitting import NothingToSplit, split, splits
from snref.plans import (
    InvalidPlan,
    OutOfMemory,
    Plan,
    Run,
    lower_bound,
)
from snref.plans.verification import verify
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead

MIB = 2**20


def tiny() -> Net:
    """Two layers that can run in two parts, one that need not, and the loss."""
    net = Net("tiny", declarations="reuse")
    x = net.chain(net.input((64, 8)), fc1=Linear(3), relu1=ReLU(), fc2=Linear(2))
    net.add("softmax", Softmax(), x)
    return net


def tiny_in_parts() -> Plan:
    net = tiny()
    return route_in_parts(net, [(net.nodes[:2], (32, 32))])


# The paper's numbers


def test_alexnet_in_sixteen_parts_needs_a_sixteenth_of_the_papers_largest_layer() -> (
    None
):
    """886.23 MiB is max(l_i) as the paper's code sums it."""
    net = alexnet(batch=200).with_options("lean")
    planned = snref.plan(net, preset="cache", overwrite="activations", parts=16)
    fixed = planned.total_bytes - snref.plans.extent(planned.plan)
    least = lower_bound(planned.plan)
    tight = snref.plan(
        net,
        preset="cache",
        overwrite="activations",
        parts=16,
        memory=fixed + least,
    )
    assert tight.peak_bytes / MIB < 886.23 / 16
    assert tight.peak_bytes == 41_650_176
    (parts,) = tight.parts
    assert str(parts) == "conv1 to pool5 in 16 parts of 9 x 16, 7 x 8 images"


def test_with_gradients_of_parameters_in_the_slab_fc6_limits_alexnet() -> None:
    net = alexnet(batch=200).with_options("reuse")
    *_, least = splits(net, "activations")
    assert least.least == 147 * MIB + 278_528
    whole = overwrite(least.route, "activations")
    run = max(whole.runs(), key=lambda run: sum(t.nbytes for t in run.working_set))
    assert run.layer.startswith("fc6[") and run.phase == "backward"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("resnet50", "bn1 backward needs"),
        ("inception_v4", "stem.3.bn backward needs"),
        ("densenet121", "transition1.bn backward needs"),
        ("gpt2", "softmax forward needs"),
    ],
)
def test_batch_normalization_and_the_loss_end_what_splitting_can_do(
    name: str, why: str
) -> None:
    net = find(name, 8).with_options("reuse")
    assert not [*splits(net, "activations")]
    with pytest.raises(NothingToSplit, match=why):
        split(net, 4, "activations")


@pytest.mark.slow
def test_a_net_fits_three_times_the_papers_batch_in_two_parts() -> None:
    """3.1 times, as TSPLIT says of itself: the paper has 224 images of VGG-16."""
    planned = snref.plan(find("vgg16", 695), preset="joint", memory="12GiB")
    assert [len(part.images) for part in planned.parts] == [2]
    assert planned.total_bytes <= 12 * 2**30 and 695 > 3.1 * 224


@pytest.mark.slow
def test_more_parts_need_less_until_something_else_limits() -> None:
    for name in ("alexnet", "vgg16", "unet"):
        net = find(name, 32).with_options("lean")
        whole = lower_bound(overwrite(route(net), "activations"))
        found = [made.least for made in splits(net, "activations")]
        assert found == sorted(found, reverse=True) and found[-1] < whole / 2, name


def chain_of(*names: str) -> Net:
    """A net of these layers, the last of them the loss."""
    net = Net("named", declarations="reuse")
    x = net.input((64, 1, 8, 8))
    for name in names[:-2]:
        x = net.add(name, Conv(4, 3, padding=1), x)
    x = net.add(names[-2], Linear(10), x)
    net.add(names[-1], Softmax(), x)
    return net


@pytest.mark.parametrize(
    "taken", ["c[1]", "c.y.gather", "data.take", "d[12]", "block[0]"]
)
def test_a_layer_that_is_called_as_a_part_keeps_its_net_whole(taken: str) -> None:
    net = chain_of("c", taken, "f", "s")
    assert not [*splits(net, "activations")]
    with pytest.raises(NothingToSplit, match="rename it"):
        split(net, 2, "activations")
    with pytest.raises(OutOfMemory):
        snref.plan(net, memory=0)


def test_brackets_within_a_name_are_no_part() -> None:
    named = split(chain_of("b[0].c", "b[1].c", "f[0].x", "s"), 2, "activations")
    plain = split(chain_of("b", "c", "f", "s"), 2, "activations")
    assert named.least == plain.least
    assert [p.images for p in named.parts] == [p.images for p in plain.parts]


def test_a_net_of_one_layer_has_nothing_to_split() -> None:
    net = Net("lone")
    net.add("s", Softmax(), net.input((16, 10)))
    with pytest.raises(NothingToSplit, match="needs no less"):
        split(net, 3, "activations")


# Below the floor


def test_a_budget_below_the_floor_is_met_in_parts_and_no_other_is() -> None:
    net = find("digits", 32)
    floor = snref.plan(net, preset="joint", effort=0.05).total_bytes
    assert not snref.plan(net, preset="joint", memory=floor, effort=0.05).parts
    planned = snref.plan(net, preset="joint", memory=floor - 1, effort=0.05)
    assert planned.parts and planned.total_bytes < floor
    said = "parts of the batch: conv1 to pool1 in 2 parts of 2 x 16 images"
    assert said in planned.summary()
    assert planned.to_json()["parts"] == [
        {"layers": ["conv1", "relu1", "lrn1", "pool1"], "images": [16, 16]}
    ]
    with pytest.raises(OutOfMemory):  # whole layers were asked for
        snref.plan(net, preset="joint", memory=floor - 1, parts=1)
    with pytest.raises(OutOfMemory):  # what is decided otherwise stays decided
        snref.plan(net, preset="joint", memory=floor - 1, transfers="none")


@pytest.mark.parametrize(
    ("net", "preset"), [(alexnet(batch=40), None), (find("digits", 32), "joint")]
)
def test_the_least_that_an_error_names_fits_and_a_byte_less_does_not(
    net: Net, preset: str | None
) -> None:
    given = {"preset": preset, "effort": 0.05}
    with pytest.raises(OutOfMemory) as caught:
        snref.plan(net, memory=1, **given)  # type: ignore[arg-type]
    least = caught.value.least
    planned = snref.plan(net, memory=least, **given)  # type: ignore[arg-type]
    assert planned.parts and planned.total_bytes <= least
    with pytest.raises(OutOfMemory) as again:
        snref.plan(net, memory=least - 1, **given)  # type: ignore[arg-type]
    assert again.value.least == least


def test_less_memory_never_gives_a_higher_peak_with_parts_either() -> None:
    net = alexnet(batch=40).with_options("lean")
    given = {"overwrite": "activations", "effort": 0.05}
    high = snref.plan(net, memory="1GiB", **given).total_bytes  # type: ignore[arg-type]
    with pytest.raises(OutOfMemory) as caught:
        snref.plan(net, memory=1, **given)  # type: ignore[arg-type]
    low, peaks, counts = caught.value.least, [], []
    for i in range(9):
        memory = low + (high - low) * i // 8
        planned = snref.plan(net, memory=memory, **given)  # type: ignore[arg-type]
        assert planned.total_bytes <= memory
        peaks.append(max(snref.plans.memory(planned.plan, workspace=True)))
        counts.append(max((len(p.images) for p in planned.parts), default=1))
    assert peaks == sorted(peaks)
    assert counts == sorted(counts, reverse=True) and len({*counts}) > 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"parts": 0}, "parts 0: must be a whole number from 1 to the batch, 32"),
        ({"parts": 33}, "parts 33: must be"),
        ({"parts": 2, "policy": "chen"}, "'chen' does not plan parts"),
        ({"parts": 2, "preset": "reuse"}, "every activation is held throughout"),
    ],
)
def test_parts_that_cannot_be_are_refused(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        snref.plan(find("digits", 32), **given)  # type: ignore[arg-type]


def test_parts_of_measured_costs_are_refused() -> None:
    net = find("digits", 32)
    costs = snref.plan(net).costs
    with pytest.raises(ValueError, match="measured costs are those of whole layers"):
        snref.plan(net, costs=costs, parts=2)


def test_compared_planners_all_run_layers_whole() -> None:
    net = find("digits", 32)
    floor = snref.plan(net, preset="joint", effort=0.05).total_bytes
    answer = candidate("joint").answer(net, memory=floor - 1)
    assert isinstance(answer, OutOfMemory) and answer.least == floor


# Groups


def test_a_part_is_whole_slices_of_every_sum_in_its_group() -> None:
    net = alexnet(batch=200)
    for count in (2, 7, 16, 25, 50, 100):
        for group in groups(net, count):
            slices = [n.layer.part_images(*(x.shape for x in n.xs)) for n in group]
            *sizes, last = cut(net, group, count)
            assert sum(sizes) + last == 200 and 1 <= last <= max(sizes, default=last)
            for images in slices:
                assert images and all(size % images == 0 for size in sizes)


@pytest.mark.parametrize("seed", [44, 46])
def test_what_a_fork_shares_enters_every_group_that_reads_it(seed: int) -> None:
    """A fork that shares makes nothing, and two groups cut the same tensor."""
    for declarations in "original", "lean", "reuse":
        net = random_net(seed).with_batch(34).with_options(declarations)
        every = [(group, cut(net, group, 2)) for group in groups(net, 2)]
        route = route_in_parts(net, every)
        verify(free_dead(route), route)
        tensors = {tensor for run in route.runs() for tensor in run.touched}
        assert len({tensor.name for tensor in tensors}) == len(tensors)


def test_a_layer_of_ones_own_runs_whole_unless_it_says_otherwise() -> None:
    class Own(ReLU):
        def part_images(self, *inputs: tuple[int, ...]) -> None:  # type: ignore[override]
            return None

    net = Net("own")
    x = net.chain(net.input((64, 3, 8, 8)), conv1=Conv(8, 3), own=Own(), fc=Linear(2))
    net.add("softmax", Softmax(), x)
    assert [[n.name for n in group] for group in groups(net, 2)] == [["conv1"], ["fc"]]
    assert snref.Layer().part_images((64, 3)) is None


# Verification


def test_the_verifier_finds_what_parts_can_get_wrong() -> None:
    whole = tiny_in_parts()
    place = {(run.layer, run.phase): i for i, run in enumerate(whole.runs())}
    steps = [*whole.runs()]

    def judged(wrong: list[Run]) -> str:
        with pytest.raises(InvalidPlan) as caught:
            verify(free_dead(Plan(tuple(wrong))), whole)
        return str(caught.value)

    verify(free_dead(whole), whole)
    gather = place["relu1.y.gather", "forward"]
    relu = place["relu1[2]", "forward"]
    early = [*steps]
    early.insert(relu, early.pop(gather))  # joins a part that is not computed yet
    assert "relu1.y.gather" in judged(early)
    skipped = [*steps]
    del skipped[place["fc1[2]", "backward"]]  # the sum of the weights lacks a part
    assert "fc1" in judged(skipped)
    update = place["fc1", "update"]
    soon = [*steps]
    soon.insert(place["fc1[2]", "backward"], soon.pop(update))
    assert "update fc1: reads fc1.dw, which holds" in judged(soon)
    swapped = [*steps]
    one, two = place["fc1[1]", "backward"], place["fc1[2]", "backward"]
    swapped[one], swapped[two] = swapped[two], swapped[one]
    assert "comes before" in judged(swapped)
    work = tuple(replace(w, updates=False) for w in steps[two].work)
    fresh = [*steps]
    fresh[two] = Run("fc1[2]", "backward", work)  # begins the sum again
    assert "has other kernels than in the route" in judged(fresh)


def test_a_group_does_not_begin_within_another_layers_sum() -> None:
    """A gradient that two layers sum up is in two groups."""
    net = find("gpt2", 4)
    for group in groups(net, 4):
        owned = [w for node in group for w in node.parameters.values()]
        assert len(owned) == len({*owned})


# JSON


def test_a_plan_in_parts_goes_through_files(
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from snref.__main__ import main

    monkeypatch.chdir(str(tmp_path))
    net = ["lenet", "--batch", "64", "--declarations", "reuse"]
    over = ["--overwrite", "activations"]
    parts = ["--parts", "4"]
    assert main(["export", *net, *parts, *over, "--out", "graph.json"]) == 0
    assert main(["export", *net, "--out", "whole.json"]) == 0
    plan = ["plan", *net, "--preset", "memory-centric", *over, *parts]
    assert main([*plan, "--steps", "--json", "plan.json"]) == 0
    assert "parts of the batch: conv1" in capsys.readouterr().out
    assert main(["verify", "graph.json", "plan.json"]) == 0
    assert main(["verify", "whole.json", "plan.json"]) == 2
    said = capsys.readouterr().err
    assert "plan.json: is for 4 parts of conv1 to" in said
    assert "the graph for no parts: export it with the --parts" in said
    with open("graph.json", encoding="utf-8") as file:
        graph = json.load(file)
    sums = [w for run in graph["route"] for w in run["work"] if w.get("updates")]
    assert {"conv1.dw", "conv1.db"} <= {name for w in sums for name in w["writes"]}
    assert graph["schema"] == "snref.graph/3" and len(graph["parts"][0]["images"]) == 4


def test_files_of_schema_2_are_read(
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from snref.__main__ import main

    monkeypatch.chdir(str(tmp_path))
    main(["export", "lenet", "--batch", "2", "--out", "graph.json"])
    main(["plan", "lenet", "--batch", "2", "--steps", "--json", "plan.json"])
    for file in ("graph", "plan"):
        with open(f"{file}.json", encoding="utf-8") as old:
            document = json.load(old)
        document["schema"] = f"snref.{file}/2"
        document.pop("parts", None)
        with open(f"{file}.json", "w", encoding="utf-8") as new:
            json.dump(document, new)
    assert main(["verify", "graph.json", "plan.json"]) == 0
