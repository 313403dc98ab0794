"""The style of the pictures: each planner has a look, and colours can be told apart."""

from itertools import combinations

import pytest

from snref import views
from snref.planning.planned import PRESET_NAMES
from snref.policies import POLICIES
from snref.views import _LOOKS, look

# What people without red cones, or without green cones, see of linear red, green and
# blue: Machado, Oliveira and Fernandes 2009, severity 1.
SEEN = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red cones": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green cones": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def test_every_planner_has_a_look_that_no_other_has():
    names = [*PRESET_NAMES, *POLICIES, "least time"]
    assert set(names) <= set(_LOOKS)
    looks = [tuple(look(name).values()) for name in names]
    assert len(set(looks)) == len(looks)


def lab(colour, matrix):
    """The colour as it is seen, in CIE L*a*b* (D65)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    r, g, b = (
        min(1, max(0, sum(m * p for m, p in zip(row, linear, strict=True))))
        for row in matrix
    )
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("eyes", SEEN)
def test_the_colours_of_the_presets_are_told_apart(eyes):
    colours = {look(name)["color"] for name in (*PRESET_NAMES, "least time")}
    for one, other in combinations(colours, 2):
        a, b = lab(one, SEEN[eyes]), lab(other, SEEN[eyes])
        distance = sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) ** 0.5
        assert distance > 10, (one, other)  # 2 is just noticeable side by side


def test_the_style_embeds_fonts():
    import matplotlib

    with views.styled():
        assert matplotlib.rcParams["pdf.fonttype"] == 42
