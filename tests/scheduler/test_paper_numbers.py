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


@pytest.mark.parametrize(
    ("preset", "peak", "step", "layer"),
    [
        ("baseline", 2189.4371, 1, "conv1"),
        ("liveness", 1489.3555, 32, "pool5"),
        ("offload", 1132.0557, 39, "pool2"),
        ("speed-centric", 993.0176, 43, "pool1"),
        ("memory-centric", 886.2305, 44, "lrn1"),
        ("superneurons", 886.2305, 44, "lrn1"),
    ],
)
def test_alexnet_peaks_where_the_paper_says(
    alexnet: Plan, preset: str, peak: float, step: int, layer: str
):
    steps = route_steps(schedule(alexnet, PRESETS[preset]))
    curve = [s.nbytes for s in steps]
    first = curve.index(max(curve))
    assert max(curve) / MIB == pytest.approx(peak, abs=0.0001)
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
