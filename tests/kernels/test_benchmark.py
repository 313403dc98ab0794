"""The benchmark runs; what it says of this machine is nobody's business here."""

import pytest

from figures import kernels


@pytest.mark.slow
def test_the_benchmark_measures_forward_and_backward() -> None:
    rows = kernels.measure_here(["ReLU"])
    assert [row["part"] for row in rows] == ["forward", "backward"]
    assert all(row["one_core"] > 0 and row["two_cores"] > 0 for row in rows)
    assert kernels.table(rows).count("\n") == 2
    assert kernels.draw(rows).axes
