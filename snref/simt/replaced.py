"""Whether numba-cuda has taken the place of Numba's own `numba.cuda`.

Kernels run with either. The drop-in stands in for the host side of `numba.cuda`, and
knows that of Numba alone.
"""

from importlib.util import find_spec

WHY_NOT = (
    "numba-cuda is installed, and takes the place of the numba.cuda that whole "
    "programs run with: use an environment without it (simt.compile, simt.check and "
    "simt.profile work in this one)"
)


def numba_cuda_is_there() -> bool:
    return find_spec("numba_cuda") is not None
