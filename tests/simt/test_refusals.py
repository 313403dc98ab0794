"""What cannot be compiled is refused with file, line and reason, not with a traceback
out of the compiler."""

import re
from pathlib import Path

import numpy as np
import pytest

from snref import simt

from . import refused

LINES = Path(refused.__file__).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kernel", refused.CASES, ids=lambda k: k.py_func.__name__)
def test_a_kernel_is_refused_at_its_line(kernel):
    with pytest.raises(simt.KernelError) as caught:
        simt.compile(kernel)[1, 32](np.zeros(64, np.float32))
    message = str(caught.value)
    name = kernel.py_func.__name__
    found = re.match(rf"refused\.py:(\d+): {name}: (.+)", message, re.DOTALL)
    assert found, message
    assert LINES[int(found[1]) - 1].endswith("# refused"), message
    assert refused.CASES[kernel] in found[2]


def test_a_wrong_number_of_arguments_is_named():
    with pytest.raises(simt.KernelError, match=r"takes 1 arguments, got 2"):
        simt.compile(refused.negative_index)[1, 32](np.zeros(3), np.zeros(3))


def test_a_kernel_typed_at_a_console_needs_its_source():
    scope = {}
    exec("def kernel(a):\n    a[0] = 1\n", scope)
    with pytest.raises(simt.KernelError, match="source is not at hand"):
        simt.compile(scope["kernel"])[1, 32](np.zeros(3))
