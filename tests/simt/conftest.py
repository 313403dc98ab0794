"""Whole CUDA programs are run by test_drop_in.py, not imported to look for doctests."""

from snref.simt.replaced import numba_cuda_is_there

collect_ignore = ["programs"]
if numba_cuda_is_there():  # the drop-in needs Numba's own numba.cuda
    collect_ignore += ["test_children.py", "test_drop_in.py", "test_language.py"]
    collect_ignore += ["test_numba_suite.py"]
