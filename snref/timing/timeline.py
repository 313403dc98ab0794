"""The timeline of a plan: when each step begins and ends on three clocks."""

from collections import deque
from dataclasses import dataclass, field

from snref.plans import Alloc, Free, Offload, Plan, Prefetch, Run, Tensor
from snref.timing.costs import Costs


@dataclass(frozen=True)
class Timeline:
    """When each step of a plan begins and ends, in seconds from the iteration's start.

    Steps that take no time, Alloc and Free, begin and end when they are issued.
    """

    starts: tuple[float, ...] = field(repr=False)
    ends: tuple[float, ...] = field(repr=False)
    seconds: float
    compute_seconds: float
    copy_out_seconds: float
    copy_in_seconds: float

    @property
    def stall_seconds(self) -> float:
        """Seconds in which runs wait for copies."""
        return self.seconds - self.compute_seconds


def simulate(plan: Plan, costs: Costs, capacity: int | None = None) -> Timeline:
    """Play a plan on three clocks, for runs, copies out and copies in.

    The three overlap, except that

    - a copy waits for the runs before it;
    - a run waits for the copies in of its tensors, and for the copies out of those it
      writes;
    - a tensor or workspace that is allocated in the memory of a freed tensor waits for
      the copy out of that tensor. If the plan is not placed, the next one allocated
      waits, wherever it is.

    capacity  if it is given, only bytes count, not addresses: what is allocated waits
              until so many bytes suffice for it, what is there and what is copied out

    Raises ValueError if the costs lack a run of the plan.
    """
    compute = out = into = 0.0  # when each of the three ends what it was given
    compute_seconds = copy_out_seconds = copy_in_seconds = 0.0
    ready: dict[Tensor, float] = {}  # when a tensor's memory, or copy in, is complete
    copied: dict[Tensor, float] = {}  # when the latest copy from or to it ends
    on_host: dict[Tensor, float] = {}  # when its copy out ends
    offsets: dict[Tensor, int | None] = {}
    # Memory that is freed and still copied out: until when, from and to which address
    leaving: deque[tuple[float, int | None, int]] = deque()
    sizes: list[tuple[float, int]] = []  # of that memory, if only bytes count
    in_use = 0
    starts, ends = [], []
    for step in plan.steps:
        start = end = compute
        if isinstance(step, Run):
            for tensor in step.touched:
                if tensor in ready:
                    start = max(start, ready.pop(tensor))
            for tensor in step.writes:
                if tensor in copied and copied[tensor] > start:
                    start = copied[tensor]
            seconds = costs.seconds(step)
            compute_seconds += seconds
            compute = end = start + seconds
            starts.append(start)
            ends.append(end)
            continue
        tensor = step.tensor
        match step:
            case Alloc(offset=offset):
                if capacity is not None:
                    in_use += tensor.aligned_bytes
                    sizes = sorted(size for size in sizes if size[0] > compute)
                    while sizes and in_use + sum(size for _, size in sizes) > capacity:
                        ready[tensor] = sizes.pop(0)[0]
                offsets[tensor] = offset
                while leaving and leaving[0][0] <= compute:
                    leaving.popleft()
                for until, first, last in leaving:
                    if (
                        offset is None
                        or first is None
                        or (first < offset + tensor.aligned_bytes and offset < last)
                    ):
                        ready[tensor] = max(until, ready.get(tensor, until))
            case Free():
                ready.pop(tensor, None)
                until = copied.pop(tensor, 0.0)
                in_use -= tensor.aligned_bytes
                if until > compute and capacity is not None:
                    sizes.append((until, tensor.aligned_bytes))
                elif until > compute:
                    offset = offsets[tensor]
                    leaving.append(
                        (until, offset, (offset or 0) + tensor.aligned_bytes)
                    )
            case Offload():
                start = max(out, compute, ready.get(tensor, 0.0))
                seconds = costs.copy_out(tensor.nbytes)
                copy_out_seconds += seconds
                out = copied[tensor] = on_host[tensor] = end = start + seconds
            case Prefetch():
                there = max(ready.get(tensor, 0.0), on_host.get(tensor, 0.0))
                start = max(into, compute, there)
                seconds = costs.copy_in(tensor.nbytes)
                copy_in_seconds += seconds
                into = ready[tensor] = copied[tensor] = end = start + seconds
        starts.append(start)
        ends.append(end)
    return Timeline(
        tuple(starts),
        tuple(ends),
        max(compute, out, into),
        compute_seconds,
        copy_out_seconds,
        copy_in_seconds,
    )
