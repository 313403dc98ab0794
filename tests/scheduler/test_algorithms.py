"""The rule by which a convolution gets one of its algorithms."""

import pytest

from snref.plans import Algorithm, Choice, Run, Tensor
from snref.scheduler.algorithms import choose
from snref.scheduler.options import Algorithms
from snref.timing.costs import Costs


def chosen(
    *menu: tuple[str, int, float], left: int, allowed: Algorithms = "fastest"
) -> str:
    """The algorithm chosen of a menu of (order, workspace, seconds), by its place."""
    x, y = Tensor("x", (4,)), Tensor("y", (4,))
    algorithms = tuple(
        Algorithm(f"{i}", order, workspace, 0, 0, lambda output, a, b, scratch: ())
        for i, (order, workspace, _) in enumerate(menu)
    )
    seconds = {("c", "forward", f"{i}"): entry[2] for i, entry in enumerate(menu)}
    run = Run(
        "c", "forward", (Choice("forward", y, (x, x), algorithms, algorithms[0]),)
    )
    made = choose(run, left, Costs("by hand", {}, seconds, 1.0, 1.0), allowed)
    return made.choices[0].chosen.name


TAPS, FAST, ALSO_FAST = ("taps", 0, 3.0), ("taps", 512, 1.0), ("taps", 512, 1.0)


def test_the_fastest_that_fits_is_chosen() -> None:
    assert chosen(TAPS, FAST, left=512) == "1"
    assert chosen(TAPS, FAST, left=511) == "0"
    assert chosen(TAPS, ("taps", 1, 1.0), left=255) == "0"  # rounded up to 256


def test_of_equally_fast_ones_the_smaller_workspace_then_the_first() -> None:
    assert chosen(TAPS, FAST, ("taps", 256, 1.0), left=512) == "2"
    assert chosen(TAPS, FAST, ALSO_FAST, left=512) == "1"
    assert chosen(("taps", 0, 1.0), ("taps", 0, 1.0), left=512) == "0"


@pytest.mark.parametrize(
    ("allowed", "expected"), [("none", "0"), ("exact", "0"), ("fastest", "1")]
)
def test_another_order_of_sums_must_be_allowed(
    allowed: Algorithms, expected: str
) -> None:
    other = ("winograd", 0, 1.0)
    assert chosen(TAPS, other, left=512, allowed=allowed) == expected
