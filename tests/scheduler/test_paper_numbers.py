"""The SuperNeurons paper's numbers that follow from shapes, to the byte."""

import csv
from pathlib import Path

import pytest

from snref import nets
from snref.net import route
from snref.planning.reports import original_layer_peak, route_steps
from snref.plans import Plan
from snref.scheduler import PRESETS, Options, schedule

PAPER = Path(__file__).parents[2] / "figures" / "paper"
MIB = 2**20
COLUMNS = {
    "liveness": "liveness_mib",
    "offload": "offload_mib",
    "speed-centric": "speed_mib",
    "memory-centric": "memory_mib",
    "superneurons": "cost_mib",
}


def rows(name: str) -> list[dict[str, str]]:
    with (PAPER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def extra_forwards(plan: Plan) -> int:
    forwards = [run.layer for run in plan.runs() if run.phase == "forward"]
    return len(forwards) - len(set(forwards))


@pytest.fixture(scope="module")
def alexnet() -> Plan:
    return route(nets.alexnet(batch=200))


@pytest.mark.parametrize("preset", COLUMNS)
def test_alexnet_has_the_derived_memory_at_every_step(alexnet: Plan, preset: str):
    steps = route_steps(schedule(alexnet, PRESETS[preset]))
    expected = rows("alexnet_b200_steps.csv")
    assert len(steps) == len(expected) == 46
    for step, row in zip(steps, expected, strict=True):
        assert (step.layer, step.phase) == (row["layer"], row["phase"])
        derived = float(row[COLUMNS[preset]])
        assert step.nbytes / MIB == pytest.approx(derived, abs=0.001), row["step"]
        if preset in ("liveness", "offload"):
            assert step.tensors == int(row[f"{preset}_tensors"]), row["step"]


BIG, POOL1, MIDDLE = 96 * 55 * 55, 96 * 27 * 27, 256 * 27 * 27
POOL2, CONV3, POOL5, FC = 256 * 13 * 13, 384 * 13 * 13, 256 * 6 * 6, 4096
OUTPUTS = 3 * BIG + POOL1 + 3 * MIDDLE + POOL2 + 4 * CONV3 + 2 * POOL2 + POOL5
TAIL = 6 * FC + 2 * 1000  # outputs of the layers after pool5
# Gradients that are not written over another: of the inputs of convolutions, pools,
# products and dropout.
GRADIENTS = 3 * 227 * 227 + BIG + POOL1 + MIDDLE + POOL2 + 2 * CONV3 + POOL2 + POOL5
GRADIENTS += 4 * FC


@pytest.mark.parametrize(
    ("preset", "floats", "step", "layer"),
    [
        ("baseline", OUTPUTS + TAIL + GRADIENTS, 1, "conv1"),
        ("liveness", OUTPUTS + POOL5 + POOL2, 32, "pool5"),
        ("offload", 2 * BIG + POOL1 + 4 * MIDDLE + 2 * POOL2, 39, "pool2"),
        ("speed-centric", 4 * BIG + 2 * POOL1, 43, "pool1"),
        ("memory-centric", 4 * BIG, 44, "lrn1"),
        ("superneurons", 4 * BIG, 44, "lrn1"),
    ],
)
def test_alexnet_peaks_where_the_paper_says_to_the_byte(
    alexnet: Plan, preset: str, floats: int, step: int, layer: str
):
    steps = route_steps(schedule(alexnet, PRESETS[preset]))
    curve = [s.nbytes for s in steps]
    first = curve.index(max(curve))
    assert max(curve) == 4 * 200 * floats  # bytes a number, images
    assert (first + 1, steps[first].layer) == (step, layer)


def test_alexnet_without_in_place_gradients_needs_3056_mib(alexnet: Plan):
    options = Options(False, None, "none", overwrite="never")
    steps = route_steps(schedule(alexnet, options))
    assert steps[0].nbytes / MIB == pytest.approx(3056.362, abs=0.001)


@pytest.mark.parametrize("row", rows("derived_totals.csv"), ids=lambda row: row["net"])
def test_every_net_has_the_derived_totals(row: dict[str, str]):
    net = nets.find(row["net"], int(row["batch"]))
    whole = route(net)
    assert len(net.nodes) == int(row["layers"])

    def peak(options: Options) -> float:
        return max(s.nbytes for s in route_steps(schedule(whole, options))) / MIB

    for preset in ("baseline", "liveness", "offload"):
        derived = float(row[f"{preset}_mib"])
        assert peak(PRESETS[preset]) == pytest.approx(derived, abs=0.006), preset
    listed = original_layer_peak(schedule(whole, PRESETS["liveness"]))
    derived = float(row["original_layer_peak_mib"])
    assert listed / MIB == pytest.approx(derived, abs=0.006)
    for strategy in ("speed-centric", "memory-centric", "cost-aware"):
        column = strategy.partition("-")[0]
        options = Options(recompute=strategy, transfers="demand")
        derived = float(row[f"{column}_mib"])
        assert peak(options) == pytest.approx(derived, abs=0.006), strategy
        again = extra_forwards(schedule(whole, options))
        assert again == int(row[f"{column}_forwards"]), strategy
