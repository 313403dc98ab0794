"""Costs are plain data: they come back from a file as they were."""

import pytest

from snref.plans import Algorithm, Choice, Launch, Run, Tensor
from snref.timing.costs import Costs

HEADER = "what,layer,phase,part,algorithm,value\n"
LINK = "to_host,,,,,1e10\nto_device,,,,,2e10\n"


def conv_run(chosen: int) -> Run:
    x, w, y = Tensor("x", (4,)), Tensor("w", (4,), "parameter"), Tensor("y", (4,))
    menu = tuple(
        Algorithm(name, "taps", 0, 0, 0, lambda output, a, b, workspace: ())
        for name in ("tiled", "im2col")
    )
    choice = Choice("forward", y, (x, w), menu, menu[chosen])
    return Run("conv1", "forward", (choice, Launch("bias.forward", (y,), updates=True)))


COSTS = Costs(
    "by hand",
    {("conv1", "forward"): 0.25},
    {("conv1", "forward", "tiled"): 2.0, ("conv1", "forward", "im2col"): 1 / 3},
    1e10,
    2e10,
    1e-5,
)


@pytest.mark.parametrize(("chosen", "seconds"), [(0, 2.25), (1, 0.25 + 1 / 3)])
def test_a_run_costs_its_launches_and_the_algorithm_that_was_chosen(chosen, seconds):
    assert COSTS.seconds(conv_run(chosen)) == seconds


def test_a_copy_costs_the_latency_and_its_bytes_over_the_link():
    assert COSTS.copy_out(10**10) == 1 + 1e-5
    assert COSTS.copy_in(10**10) == 0.5 + 1e-5


def test_costs_come_back_from_their_file_bit_for_bit(tmp_path):
    path = str(tmp_path / "costs.csv")
    COSTS.to_csv(path)
    assert Costs.from_csv(path) == COSTS


def test_missing_seconds_are_named():
    lacking = Costs("mine.csv", {}, {}, 1.0, 1.0)
    with pytest.raises(
        ValueError, match=r"mine\.csv has no seconds for conv1\.forward"
    ):
        lacking.seconds(conv_run(0))
    with pytest.raises(ValueError, match=r"for conv1\.data by winograd"):
        COSTS.algorithm("conv1", "data", "winograd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the columns must be what,layer,phase,part,algorithm,value"),
        ("layer,seconds\n", "line 1: the columns must be"),
        (HEADER + "run,\x00", "line 2: "),
        (HEADER + LINK + "run,conv1,forward,,,fast\n", "line 4: .*not 'fast'"),
        (HEADER + LINK + "run,conv1,forward,,,-1\n", "line 4: .*from 0 to .*not '-1'"),
        (HEADER + LINK + "run,conv1,forward,,,1e999\n", "line 4: .*not '1e999'"),
        (HEADER + LINK + "run,conv1,forward,,,nan\n", "line 4: .*not 'nan'"),
        (HEADER + LINK + "run,conv1,sideways,,,1\n", "line 4: 'sideways' must be one"),
        (HEADER + LINK + "algorithm,c,,up,tiled,1\n", "line 4: 'up' must be one of"),
        (HEADER + LINK + "walk,conv1,forward,,,1\n", "line 4: 'walk' must be one of"),
        (HEADER + LINK + "\nrun,conv1,forward\n", "line 5: 3 columns"),
        (
            HEADER + LINK + 2 * "run,c,forward,,,1\n",
            "line 5: a second .* run c forward",
        ),
        (HEADER + LINK + LINK, "line 4: a second value of to_host"),
        (HEADER + "to_host,,,,,0\n", "line 2: .*from 0.001 to .* not '0'"),
        (HEADER + "to_host,,,,,1\n", "no row 'to_device'"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_line(tmp_path, text, message):
    path = tmp_path / "costs.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"costs\.csv.*" + message):
        Costs.from_csv(str(path))
