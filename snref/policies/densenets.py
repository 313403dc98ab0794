"""Memory-efficient DenseNets: concatenations and batch norms are computed again.

Pleiss et al., Memory-Efficient Implementation of DenseNets, 2017, section 3. The
outputs of concatenation and of batch normalization, and of the ReLU behind it, are
cheap to compute and many: with them a dense block's memory grows with the square of its
depth. They lie in memory that all layers share, and are computed again in the backward
pass.

Our reading: "shared by all layers" is that such an output stays for one backward run,
and for the next if that reads it, too. The copies that a fork makes of such an output
(``--fork copy``) are treated like it.
"""

from snref.plans import Plan, Run, Tensor
from snref.policies.rebuilding import kept_for_backward, rebuild
from snref.scheduler import complete
from snref.scheduler.in_place import overwrite
from snref.scheduler.options import Options
from snref.timing.costs import Costs


def densenets(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan that keeps no output of a concatenation or a batch norm."""
    plan = overwrite(route, options.overwrite)
    cheap: set[Tensor] = set()
    for run in plan.runs():
        if run.phase == "forward" and (
            _has(run, "concat")
            or _has(run, "batchnorm.")
            or (not cheap.isdisjoint(run.reads) and _has(run, "relu.", "joins.copy"))
        ):
            cheap.update(run.writes)
    dropped = cheap & kept_for_backward(plan).keys()
    kept = {tensor for run in plan.runs() for tensor in run.writes} - cheap
    made = rebuild(plan, dropped, "for one run", kept)
    return complete(made, options, costs)


def _has(run: Run, *kernels: str) -> bool:
    """Tell whether a run has a kernel with one of these words in its name."""
    names = [launch.kernel_name for launch in run.launches]
    return any(word in name for name in names for word in kernels)
