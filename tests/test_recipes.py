"""The recipes of tutorials/recipes: each works, in few lines; a mistake in it is named.

Every test_a_wrong_... changes a recipe as its reader might by mistake.
"""

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

import snref
from figures.claims import table
from snref.plans import Offload, Prefetch, Run, lower_bound
from snref.plans.verification import verify
from snref.scheduler.cache_refinements import refined_cache
from snref.scheduler.in_place import overwrite
from snref.scheduler.lru_cache import least_recently_used
from snref.scheduler.recomputation import recompute
from snref.timing.roofline import costs, machine

RECIPES = Path(__file__).parents[1] / "tutorials" / "recipes"
MOST_LINES = {  # that are not blank; of clock.py and two_ahead.py, what changes
    "leaky_relu.py": 40,
    "residual.py": 20,
    "v100.toml": 10,
    "peaks.py": 20,
}


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Import a recipe, or a copy of it in which something is replaced."""
    monkeypatch.syspath_prepend(RECIPES)
    names = [path.stem for path in RECIPES.glob("*.py")]

    def imported(name, *replaced):
        if replaced:
            text = (RECIPES / f"{name}.py").read_text(encoding="utf-8")
            old, new = replaced
            assert text.count(old) == 1, f"{old!r} in {name}.py"
            (tmp_path / f"{name}.py").write_text(text.replace(old, new))
            monkeypatch.syspath_prepend(tmp_path)
        invalidate_caches()
        return import_module(name)

    yield imported
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", MOST_LINES)
def test_a_recipe_is_as_short_as_it_says(name):
    lines = (RECIPES / name).read_text(encoding="utf-8").splitlines()
    count, most = sum(map(bool, lines)), MOST_LINES[name]
    assert count <= most
    said = (RECIPES / "README.md").read_text(encoding="utf-8")
    assert f"`{name}` | {count} of {most}" in said


def test_the_table_names_every_recipe_and_every_test():
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    recipes = [p.name for p in RECIPES.iterdir() if p.suffix in (".py", ".toml")]
    assert all(f"`{name}`" in text for name in recipes)
    tests = [name for name in globals() if name.startswith("test_a_wrong_")]
    assert all(f"`{name}`" in text for name in tests)


# CLOCK


def test_the_change_of_a_pass_is_at_most_five_lines():
    text = (RECIPES / "clock.py").read_text(encoding="utf-8")
    change = text.split("\n\n\n")[1]
    assert change.startswith("def clock(") and len(change.splitlines()) <= 5
    text = (RECIPES / "two_ahead.py").read_text(encoding="utf-8")
    assert text.count("ahead=2") == 1  # an argument of the pass


def cached(victim, share=1.1):
    """AlexNet in a cache a little larger than its largest working set, verified."""
    route = snref.route(snref.nets.alexnet(batch=200))
    plan = recompute(overwrite(route, "gradients"), "cost-aware")
    slab = int(share * lower_bound(plan)) // 256 * 256
    made = refined_cache(plan, slab, victim=victim)
    verify(made, route, slab=slab)
    return made


def test_clock_evicts_other_tensors_than_least_recently_used(recipe):
    assert str(cached(recipe("clock").clock, 1)) != str(cached(least_recently_used, 1))


def command_of(name):
    """The arguments of ``snref.plan`` in the command that the table gives a recipe."""
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if f"`{name}.py`" in line)
    words = line.split("`snref plan alexnet --batch 200 ")[1].split("`")[0].split()
    options = {k.lstrip("-"): v for k, v in zip(*[iter(words)] * 2, strict=True)}
    assert options.pop("policy") == f"{name}:policy"
    return options


def test_the_command_for_clock_evicts_and_otherwise_plans_as_the_preset(recipe):
    net, policy = snref.nets.alexnet(batch=200), recipe("clock").policy
    planned = snref.plan(net, policy=policy, **command_of("clock"))
    assert any(isinstance(step, Offload) for step in planned.plan.steps)
    assert planned.workspace_peak_bytes > 0  # algorithms are chosen
    for memory in None, "1.7GiB":  # where everything fits
        ours = snref.plan(net, policy=policy, memory=memory)
        assert str(ours.plan) == str(
            snref.plan(net, preset="cache", memory=memory).plan
        )


def test_a_wrong_clock_that_evicts_what_is_locked_is_refused(recipe):
    wrong = recipe("clock", " if t not in locked", "")
    with pytest.raises(ValueError, match=r"'clock' returned \S+, which is locked"):
        cached(wrong.clock)


# Two ahead


def test_two_ahead_prefetches_no_later_and_mostly_earlier(recipe):
    def runs(plan):
        return [str(run) for run in plan.runs()]

    def distances(plan):
        """By tensor, the runs between its prefetch and the first that reads it."""
        found, waiting = {}, {}
        for number, step in enumerate(plan.steps):
            if isinstance(step, Prefetch):
                waiting[step.tensor.name] = number
            elif isinstance(step, Run):
                for tensor in step.reads:
                    if tensor.name in waiting:
                        start = waiting.pop(tensor.name)
                        between = plan.steps[start:number]
                        found[tensor.name] = sum(isinstance(s, Run) for s in between)
        return found

    net, policy = snref.nets.alexnet(batch=200), recipe("two_ahead").policy
    preset = snref.plan(net, preset="superneurons")
    ahead = snref.plan(net, policy=policy, **command_of("two_ahead"))
    assert runs(preset.plan) == runs(ahead.plan)  # with the same algorithms
    one, two = distances(preset.plan), distances(ahead.plan)
    assert one.keys() == two.keys() and len(one) == 5
    assert all(two[name] >= one[name] for name in one)
    assert sum(two[name] > one[name] for name in one) >= 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ahead=2", "ahead=-2", "ahead -2: must be >= 0"),
        ('"offload"', '"two ahead"', "transfers 'two ahead': .*'offload', 'demand'"),
        ("return schedule", "schedule", "must return a Plan, returned NoneType"),
    ],
)
def test_a_wrong_two_ahead_is_refused(recipe, old, new, message):
    wrong = recipe("two_ahead", old, new)
    with pytest.raises(ValueError, match=message):
        snref.plan(snref.nets.alexnet(8), policy=wrong.policy)


# A layer


def test_the_layer_passes_its_own_test(recipe):
    recipe("leaky_relu").test_leaky_relu()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "(node.x, node.dy), (",
            "(node.dy, node.x), (",
            r"it is right with LeakyReLU\.dy and LeakyReLU\.x swapped",
        ),
        ("*inputs, scalars=slope", "*inputs", "nothing is given for slope"),
        (
            "else slope * dy[i]",
            "else dy[i] / slope",
            r"dx\[\d, \d\] is .*; differences of forward give",
        ),
    ],
)
def test_a_wrong_layer_fails_its_own_test(recipe, old, new, message):
    wrong = recipe("leaky_relu", old, new)
    with pytest.raises(snref.LayerError, match=message):
        wrong.test_leaky_relu()


# A net


def test_the_net_is_planned_and_verified(recipe):
    net = recipe("residual").small(4)
    assert snref.plan(net, preset="superneurons").extra_forwards > 0


@pytest.mark.slow
def test_the_net_is_trained(recipe):
    trained = snref.train(recipe("residual").small(32), data="digits", device="cpu")
    assert trained.accuracy > 0.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("conv2=Conv(8, 1)", "conv2=Conv(8, 3)", r"layer 'add': inputs of shapes"),
        (", softmax=Softmax()", "", "small residual' ends in fc: it must end in one"),
        ('"add", Add(), x, y', '"conv0", Add(), x, y', "two layers are called 'conv0'"),
    ],
)
def test_a_wrong_net_is_refused(recipe, old, new, message):
    with pytest.raises(ValueError, match=message):
        snref.plan(recipe("residual", old, new).small(4))


# A machine


def test_the_machine_models_time():
    v100 = machine(str(RECIPES / "v100.toml"))
    whole = snref.route(snref.nets.lenet(batch=8))
    assert 0 < costs(whole, v100).runs["conv1", "forward"] < 1


def test_a_wrong_machine_is_refused(tmp_path):
    text = (RECIPES / "v100.toml").read_text(encoding="utf-8")
    path = tmp_path / "v100.toml"
    for old, new, message in (
        ("bandwidth = {", "bandwith = {", "unknown key 'bandwith'; .* bandwidth, "),
        ("tiled = 0.4", "tiled = 40", "efficiency 'tiled' must be .* to 1, not 40"),
    ):
        path.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            machine(str(path))


# A preset


def test_the_preset_makes_a_plan(recipe):
    route = snref.route(snref.nets.lenet(batch=8))
    plan = snref.schedule(route, recipe("preset").on_demand)
    verify(plan, route)


def test_a_wrong_preset_is_refused(recipe):
    with pytest.raises(ValueError, match=r"transfers 'demanded'.*'demand'"):
        recipe("preset", '"demand"', '"demanded"')


# A figure


def test_the_figure_is_drawn_and_agrees_with_the_paper(recipe, tmp_path):
    peaks = recipe("peaks")
    rows = peaks.measure()
    peaks.draw(rows).savefig(tmp_path / "peaks.png")
    assert not any(claim.fails for claim in peaks.compare(rows))


def test_a_wrong_figure_differs_from_the_paper(recipe):
    peaks = recipe("peaks", "batch=200", "batch=20")
    claims = peaks.compare(peaks.measure())
    assert claims[0].fails
    assert "DIFFERS" in table(claims)
