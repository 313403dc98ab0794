"""Cost-aware recomputation (SuperNeurons, section 3.4): drop what is cheap to compute.

Convolutions and the like are checkpoints: their outputs are kept. The cheap layers
between two checkpoints are a segment. Their outputs are dropped after the last forward
use, and backward runs them forward again. This pass only inserts those runs. Each
defines its output a second time, so liveness frees the first value.

speed-centric    the first backward run that needs a tensor of a segment re-runs the
                 whole segment; its tensors stay for the segment's other backward runs
memory-centric   each backward run rebuilds only what it reads; what the next backward
                 run reads, too, is kept, the rest is dropped at once
cost-aware       speed-centric for a segment that, rebuilt as a whole, needs at most as
                 many bytes as the largest backward run (``layer_peak``, the paper's
                 max(l_i)); memory-centric for all others. Of the two numbers for it
                 that ``snref plan`` prints, the first decides, "largest backward run";
                 "the same as the paper's code sums it" is only printed

Under the tensor cache, re-runs and evictions are combined: this pass comes first, and
the cache may evict what a re-run rebuilt. A re-run that this makes useless is removed
(``cache_refinements``).

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

from snref.plans import Plan, Run, Step, Tensor, layer_peak, only_runs
from snref.scheduler.options import Strategy


def recompute(plan: Plan, strategy: Strategy | None) -> Plan:
    """Insert the forward runs that backward needs again; none if strategy is None.

    The number of inserted runs is at most one a layer if speed-centric, and in the
    worst case quadratic in a segment's length if memory-centric.
    """
    if strategy is None:
        return plan
    runs = only_runs(plan, "recomputation")
    if len({(run.layer, run.phase) for run in runs}) < len(runs):
        raise TypeError("the plan recomputes already")
    segments = _segments(plan)
    threshold = layer_peak(plan)
    as_a_whole = {
        segment
        for segment in segments.values()
        if strategy == "speed-centric"
        or (strategy == "cost-aware" and segment.cost <= threshold)
    }
    overwritten: set[Tensor] = set()  # by gradients
    rebuilt: set[Tensor] = set()  # and kept, for the next backward run
    done: set[_Segment] = set()  # rebuilt as a whole
    next_reads = {
        run: following.reads
        for run, following in pairwise(run for run in runs if run.in_backward)
    }
    steps: list[Step] = []
    for run in runs:
        if run.in_backward:
            for segment, needed in _by_segment(run, segments, overwritten).items():
                if segment not in as_a_whole:
                    steps += segment.runs_for(needed, rebuilt)
                    rebuilt.update(needed)
                elif segment not in done:
                    steps += segment.runs_for(segment.needed)
                    done.add(segment)
            rebuilt.intersection_update(next_reads.get(run, ()))
            overwritten.update(run.writes)
        steps.append(run)
    return Plan(tuple(steps))


class _Segment:
    """The cheap layers after one checkpoint, up to the next checkpoints.

    runs    each output -> the run that computes it, in forward order
    needed  the outputs that backward reads
    cost    bytes of the segment rebuilt as a whole
    """

    def __init__(self) -> None:
        self.runs: dict[Tensor, Run] = {}
        self.needed: list[Tensor] = []
        self.cost = 0

    def runs_for(
        self, tensors: Iterable[Tensor], available: Iterable[Tensor] = ()
    ) -> list[Run]:
        """Return the runs that rebuild these tensors, in forward order.

        They begin at the checkpoint, or at tensors that are available.
        """
        missing, found = list(tensors), set[Run]()
        while missing:
            tensor = missing.pop()
            if tensor in self.runs and tensor not in available:
                run = self.runs[tensor]
                if run not in found:
                    found.add(run)
                    missing += run.reads
        return [run for run in dict.fromkeys(self.runs.values()) if run in found]


def _segments(plan: Plan) -> dict[Tensor, _Segment]:
    """Return the segment of each cheap layer's output."""
    segments: dict[Tensor, _Segment] = {}
    by_checkpoint: dict[Tensor, _Segment] = {}
    backward: dict[str, Run] = {}
    for run in plan.runs():
        if run.phase == "backward":
            backward[run.layer] = run
        elif run.phase == "forward" and not run.checkpoint:
            source = next(t for t in run.reads if t.kind not in ("parameter", "state"))
            segment = segments.get(source) or by_checkpoint.setdefault(
                source, _Segment()
            )
            for tensor in run.writes:
                if tensor.scheduled:
                    segment.runs[tensor] = run
                    segments[tensor] = segment
        elif run.phase == "forward":
            for tensor in run.writes:  # over an output of a segment: a join does
                if tensor in segments:
                    del segments.pop(tensor).runs[tensor]
    needed = {tensor for run in plan.runs() if run.in_backward for tensor in run.reads}
    for checkpoint, segment in by_checkpoint.items():
        segment.needed = [tensor for tensor in segment.runs if tensor in needed]
        segment.cost = _cost(checkpoint, segment, backward)
    return segments


def _by_segment(
    run: Run, segments: dict[Tensor, _Segment], overwritten: set[Tensor]
) -> dict[_Segment, list[Tensor]]:
    """Return what a run reads of each segment, as long as it is not overwritten."""
    needed: dict[_Segment, list[Tensor]] = {}
    for tensor in run.reads:
        if tensor in segments and tensor not in overwritten:
            needed.setdefault(segments[tensor], []).append(tensor)
    return needed


def _cost(checkpoint: Tensor, segment: _Segment, backward: dict[str, Run]) -> int:
    """Return the bytes of a segment that is rebuilt as a whole.

    They are the checkpoint's output, all rebuilt outputs, and the gradients of the
    last rebuilt layer's backward.
    """
    runs = segment.runs_for(segment.needed)
    tensors = {checkpoint, *(tensor for run in runs for tensor in run.writes)}
    if runs and runs[-1].layer in backward:
        touched = backward[runs[-1].layer].working_set
        tensors |= {tensor for tensor in touched if tensor.kind == "gradient"}
    return sum(tensor.nbytes for tensor in tensors if tensor.scheduled)
