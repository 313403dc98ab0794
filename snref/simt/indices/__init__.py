"""Stage 3: indices that may be negative, which Numba counts from the end of an array.

    if i > 0:                             if i > 0:
        d[i] = a[i] - a[i - 1]    ->          d[i] = a[i] - a[i - 1]
    e[i] = a[i - 1]                       e[i] = a[_wrap(i - 1, a.shape[0])]

An index that cannot be negative stays as it is: it is printed as an unsigned number,
which costs no comparison and keeps addresses affine in the thread's index. To prove it,
every variable, and every shared or local array of whole numbers, gets the interval of
its values (Cousot and Cousot 1977), and conditions around an access, bounds of loops
and definitions are kept as inequalities: under `i < n` it is known that
`n - 1 - i >= 0`, and after `q = i // n` that `i - q * n >= 0`.

Integer parameters are taken not to be negative: `assumed` of the kernel names them, and
a launch with a negative one needs a kernel made without that.

To be read in this order:

    intervals     arithmetic of intervals
    inequalities  sums of products that are at least 0, and what is known at a place
    integers      which variables are whole numbers, and which decide an index
    conditions    what a condition says, if it holds and if it does not
    values        between which numbers a value lies
    accesses      the indices of an access, wrapped if they must be
    analysis      statements: the values of all variables, and what holds where
"""

from __future__ import annotations

from numba import types

from snref.simt import ir
from snref.simt.indices.analysis import Analysis
from snref.simt.indices.inequalities import NOTHING
from snref.simt.ir import Kernel


def indices(kernel: Kernel, assume: bool = True) -> Kernel:
    """The kernel with WRAP around each index that may be negative.

    Unless `assume`, parameters may be negative, too.
    """
    used = set().union(*map(ir.names, kernel.body))
    signed = {p for p, kind in kernel.types.items() if p in used and _is_signed(kind)}
    assumed = tuple(sorted(signed)) if assume else ()
    analysis = Analysis(kernel, assumed)
    analysis.settle()
    return kernel.with_body(analysis.block(kernel.body, NOTHING)[0], assumed=assumed)


def _is_signed(kind: types.Type) -> bool:
    """Is it the type of an integer, or of a tuple of integers, that may be negative?"""
    if isinstance(kind, types.BaseTuple):
        parts = [types.unliteral(part) for part in kind]
        return bool(parts) and all(isinstance(part, types.Integer) for part in parts)
    return isinstance(kind, types.Integer) and kind.signed
