"""Measures of a plan: the bytes that it uses on the device and on the host."""

from snref.plans.steps import Alloc, Free, Offload, Plan, Prefetch, Run, Step
from snref.plans.tensor import Tensor


def memory(plan: Plan, workspace: bool = False) -> list[int]:
    """Bytes in use during each step of an allocated plan.

    Counts activations and gradients as the papers do; with workspace, also the
    scratch of convolutions, and each tensor rounded up to the alignment, which is
    what the device's memory must hold.
    """
    in_use, usage = 0, []
    for step in plan.steps:
        match step:
            case Alloc(tensor):
                if workspace:
                    in_use += tensor.aligned_bytes
                elif tensor.is_data:
                    in_use += tensor.nbytes
            case Free(tensor):
                if workspace:
                    in_use -= tensor.aligned_bytes
                elif tensor.is_data:
                    in_use -= tensor.nbytes
            case Run() | Offload() | Prefetch():
                pass
        usage.append(in_use)
    return usage


def host_memory(plan: Plan) -> list[int]:
    """Bytes kept on the host during each step: from a copy out to the last copy back.

    >>> x = Tensor("x", (64,))
    >>> host_memory(Plan((Alloc(x), Offload(x), Free(x), Alloc(x), Prefetch(x))))
    [0, 256, 256, 256, 256]
    """
    until: set[Tensor] = set()  # tensors that a later step copies back
    last: set[Step] = set()  # the last copies back of each value
    for step in reversed(plan.steps):
        match step:
            case Prefetch(tensor):
                if tensor not in until:
                    until.add(tensor)
                    last.add(step)
            case Offload(tensor):
                until.discard(tensor)
            case Run() | Alloc() | Free():
                pass
    kept, usage, ending = 0, [], 0
    for step in plan.steps:
        kept -= ending
        ending = 0
        match step:
            case Offload(tensor):
                kept += tensor.nbytes
            case Prefetch(tensor):
                if step in last:
                    ending = tensor.nbytes
            case Run() | Alloc() | Free():
                pass
        usage.append(kept)
    return usage


def extent(plan: Plan) -> int:
    """Highest address in use, in bytes, of a placed plan: peak plus fragmentation."""
    ends = (
        step.offset + step.tensor.aligned_bytes
        for step in plan.steps
        if isinstance(step, Alloc) and step.offset is not None
    )
    return max(ends, default=0)


def layer_peak(plan: Plan) -> int:
    """Bytes of the largest working set of a backward run: the paper's max(l_i)."""
    return max(
        sum(t.nbytes for t in run.working_set if t.is_data)
        for run in plan.runs()
        if run.phase == "backward"
    )


def lower_bound(plan: Plan) -> int:
    """Bytes below which this route has no plan: its largest working set.

    Every tensor is rounded up to the alignment; workspaces, which a convolution can
    do without, are not counted.
    """
    return max(
        sum(t.aligned_bytes for t in run.working_set if t.is_data)
        for run in plan.runs()
    )
