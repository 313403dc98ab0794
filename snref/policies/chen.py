"""Chen's segments: keep what lies between segments, compute a segment again.

Chen, Xu, Zhang and Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016,
section 4.2 and algorithm 3. The forward pass is cut into segments of at most b bytes.
Only the tensors between segments are kept; the first backward run of a segment computes
the rest of it again. With about sqrt(n) segments memory grows with sqrt(n).

The paper searches b on a grid around the b at which what is kept and the largest
segment need as many bytes. Our reading: the grid covers powers of sqrt(2) around the
bytes of all outputs over sqrt(n); the quickest plan that fits is taken, and without a
limit the smallest one. Where the paper's user marks the points at which a net may be
cut, here it is cut where a single tensor leads from what comes before to what comes
after; if a net has fewer than sqrt(n) such points, anywhere.
"""

from collections.abc import Collection
from math import isqrt

from snref.plans import OutOfMemory, Plan, Run, Tensor, extent
from snref.policies.rebuilding import (
    first_backward,
    forward_cuts,
    kept_for_backward,
    rebuild,
)
from snref.scheduler import complete
from snref.scheduler.in_place import overwrite
from snref.scheduler.options import Options
from snref.timing.costs import Costs
from snref.timing.timeline import simulate

GRID = tuple(2 ** (power / 2) for power in range(-6, 7))


def chen(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the best plan of those that keep what lies between segments."""
    plan = overwrite(route, options.overwrite)
    runs = tuple(plan.runs())
    forward = runs[: first_backward(runs)]
    total = sum(t.nbytes for run in forward for t in run.writes if t.scheduled)
    cuts = forward_cuts(forward)
    if len(cuts) < isqrt(len(forward)):
        cuts = {*forward}
    waiting = kept_for_backward(plan)
    tried: set[frozenset[Tensor]] = set()
    plans: list[Plan] = []
    failures: list[OutOfMemory] = []
    for factor in GRID:
        budget = factor * total / max(1, isqrt(len(forward)))
        kept = _between_segments(forward, cuts, budget)
        dropped = frozenset(waiting.keys() - kept)
        if dropped in tried:
            continue
        tried.add(dropped)
        try:
            made = rebuild(plan, dropped, kept=kept)
            plans.append(complete(made, options, costs))
        except OutOfMemory as error:
            failures.append(error)
    if not plans:
        raise min(failures, key=lambda error: error.least)
    if options.limit is None:
        return min(plans, key=extent)
    return min(plans, key=lambda made: simulate(made, costs).seconds)


def _between_segments(
    forward: Collection[Run], cuts: Collection[Run], budget: float
) -> set[Tensor]:
    """Return the tensors that are kept if a segment has at most so many bytes."""
    kept: set[Tensor] = set()
    segment = 0
    for run in forward:
        segment += sum(tensor.nbytes for tensor in run.writes if tensor.scheduled)
        if run in cuts and segment > budget:
            kept.update(run.writes)
            segment = 0
    return kept
