"""What cannot be compiled is refused with file, line and reason, not with a traceback
out of the compiler."""

import re
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba import cuda
from numba.core.errors import TypingError

from snref import simt
from snref.simt import run
from snref.simt.front import statements
from snref.simt.infer import refusal

from . import refused

LINES = Path(refused.__file__).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kernel", refused.CASES, ids=lambda k: k.py_func.__name__)
def test_a_kernel_is_refused_at_its_line(kernel):
    with pytest.raises(simt.KernelError) as caught:
        simt.compile(kernel)[1, 32](np.zeros(64, np.float32))
    names_the_line(kernel, str(caught.value), refused.CASES[kernel])
    assert not re.search(r"[%$]|Literal|Tuple\(|array\(", str(caught.value))


def names_the_line(kernel, message, problem):
    name = kernel.py_func.__name__
    found = re.match(rf"refused\.py:(\d+): {name}: (.+)", message, re.DOTALL)
    assert found, message
    assert LINES[int(found[1]) - 1].endswith("# refused"), message
    assert problem in found[2]


@pytest.mark.parametrize("kernel", refused.UNSEEN, ids=lambda k: k.py_func.__name__)
@pytest.mark.parametrize("look", [simt.check, simt.profile])
def test_what_check_mode_and_the_profile_would_not_see_they_refuse(kernel, look):
    a = np.zeros((32, 4), np.float32)
    with pytest.raises(simt.KernelError) as caught:
        look(kernel)[1, 32](a, np.ones_like(a))
    names_the_line(kernel, str(caught.value), refused.UNSEEN[kernel])
    simt.compile(kernel)[1, 1](a, np.ones_like(a))  # which runs as Numba has it
    assert a.any()


def test_a_wrong_number_of_arguments_is_named():
    with pytest.raises(simt.KernelError, match=r"takes 1 arguments, got 2"):
        simt.compile(refused.text_added_to_a_number)[1, 32](np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("run", [simt.compile, simt.check, simt.profile])
def test_an_array_of_a_type_without_code_is_named(run):
    kernel = refused.text_added_to_a_number
    line = kernel.py_func.__code__.co_firstlineno
    place = rf"^refused\.py:{line}: text_added_to_a_number: argument 1: .*>f4"
    with pytest.raises(simt.KernelError, match=place):
        run(kernel)[1, 32](np.zeros(3, ">f4"))
    with pytest.raises(simt.KernelError, match=place):
        simt.show(kernel, 32, np.zeros(3, ">f4"))


@pytest.mark.parametrize(
    ("given", "what"), [(object(), "an object"), ({1: 2}, "a dict"), ([1, 2], "a list")]
)
def test_an_argument_that_no_kernel_takes_is_named(given, what):
    named = rf"plain: argument 1: {what} is no argument of a kernel"
    with pytest.raises(simt.KernelError, match=named):
        simt.compile(plain)[1, 1](given)


@pytest.mark.parametrize("kernel", [3, int, len, None, refused])
def test_what_is_no_function_is_no_kernel(kernel):
    with pytest.raises(TypeError, match="a kernel is a function written with def, not"):
        simt.compile(kernel)


def test_a_kernel_typed_at_a_console_needs_its_source():
    scope = {}
    exec("def kernel(a):\n    a[0] = 1\n", scope)
    with pytest.raises(simt.KernelError, match="source is not at hand"):
        simt.compile(scope["kernel"])[1, 32](np.zeros(3))


def test_a_refusal_has_no_colours():
    """Numba marks its messages with them where colorama is installed."""
    error = TypingError("\x1b[1m\x1b[1mUnknown attribute 'a'\x1b[0m of type int64")
    kernel = SimpleNamespace(line=3, error=lambda line, text: f"{line}: {text}")
    expected = "3: Numba cannot type it: Unknown attribute 'a' of type int64"
    assert refusal(kernel, error) == expected


@cuda.jit
def plain(a):
    a[0] = 1
    a[1] = a[0] + 1


@pytest.mark.parametrize(
    "module, name, line",
    [
        (statements.Statements, "assign", 2),
        (run, "lockstep", 0),
        (run, "emit", 0),
        (numba.core.lowering.Lower, "lower_assign", 0),
    ],
)
def test_a_failure_of_the_compiler_names_the_kernel_and_no_text_of_its_own(
    monkeypatch, module, name, line
):
    """A stage that fails, text that is no Python, code that Numba cannot make."""

    def fail(*given):
        if name == "emit":
            return "def launch(:"
        raise KeyError("_of")

    monkeypatch.setattr(module, name, fail)
    monkeypatch.setattr(run.cache, "key", lambda *given: f"failure_{name}")
    with pytest.raises(simt.KernelError) as caught:
        simt.compile(plain)[1, 1](np.zeros(3))
    first = plain.py_func.__code__.co_firstlineno
    message = str(caught.value)
    assert message.startswith(f"test_refusals.py:{first + line}: plain: "), message
    assert "\n" not in message and "_of" not in message
