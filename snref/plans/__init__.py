"""Plans: what a training iteration is as a straight line of steps.

Read in this order; all of it is made of ``records``:

1. tensor        a value of the net: a name, a shape, a kind
2. launches      a kernel call on tensors; a choice between algorithms
3. steps         Run, Alloc, Free, Offload, Prefetch, and a Plan of them
4. measures      the bytes that a plan uses
5. verification  why a plan can be trusted: it computes what its route computes
"""

from snref.plans.launches import (
    PLANNED,
    RUN_VALUES,
    Algorithm,
    Choice,
    InPlace,
    Kernel,
    Launch,
    Overwrite,
    Part,
    Scalar,
    View,
    Work,
    grid_of,
)
from snref.plans.measures import (
    extent,
    host_memory,
    host_peak,
    last_prefetches,
    layer_peak,
    lower_bound,
    memory,
    peak_run,
)
from snref.plans.records import record
from snref.plans.steps import (
    Alloc,
    Free,
    InvalidPlan,
    Offload,
    OutOfMemory,
    Phase,
    Plan,
    Prefetch,
    Run,
    Step,
    lines,
    only_runs,
    reads,
    writes,
)
from snref.plans.tensor import (
    ALIGNMENT,
    ITEM_BYTES,
    SCHEDULED,
    DType,
    Kind,
    Shape,
    Tensor,
    aligned,
)

__all__ = [
    "ALIGNMENT",
    "ITEM_BYTES",
    "PLANNED",
    "RUN_VALUES",
    "SCHEDULED",
    "Algorithm",
    "Alloc",
    "Choice",
    "DType",
    "Free",
    "InPlace",
    "InvalidPlan",
    "Kernel",
    "Kind",
    "Launch",
    "Offload",
    "OutOfMemory",
    "Overwrite",
    "Part",
    "Phase",
    "Plan",
    "Prefetch",
    "Run",
    "Scalar",
    "Shape",
    "Step",
    "Tensor",
    "View",
    "Work",
    "aligned",
    "extent",
    "grid_of",
    "host_memory",
    "host_peak",
    "last_prefetches",
    "layer_peak",
    "lines",
    "lower_bound",
    "memory",
    "only_runs",
    "peak_run",
    "reads",
    "record",
    "writes",
]
