"""The recipes of tutorials/recipes: each works, in few lines; a mistake in it is named.

Every test_a_wrong_... changes a recipe as its reader might by mistake.
"""

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

import snref
from figures.claims import table
from snref.plans.verification import verify
from snref.timing.roofline import costs, machine

RECIPES = Path(__file__).parents[1] / "tutorials" / "recipes"
MOST_LINES = {  # that are not blank
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
    assert sum(map(bool, lines)) <= MOST_LINES[name]


def test_the_table_names_every_recipe_and_every_test():
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    recipes = [p.name for p in RECIPES.iterdir() if p.suffix in (".py", ".toml")]
    assert all(f"`{name}`" in text for name in recipes)
    tests = [name for name in globals() if name.startswith("test_a_wrong_")]
    assert all(f"`{name}`" in text for name in tests)


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
        ("bandwidth = {", "bandwith = {", "'bandwidth' must be a table of a value in"),
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
