"""On the CPU device an index that may be negative costs a comparison. The kernels' own
are proved not to be, so their loads stay plain and LLVM vectorises them."""

import pytest

from figures import resources
from snref.simt import ir
from snref.simt.front import front
from snref.simt.indices import indices
from snref.simt.webs import webs

pytestmark = pytest.mark.slow

KERNELS = resources.kernels()
USES = resources.uses()
# A label may be any number. Of the rows that the gradients of max pooling write it is
# not proved, and max_backward is as fast without a proof.
WRAPPED = {"softmax.losses": 1, "pool.max_backward": 2, "pool.max_scatter": 3}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_indices_are_proved_not_to_be_negative(name: str) -> None:
    for use in USES[name]:
        types = [resources.numba_type(kind) for kind in use.types]
        block = use.block if isinstance(use.block, tuple) else (use.block,)
        x, y, z = (*block, 1, 1)[:3]
        made = indices(webs(front(KERNELS[name], (x, y, z), types)))
        text = "\n".join(ir.text(made.body))
        assert text.count(f"{ir.WRAP}(") <= WRAPPED.get(name, 0), text
