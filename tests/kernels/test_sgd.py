"""The step of stochastic gradient descent."""

import numpy as np
import pytest

from snref import simt
from snref.kernels import sgd

from .reference import Array, assert_close, assert_reads, assert_repeatable

LAUNCH = (3,), (256,)
RATES = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def update(w: Array, v: Array, dw: Array, threads: int | None = None) -> list[Array]:
    w, v = w.copy(), v.copy()
    rates = (np.float32(rate) for rate in RATES.values())
    simt.compile(sgd.update, threads=threads)[LAUNCH](w, v, dw, *rates)
    return [w, v]


def values(rng: np.random.Generator, size: int) -> list[Array]:
    return [rng.standard_normal(size).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("size", (1, 255, 256, 257, 5000))
def test_a_step_follows_its_equation(size: int, rng: np.random.Generator) -> None:
    w, v, dw = (value.astype(np.float64) for value in values(rng, size))
    velocity = RATES["momentum"] * v + dw + RATES["weight_decay"] * w
    expected = w - RATES["learning_rate"] * velocity, velocity
    results = update(*(value.astype(np.float32) for value in (w, v, dw)))
    for actual, exact in zip(results, expected, strict=True):
        assert_close(actual, exact)


def test_a_step_reads_its_inputs_and_repeats_itself(rng: np.random.Generator) -> None:
    inputs = values(rng, 5000)
    assert_reads(update, *inputs)
    assert_repeatable(update, *inputs)


def test_five_steps_agree_with_pytorch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    w, v, _ = values(rng, 300)
    v[:] = 0
    parameter = torch.tensor(w, requires_grad=True)
    optimizer = torch.optim.SGD(
        [parameter],
        lr=RATES["learning_rate"],
        momentum=RATES["momentum"],
        weight_decay=RATES["weight_decay"],
    )
    for _ in range(5):
        dw = rng.standard_normal(300).astype(np.float32)
        parameter.grad = torch.tensor(dw)
        optimizer.step()
        w, v = update(w, v, dw)
    assert_close(w, parameter.detach().numpy().astype(np.float64), terms=5)
