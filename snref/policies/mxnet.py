"""MXNet: outputs share memory as the pending readers are counted; cheap ones mirrored.

Chen et al., MXNet, 2015, section 3.1, and its code: ``note_memory.md`` and NNVM's
``plan_memory.cc``. The graph is walked once. A tensor takes the smallest free block
between its own size and 16 times that; else the largest between a sixteenth and its
own, which grows; else a new one. A block is free again when all readers of its tensor
ran. All blocks are allocated beforehand, so the plan needs the sum of their sizes. An
output is written over an input of which this is the only reader, where the layer can.

mirror (``MXNET_BACKWARD_DO_MIRROR``, *recalled*): all outputs are computed again in the
backward pass but for those of convolutions, fully connected layers, concatenations,
dropout and the loss; each once.

Our reading: a workspace takes a block as a tensor does. MXNet 1 takes the fastest
algorithm with at most 1 GiB of workspace.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import replace

from snref.plans import (
    Alloc,
    Free,
    OutOfMemory,
    Plan,
    Run,
    Step,
    Tensor,
    extent,
    memory,
)
from snref.policies.rebuilding import kept_for_backward, rebuild
from snref.scheduler.algorithms import choose_algorithms
from snref.scheduler.in_place import overwrite
from snref.scheduler.liveness import free_dead
from snref.scheduler.options import Options
from snref.timing.costs import Costs

MATCH = 16  # how much larger or smaller a block may be
WORKSPACE = 1 << 30  # bytes that a convolution may use
COSTLY = ("linear", "head", "concat", "softmax", "dropout")  # in a kernel's name


def mxnet(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan whose tensors share blocks of memory."""
    return _shared(overwrite(route, options.overwrite), options, costs)


def mxnet_mirror(route: Plan, options: Options, costs: Costs) -> Plan:
    """Return the same with cheap outputs computed again."""
    plan = overwrite(route, options.overwrite)
    waiting = kept_for_backward(plan).items()
    cheap = [tensor for tensor, run in waiting if not _is_costly(run)]
    costly = {t for run in plan.runs() if _is_costly(run) for t in run.writes}
    return _shared(rebuild(plan, cheap, kept=costly), options, costs)


def _is_costly(run: Run) -> bool:
    names = [launch.kernel_name for launch in run.launches]
    return bool(run.choices) or any(word in name for word in COSTLY for name in names)


def _shared(plan: Plan, options: Options, costs: Costs) -> Plan:
    """Return the plan in blocks, with the largest workspaces with which it fits."""
    limit = options.limit
    allocated = free_dead(plan)
    smallest = _in_blocks(allocated)
    if limit is not None and extent(smallest) > limit:
        least = extent(smallest)
        raise OutOfMemory("the blocks", least, limit, least)
    peak = max(memory(allocated, workspace=True))
    workspace = WORKSPACE if limit is None else min(WORKSPACE, limit - peak)
    while workspace > 0:
        capacity = peak + workspace
        made = choose_algorithms(allocated, capacity, costs, options.algorithms)
        made = _in_blocks(made)
        if limit is None or extent(made) <= limit:
            return made
        workspace //= 2
    return smallest


def _in_blocks(plan: Plan) -> Plan:
    """Give every Alloc the address of a block that it shares with others."""
    free: list[tuple[int, int]] = []  # (bytes, block)
    sizes: list[int] = []  # of the blocks
    taken: dict[Tensor, int] = {}
    blocks: list[int] = []  # of the Allocs, in order
    for step in plan.steps:
        if isinstance(step, Alloc):
            block = _take(free, sizes, step.tensor.aligned_bytes)
            taken[step.tensor] = block
            blocks.append(block)
        elif isinstance(step, Free):
            block = taken.pop(step.tensor)
            insort(free, (sizes[block], block))
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    which = iter(blocks)
    steps: list[Step] = [
        replace(step, offset=offsets[next(which)]) if isinstance(step, Alloc) else step
        for step in plan.steps
    ]
    return Plan(tuple(steps))


def _take(free: list[tuple[int, int]], sizes: list[int], nbytes: int) -> int:
    """Return the block for so many bytes; it is no longer free."""
    middle = bisect_left(free, (nbytes, 0))
    if middle < bisect_right(free, (MATCH * nbytes, len(sizes))):
        return free.pop(middle)[1]
    if bisect_left(free, (-(-nbytes // MATCH), 0)) < middle:
        block = free.pop(middle - 1)[1]
        sizes[block] = nbytes
        return block
    sizes.append(nbytes)
    return len(sizes) - 1
