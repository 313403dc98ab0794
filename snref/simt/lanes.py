"""Tells LLVM that the threads of a run are independent.

Between two barriers CUDA promises no order among the threads of a block, so a loop over
them may be vectorised whatever its arrays overlap: `y` may lie on `x`. Without the
promise LLVM compares the arrays' addresses at every run, and gives up where they meet.

The promise is metadata of LLVM's ("llvm.loop.parallel_accesses"): the branch back to
the head of each loop over `threadIdx_x` names a group, and every access of an array's
element is in it. Kernels with atomics do not get it: their threads have an order.
"""

# mypy: ignore-errors

from llvmlite import ir
from llvmlite.ir.values import MDValue
from numba.core import ir as numba_ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

LANE = "threadIdx_x"

# These look for closures and for expressions of whole arrays. A kernel has neither.
_IDLE = {InlineClosureLikes, NopythonRewrites}


class Lanes(CompilerBase):
    """Numba's compiler, with the promise: `njit(pipeline_class=Lanes)`."""

    def define_pipelines(self):
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = PassManager("lanes")
        swap = {NativeLowering: _Lowering}
        passes.passes = [
            (swap.get(p, p), title) for p, title in usual.passes if p not in _IDLE
        ]
        passes.finalize()
        return [passes]


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "lowering_of_lanes"

    @property
    def lowering_class(self):
        return _Lower


class _Lower(Lower):
    def post_lower(self):
        super().post_lower()
        loops = [
            (self.blkmap[head], self.blkmap[end.truebr])
            for head, block in self.blocks.items()
            if isinstance(end := block.terminator, numba_ir.Branch)
            and _is_over_lanes(self.blocks[end.truebr])
        ]
        if loops:
            _promise(self.function, loops)


def _is_over_lanes(body):
    """Does the block begin a round of a loop over threadIdx_x?"""
    first = next((s for s in body.body if isinstance(s, numba_ir.Assign)), None)
    return first is not None and first.target.name.split(".")[0] == LANE


class _Distinct(MDValue):
    """A node of metadata that is only equal to itself."""

    def descr(self, buffer):
        parts = ", ".join(part.get_reference() for part in self.operands)
        buffer += (f"distinct !{{ {parts} }}", "\n")


def _promise(function, loops):
    module = function.module

    def node(*parts):
        return _Distinct(module, parts, str(len(module.metadata)))

    group = node()
    for block in function.blocks:
        for access in block.instructions:
            if isinstance(access, (ir.LoadInstr, ir.StoreInstr)):
                place = access.operands[-1]
                # a variable of the thread is no element: each thread has its own
                if not isinstance(place, ir.AllocaInstr):
                    access.set_metadata("llvm.access.group", group)
    accesses = module.add_metadata(["llvm.loop.parallel_accesses", group])
    for head, body in loops:
        inside, todo = set(), [body]
        while todo:
            block = todo.pop()
            if block is not head and block not in inside:
                inside.add(block)
                todo += _targets(block)
        loop = node()
        loop.operands = (loop, accesses)
        for block in inside:
            if head in _targets(block):  # the branch back
                block.terminator.set_metadata("llvm.loop", loop)


def _targets(block):
    """The blocks that a block may go on to."""
    end = block.terminator
    return [o for o in end.operands if isinstance(o, ir.Block)] if end else []
