"""Measures of a plan: the bytes that it uses on the device and on the host."""

from collections.abc import Sequence

from snref.plans.steps import Alloc, Free, Offload, Plan, Prefetch, Run, Step
from snref.plans.tensor import Tensor


def memory(plan: Plan, workspace: bool = False) -> list[int]:
    """Return the bytes in use during each step of an allocated plan.

    workspace  False: activations and gradients, as the papers count; True: workspaces,
               too, and each tensor rounded up to the alignment, which is what the
               device's memory must hold
    """

    def counted(tensor: Tensor) -> int:
        if workspace:
            return tensor.aligned_bytes
        return tensor.nbytes if tensor.is_data else 0

    in_use, usage = 0, []
    for step in plan.steps:
        if isinstance(step, Alloc):
            in_use += counted(step.tensor)
        elif isinstance(step, Free):
            in_use -= counted(step.tensor)
        usage.append(in_use)
    return usage


def peak_run(plan: Plan) -> Run:
    """Return the run of an allocated plan during which most bytes are in use."""
    usage = zip(memory(plan, workspace=True), plan.steps, strict=True)
    runs = [(nbytes, step) for nbytes, step in usage if isinstance(step, Run)]
    return max(runs, key=lambda run: run[0])[1]


def host_memory(plan: Plan) -> list[int]:
    """Return the bytes kept on the host during each step.

    A tensor is kept from the copy to the host until the last copy back.

    >>> x = Tensor("x", (64,))
    >>> host_memory(Plan((Alloc(x), Offload(x), Free(x), Alloc(x), Prefetch(x))))
    [0, 256, 256, 256, 256]
    """
    last = last_prefetches(plan.steps)
    kept: set[Tensor] = set()
    total, usage, ending = 0, [], 0
    for step in plan.steps:
        total -= ending
        ending = 0
        if isinstance(step, Offload) and step.tensor not in kept:
            kept.add(step.tensor)
            total += step.tensor.nbytes
        elif isinstance(step, Prefetch) and step in last:
            kept.remove(step.tensor)
            ending = step.tensor.nbytes
        usage.append(total)
    return usage


def host_peak(plan: Plan) -> int:
    """Return the most bytes that are kept on the host at once."""
    copies = [step for step in plan.steps if type(step) in (Offload, Prefetch)]
    return max(host_memory(Plan(tuple(copies))), default=0)


def last_prefetches(steps: Sequence[Step]) -> set[Prefetch]:
    """Return the copies back after which a value's copy on the host is not read again.

    >>> x = Tensor("x", (64,))
    >>> steps = Offload(x), Prefetch(x), Prefetch(x)
    >>> last_prefetches(steps) == {steps[2]}
    True
    """
    read_later: set[Tensor] = set()
    last: set[Prefetch] = set()
    for step in reversed(steps):
        if isinstance(step, Prefetch) and step.tensor not in read_later:
            read_later.add(step.tensor)
            last.add(step)
        elif isinstance(step, Offload):
            read_later.discard(step.tensor)
    return last


def extent(plan: Plan) -> int:
    """Return the highest address of a placed plan, in bytes."""
    ends = [
        step.offset + step.tensor.aligned_bytes
        for step in plan.of(Alloc)
        if step.offset is not None
    ]
    return max(ends, default=0)


def layer_peak(plan: Plan) -> int:
    """Return the bytes of the largest backward run: the paper's max(l_i)."""
    return max(
        sum(t.nbytes for t in run.working_set if t.is_data)
        for run in plan.runs()
        if run.in_backward
    )


def lower_bound(plan: Plan) -> int:
    """Return the bytes below which this route has no plan: its largest working set.

    Every tensor is rounded up to the alignment. Workspaces are not counted, since a
    convolution can do without.
    """
    return max(sum([t.aligned_bytes for t in run.working_set]) for run in plan.runs())
