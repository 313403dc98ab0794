"""The unified tensor pool, eager (SuperNeurons, section 3.3.1): out early, back early.

Device and host memory are one pool. A convolution's output is large and costly, so it
is copied to the host as soon as it is there, and back while an earlier step of the
backward computes. The pass inserts both copies; since the second defines the tensor
again, liveness frees the device's room in between.

ahead    convolutions' outputs; the last returns at the first backward step, each
         other when the backward of the next convolution begins (before its re-runs),
         or at first need if that is earlier
demand   every checkpoint's output; each returns at first need

Two convolutions; no backward reads the output of the second:

>>> from snref.plans import Launch
>>> x, y, z, dz, dy = (Tensor(name, (64,)) for name in ("x", "y", "z", "dz", "dy"))
>>> plan = Plan((
...     Run("conv1", "forward", (Launch("", (x,)),), offload=True),
...     Run("conv2", "forward", (Launch("", (y,), (x,)),), offload=True),
...     Run("loss", "forward", (Launch("", (z,), (y,)),)),
...     Run("loss", "backward", (Launch("", (dz,), (z,)),)),
...     Run("conv2", "backward", (Launch("", (dy,), (x, dz)),)),
... ))
>>> print(offload(plan, "ahead"))
forward   conv1  -> x
offload   x
forward   conv2  x -> y
forward   loss  y -> z
backward  loss  z -> dz
prefetch  x
backward  conv2  x dz -> dy
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from snref.plans import Offload, Plan, Prefetch, Run, Step, Tensor, only_runs
from snref.support.units import one_of

When: TypeAlias = Literal["ahead", "demand"]


def offload(plan: Plan, when: When = "ahead") -> Plan:
    """Insert the copies of what leaves for the host and comes back."""
    one_of("when", when, get_args(When))
    runs = only_runs(plan, "offloading")
    turn = _end_of_forward(runs)
    last_use = {t: i for i in range(turn) for t in runs[i].working_set}
    first_need: dict[Tensor, int] = {}
    for i in range(turn, len(runs)):
        for tensor in runs[i].reads:
            first_need.setdefault(tensor, i)

    leaving: dict[Run, tuple[Tensor, ...]] = {}
    for run in runs[:turn]:
        if run.offload if when == "ahead" else run.checkpoint:
            leaving[run] = tuple(
                tensor
                for tensor in run.writes
                if tensor.scheduled and first_need.get(tensor, 0) > last_use[tensor] + 1
            )
    if when == "demand":
        returns = {t: first_need[t] for tensors in leaving.values() for t in tensors}
    else:
        returns = _one_ahead(runs, turn, leaving, first_need)

    arriving: dict[int, list[Tensor]] = {}
    for tensor, place in returns.items():
        arriving.setdefault(place, []).append(tensor)
    steps: list[Step] = []
    for place, run in enumerate(runs):
        steps += map(Prefetch, arriving.get(place, ()))
        steps.append(run)
        if place < turn:
            steps += map(Offload, leaving.get(run, ()))
    return Plan(tuple(steps), (*plan.history, f"offload {when}"))


def _one_ahead(
    runs: Sequence[Run],
    turn: int,
    leaving: dict[Run, tuple[Tensor, ...]],
    first_need: dict[Tensor, int],
) -> dict[Tensor, int]:
    """Before which run each tensor returns: one convolution ahead."""
    begins: dict[str, int] = {}  # where a layer's backward starts: at its first re-run
    start = turn
    for i in range(turn, len(runs)):
        if runs[i].phase == "backward":
            begins[runs[i].layer] = start
            start = i + 1
    returns: dict[Tensor, int] = {}
    trigger = turn  # of the last convolution: the first backward step
    for run in reversed(leaving):
        for tensor in leaving[run]:
            returns[tensor] = min(trigger, first_need[tensor])
        trigger = begins.get(run.layer, trigger)
    return returns


def _end_of_forward(runs: Sequence[Run]) -> int:
    """Where backward begins, with the re-runs made for its first run."""
    seen: set[str] = set()
    for i, run in enumerate(runs):
        if run.phase != "forward" or run.layer in seen:
            return i
        seen.add(run.layer)
    return len(runs)
