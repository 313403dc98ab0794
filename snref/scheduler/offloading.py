"""The unified tensor pool, eager (SuperNeurons, section 3.3.1): offload and prefetch.

Device and host memory are one pool. A convolution's output is large and costly, so it
is copied to the host as soon as it is computed, and back while an earlier step of the
backward pass computes. This pass inserts both copies. Since the second one defines the
tensor again, liveness frees the device's memory between them.

offload  the outputs of convolutions. Each is prefetched when the backward of the next
         convolution begins (before the re-runs for it), the last one at the first
         backward step; or right before its first use, if that is earlier. The next
         convolution is the next one in the order of the route
demand   the outputs of all checkpoints. Each is fetched right before its first use

An output that no backward run reads is not copied. Neither is one whose first use in
the backward pass comes directly after its last one in the forward pass.

Where a copy overlaps with computing is decided on a device by ``device/order.py``, and
modelled by ``timing/timeline.py``: a copy waits for the runs before it, and a run for
the copies of its tensors.

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
>>> print(offload(plan, "offload"))
forward   conv1  -> x
offload   x
forward   conv2  x -> y
forward   loss  y -> z
backward  loss  z -> dz
prefetch  x
backward  conv2  x dz -> dy
"""

from collections.abc import Sequence
from typing import get_args

from snref.plans import Offload, Plan, Prefetch, Run, Step, Tensor, only_runs
from snref.scheduler.options import Transfers
from snref.support.units import one_of


def offload(plan: Plan, transfers: Transfers, ahead: int = 1) -> Plan:
    """Insert the copies to the host and back of one kind of eager transfers.

    transfers  "offload" or "demand"; under "none" and "cache" nothing is inserted
    ahead      by how many convolutions a prefetch is early; the paper's is one
    """
    one_of("transfers", transfers, get_args(Transfers))
    if ahead < 0:
        raise ValueError(f"ahead {ahead}: must be >= 0 convolutions")
    if transfers not in ("offload", "demand"):
        return plan
    runs = only_runs(plan, "offloading")
    backward_start = _backward_start(runs)
    last_forward_use = {
        tensor: i for i in range(backward_start) for tensor in runs[i].working_set
    }
    # A join may have written over an output: then it is the join's.
    maker = {tensor: run for run in runs[:backward_start] for tensor in run.writes}
    first_backward_use: dict[Tensor, int] = {}
    for i in range(backward_start, len(runs)):
        for tensor in runs[i].reads:
            first_backward_use.setdefault(tensor, i)

    outputs: dict[Run, list[Tensor]] = {}  # what is copied to the host after which run
    for run in runs[:backward_start]:
        if run.offload if transfers == "offload" else run.checkpoint:
            outputs[run] = [
                tensor
                for tensor in run.writes
                if tensor.scheduled
                and maker[tensor] is run
                and first_backward_use.get(tensor, 0) > last_forward_use[tensor] + 1
            ]
    prefetches: dict[int, list[Tensor]] = {}  # before which run, by its number
    starts: dict[Run, int] = {}
    if transfers == "offload":
        outputs = dict(reversed(outputs.items()))  # prefetch the last output first
        starts = _backward_starts(runs, list(outputs), backward_start, ahead)
    for run, tensors in outputs.items():
        for tensor in tensors:
            first_use = first_backward_use[tensor]
            number = min(first_use, starts.get(run, first_use))
            prefetches.setdefault(number, []).append(tensor)

    steps: list[Step] = []
    for number, run in enumerate(runs):
        steps += map(Prefetch, prefetches.get(number, ()))
        steps.append(run)
        if number < backward_start:
            steps += map(Offload, outputs.get(run, ()))
    return Plan(tuple(steps))


def _backward_starts(
    runs: Sequence[Run], layers: Sequence[Run], backward_start: int, ahead: int
) -> dict[Run, int]:
    """Return before which run to prefetch each layer's output, by the run's number.

    Each output is prefetched before a run: the first of the backward, re-runs
    included, of the layer that is ``ahead`` places earlier in ``layers``. For the first
    ``ahead`` layers that is the first run of the backward pass.
    """
    begins: dict[str, int] = {}
    start = backward_start
    for number in range(backward_start, len(runs)):
        if runs[number].phase == "backward":
            begins[runs[number].layer] = start
            start = number + 1
    early = [backward_start] * ahead
    early += [begins.get(run.layer, backward_start) for run in layers]
    return dict(zip(layers, early, strict=False))


def _backward_start(runs: Sequence[Run]) -> int:
    """Return the number of the first backward run, or of the first re-run for it."""
    seen: set[str] = set()
    for number, run in enumerate(runs):
        if run.phase != "forward" or run.layer in seen:
            return number
        seen.add(run.layer)
    return len(runs)
