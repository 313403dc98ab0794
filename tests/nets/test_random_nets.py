"""Random nets have what a planner can stumble over. ``pytest -s`` prints how often."""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import TypeAlias

import pytest

from snref.layers import Conv, Fork
from snref.net import Net, route
from snref.nets import random_net
from snref.plans import Tensor

SEEDS = 1000
Open: TypeAlias = tuple[tuple[int, Fraction], ...]  # forks, and the share of each


def nesting(net: Net) -> int:
    """The most forks open at once: a join of all branches closes one."""
    inside: dict[Tensor, Open] = {}
    deepest = 0
    for node in net.nodes:
        stacks = [inside.get(x, ()) for x in node.xs]
        here = stacks[0]
        if len(stacks) > 1:
            assert len({stack[:-1] for stack in stacks}) == 1
            share = sum((stack[-1][1] for stack in stacks), Fraction(0))
            fork = here[-1][0]
            here = here[:-1] if share == 1 else (*here[:-1], (fork, share))
        if isinstance(node.layer, Fork):
            here = (*here, (node.number, Fraction(1, node.layer.branches)))
        inside |= dict.fromkeys(node.ys, here)
        deepest = max(deepest, len(here))
    assert inside[net.nodes[-1].y] == ()
    return deepest


def features(net: Net) -> Iterator[str]:
    yield f"forks nested {nesting(net)} deep"
    sizes = [tensor.nbytes for tensor in net.tensors("activation")]
    if max(sizes) >= 100 * min(sizes):
        yield "sizes differing a hundredfold"
    for node in net.nodes:
        kind = type(node.layer).__name__
        yield f"layer {kind}"
        if isinstance(node.layer, Fork):
            yield f"tensor read by {node.layer.branches}"
        elif len(node.xs) > 1:
            yield f"{kind} of {len(node.xs)}"
            if any(".fork." in x.name for x in node.xs):
                yield "shortcut"
            if len({x.name.rpartition(".")[0] for x in node.xs}) < len(node.xs):
                yield "value joined with itself"
        if isinstance(node.layer, Conv):
            r, s = node.parameters["w"].shape[2:]
            if r != s:
                yield "rectangular kernel"
            if node.layer.groups > 1:
                yield "groups"
            if node.layer.stride != 1:
                yield "stride"
            if not node.layer.bias:
                yield "no bias"
        for work in node.layer.backward(node):
            for _, _, setting in getattr(work, "may_overwrite", ()):
                yield f"in place: {setting}"


@pytest.mark.slow
def test_every_feature_occurs() -> None:
    coverage: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for seed in range(SEEDS):
        net = random_net(seed)
        lengths[len(net.nodes)] += 1
        coverage.update(set(features(net)))
    for feature, nets in sorted(coverage.items()):
        print(f"{nets:5} of {SEEDS} random nets have  {feature}")
    assert min(lengths) == 5 and max(lengths) == 60 and len(lengths) == 56
    wanted = {f"forks nested {depth} deep" for depth in range(4)}
    wanted |= {f"tensor read by {readers}" for readers in (2, 3, 4, 5)}
    wanted |= {f"{join} of {n}" for join in ("Add", "Concat") for n in (2, 3, 4)}
    wanted |= {
        "layer AveragePool",
        "layer BatchNorm",
        "layer Conv",
        "layer Dropout",
        "layer LRN",
        "layer Linear",
        "layer MaxPool",
        "layer ReLU",
        "sizes differing a hundredfold",
        "in place: gradients",
        "in place: activations",
        "shortcut",
        "value joined with itself",
        "rectangular kernel",
        "groups",
        "stride",
        "no bias",
    }
    rare = {feature: coverage[feature] for feature in wanted if coverage[feature] < 25}
    assert not rare
    assert not any(f"read by {n}" in feature for feature in coverage for n in (6, 7, 8))


def test_a_seed_always_gives_the_same_net() -> None:
    for seed in range(20):
        assert str(route(random_net(seed))) == str(route(random_net(seed)))
    assert str(route(random_net(1))) != str(route(random_net(2)))


def test_the_batch_is_an_argument() -> None:
    for seed in range(20):
        small, large = random_net(seed, 1), random_net(seed, 7)
        for one, seven in zip(small.nodes, large.nodes, strict=True):
            assert seven.y.shape == (7, *one.y.shape[1:])
