"""Caffe: memory for every tensor from the first iteration on, none given back.

Jia et al., Caffe: Convolutional Architecture for Fast Feature Embedding, 2014. The rule
is that of its code (``net.cpp``, ``cudnn_conv_layer.cpp``): data and gradient of each
blob are allocated at the first touch and kept; a convolution takes the fastest
algorithm whose workspace is at most 8 MiB, and one without workspace if there is none.

Our reading: layers work in place where a user of Caffe names the same blob as bottom
and top, which the published nets do for ReLU. Here they do what ``--overwrite
gradients`` allows: dx over dy, not y over x.
"""

from dataclasses import replace

from snref.plans import Plan, Run, memory
from snref.scheduler import complete
from snref.scheduler.algorithms import choose
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import hold_all
from snref.scheduler.options import Options
from snref.scheduler.placement import place
from snref.timing.costs import Costs

WORKSPACE = 8 << 20  # bytes that a convolution may use


def caffe(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan that holds all tensors, with small workspaces."""
    plan = overwrite(route, options.overwrite)
    hold = replace(options, liveness=False, recompute=None, transfers="none")
    held = max(memory(complete(plan, replace(hold, algorithms="none")), workspace=True))
    left = WORKSPACE if options.limit is None else options.limit - held

    def choose_small(run: Run) -> Run:
        return choose(run, min(WORKSPACE, left), costs, options.algorithms)

    return place(hold_all(Plan(tuple(map(choose_small, plan.runs())))), options.slab)
