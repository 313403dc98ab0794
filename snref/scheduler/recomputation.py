"""Cost-aware recomputation (SuperNeurons, section 3.4): forget what is cheap.

Convolutions and the like are checkpoints: their outputs are kept. The cheap layers
between two checkpoints, a segment, drop their outputs after the last forward use;
backward runs them forward again. The pass only inserts those runs. Each defines its
output a second time, so liveness frees the first value where it should.

Three strategies:

speed-centric    the first backward that misses a tensor of a segment runs the whole
                 segment; its tensors stay for the segment's other backwards
memory-centric   each backward rebuilds only what it reads; what the next backward
                 reads, too, is kept, the rest is dropped at once
cost-aware       speed-centric where the segment, rebuilt as a whole, fits under the
                 largest working set of the net; memory-centric where it does not

A convolution (a checkpoint) and a ReLU that a second convolution reads:

>>> from snref.plans import Launch
>>> x, y, z, dz, dy = (Tensor(name, (64,)) for name in ("x", "y", "z", "dz", "dy"))
>>> plan = Plan((
...     Run("conv1", "forward", (Launch("", (x,)),), checkpoint=True),
...     Run("relu1", "forward", (Launch("", (y,), (x,)),)),
...     Run("conv2", "forward", (Launch("", (z,), (y,)),), checkpoint=True),
...     Run("conv2", "backward", (Launch("", (dy,), (y, dz)),)),
... ))
>>> print(recompute(plan, "speed-centric"))
forward   conv1  -> x
forward   relu1  x -> y
forward   conv2  y -> z
recompute relu1  x -> y
backward  conv2  y dz -> dy
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from snref.plans import Plan, Run, Step, Tensor, layer_peak, only_runs
from snref.support.units import one_of

Strategy: TypeAlias = Literal["speed-centric", "memory-centric", "cost-aware"]


def recompute(plan: Plan, strategy: Strategy) -> Plan:
    """Insert the forward runs that backward needs again.

    Extra runs: at most one a layer if speed-centric; quadratic in a segment's length,
    in the worst case, if memory-centric.
    """
    one_of("strategy", strategy, get_args(Strategy))
    runs = only_runs(plan, "recomputation")
    if len({(run.layer, run.phase) for run in runs}) < len(runs):
        raise TypeError("the plan recomputes already")
    segments = _segments(plan)
    limit = layer_peak(plan)
    fast = {
        segment: strategy == "speed-centric"
        or (strategy == "cost-aware" and segment.cost <= limit)
        for segment in segments.values()
    }
    rebuilt: set[Tensor] = set()  # values that are there, rebuilt
    done: set[_Segment] = set()  # fast segments that have been run again
    steps: list[Step] = []
    backwards = [run for run in runs if run.phase == "backward"]
    following = dict(pairwise(backwards))
    for run in runs:
        if run.phase == "backward":
            for segment, wanted in _by_segment(run, segments).items():
                if not fast[segment]:
                    steps += segment.runs_for(wanted, rebuilt)
                    rebuilt.update(wanted)
                elif segment not in done:
                    steps += segment.runs_for(segment.wanted, set())
                    done.add(segment)
            after = following.get(run)
            rebuilt.intersection_update(after.reads if after else ())
        steps.append(run)
    return Plan(tuple(steps), (*plan.history, strategy))


class _Segment:
    """The cheap layers after one checkpoint, up to the next checkpoints."""

    def __init__(self) -> None:
        self.runs: dict[Tensor, Run] = {}  # who computes each tensor, in forward order
        self.wanted: tuple[Tensor, ...] = ()  # what backward reads of them
        self.cost = 0

    def runs_for(self, wanted: Iterable[Tensor], there: set[Tensor]) -> list[Run]:
        """The runs that rebuild these tensors from the checkpoint, in forward order."""
        missing, needed = list(wanted), set[Run]()
        while missing:
            tensor = missing.pop()
            if tensor in self.runs and tensor not in there:
                run = self.runs[tensor]
                if run not in needed:
                    needed.add(run)
                    missing += run.reads
        return [run for run in dict.fromkeys(self.runs.values()) if run in needed]


def _segments(plan: Plan) -> dict[Tensor, _Segment]:
    """Each cheap layer's output -> the segment it belongs to."""
    segments: dict[Tensor, _Segment] = {}
    of_checkpoint: dict[Tensor, _Segment] = {}
    wanted: dict[Tensor, None] = {}
    backward: dict[str, Run] = {}
    for run in plan.runs():
        if run.phase == "forward" and not run.checkpoint:
            sources = [tensor for tensor in run.reads if not _is_parameter(tensor)]
            for tensor in run.writes:
                if tensor.scheduled:
                    source = sources[0]
                    segment = segments.get(source) or of_checkpoint.setdefault(
                        source, _Segment()
                    )
                    segment.runs[tensor] = run
                    segments[tensor] = segment
        elif run.phase == "backward":
            backward[run.layer] = run
            wanted.update(dict.fromkeys(run.reads))
    for checkpoint, segment in of_checkpoint.items():
        segment.wanted = tuple(tensor for tensor in segment.runs if tensor in wanted)
        again = segment.runs_for(segment.wanted, set())
        if again:
            segment.cost = _cost(checkpoint, again, backward)
    return segments


def _by_segment(
    run: Run, segments: dict[Tensor, _Segment]
) -> dict[_Segment, list[Tensor]]:
    """What a run reads of each segment."""
    wanted: dict[_Segment, list[Tensor]] = {}
    for tensor in run.reads:
        if tensor in segments:
            wanted.setdefault(segments[tensor], []).append(tensor)
    return wanted


def _cost(checkpoint: Tensor, again: list[Run], backward: dict[str, Run]) -> int:
    """Bytes of a segment rebuilt as a whole: the checkpoint's output, all rebuilt
    outputs, and the gradients of its last layer's backward.
    """
    tensors = {checkpoint: None} if checkpoint.scheduled else {}
    for run in again:
        tensors |= dict.fromkeys(t for t in run.writes if t.scheduled)
    last = backward.get(again[-1].layer)
    if last is not None:
        tensors |= dict.fromkeys(t for t in last.working_set if t.kind == "gradient")
    return sum(tensor.nbytes for tensor in tensors)


def _is_parameter(tensor: Tensor) -> bool:
    return tensor.kind in ("parameter", "state")
