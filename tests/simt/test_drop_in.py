"""`python -m snref.simt`: unchanged CUDA programs, and a verdict on every name.

`programs/` holds whole programs that know nothing of this project. Those whose first
line says "Manual" are written after an example kernel of the Numba manual's section on
CUDA, those with "numba-cuda" after one of that package's manual.
"""

import doctest
import inspect
import os
import pickle
import runpy
import subprocess
import sys
from collections import Counter, namedtuple
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numba
import numpy as np
import pytest
from numba import cuda
from numba.core import config
from numba.core.errors import NumbaPerformanceWarning, TypingError
from numba.cuda.cudadrv import devicearray
from numba.extending import overload

from snref import simt
from snref.simt import __main__ as command
from snref.simt import drop_in, replaced
from snref.simt.drop_in import MODES, installed, replacements
from snref.simt.drop_in.names import REFUSED, ROWS, VERDICTS, page
from snref.simt.drop_in.refusals import RULES

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    p.stem: p for p in sorted((Path(__file__).parent / "programs").glob("*.py"))
}
MANUAL = [n for n, p in PROGRAMS.items() if p.read_text().startswith('"""Manual')]

# Programs that do not run, and what their KernelError says.
DO_NOT_RUN = {
    "foreign_function": "(rule foreign-code)",
    "foreign_link": "(rule foreign-code)",
}


@cache
def outcome(name: str) -> simt.KernelError | None:
    """Run a program once; the KernelError that ended it."""
    try:
        with installed():
            runpy.run_path(str(PROGRAMS[name]), run_name="__main__")
    except simt.KernelError as error:
        return error
    return None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if number % 2 else [])
        for number, name in enumerate(n for n in PROGRAMS if n not in DO_NOT_RUN)
    ],
)
def test_an_unchanged_program_runs(name):
    assert outcome(name) is None


@pytest.mark.parametrize("name", DO_NOT_RUN)
def test_a_refusal_names_its_rule_and_line(name):
    error = outcome(name)
    assert error is not None
    assert DO_NOT_RUN[name] in str(error)
    file, line, _ = str(error).split(":", 2)
    assert file == f"{name}.py"
    assert 0 < int(line) <= len(PROGRAMS[name].read_text().splitlines())


@pytest.mark.slow
def test_nine_in_ten_example_kernels_of_the_manual_run(capsys):
    refused = Counter(DO_NOT_RUN[n] for n in MANUAL if outcome(n) is not None)
    run = len(MANUAL) - refused.total()
    with capsys.disabled():
        print(
            f"\nexample kernels of the Numba manual: {run} of {len(MANUAL)} run "
            f"({run / len(MANUAL):.0%}); refused: "
            + ", ".join(f"{why} {n}" for why, n in refused.items())
        )
    assert run >= 0.9 * len(MANUAL)


@pytest.mark.slow
def test_the_tests_of_numbas_own_manual_run(tmp_path):
    """Numba ships its manual's examples as tests, made for a GPU."""
    package = pytest.importorskip("numba.cuda.tests.doc_examples")
    folder = Path(package.__file__).parent
    # random numbers for an array of 1.8 GB; the heat equation is in programs/
    options = ["-q", "-p", "no:cacheprovider", "-k", "not ex_3d_grid"]
    result = run("-m", "pytest", str(folder), *options, cwd=tmp_path)
    failed = [s for s in result.stdout.splitlines() if s.startswith("FAILED")]
    assert all("sessionize" in line for line in failed), result.stdout
    assert "passed" in result.stdout


# ---------------------------------------------------------------- every name, a verdict


def test_the_page_is_the_table():
    assert (Path(simt.__file__).parent / "NAMES.md").read_text() == page()


def test_every_public_name_of_numba_cuda_has_a_verdict():
    def of_numba(value):
        outside = isinstance(value, ModuleType) and not value.__name__.startswith(
            "numba"
        )
        return not outside

    names = {
        n for n in dir(cuda) if not n.startswith("_") and of_numba(getattr(cuda, n))
    }
    assert names <= VERDICTS.keys()


def test_no_name_is_in_the_table_that_numba_cuda_lacks():
    skipped = {"Modules"}  # imported, and so visible, by need
    lacking = {"libdevice"}  # a module, too
    if cuda.implementation == "Built-in":
        skipped.add("In numba-cuda only")
    else:
        lacking |= {"bf16", "fp16", "test"}
        lacking |= {"shfl_sync_intrinsic", "vote_sync_intrinsic"}
    names = [n for row in ROWS if row.section not in skipped for n in row.names]
    assert {n for n in names if not hasattr(cuda, n)} <= lacking


def test_no_name_has_two_verdicts():
    assert len(VERDICTS) == sum(len(row.names) for row in ROWS)
    assert {row.verdict for row in ROWS} == {"runs", "differs", "refused"}


def test_what_replaces_a_name_has_a_verdict():
    assert replacements(simt.compile).keys() <= VERDICTS.keys()


@pytest.mark.parametrize("name", [n for n in REFUSED if hasattr(cuda, n)])
def test_a_refused_name_raises_at_the_line_of_its_call(name):
    with installed():
        line = inspect.currentframe().f_lineno + 2
        with pytest.raises(simt.KernelError) as caught:
            getattr(cuda, name)("any", "arguments")
    rule = RULES[REFUSED[name]]
    expected = (
        f"{Path(__file__).name}:{line}: cuda.{name}: {rule} (rule {REFUSED[name]})"
    )
    assert str(caught.value) == expected


def names_in_kernels(*verdicts):
    rows = [row for row in ROWS if row.section == "In kernels"]
    return [n for row in rows if row.verdict in verdicts for n in row.names]


@pytest.mark.parametrize("name", names_in_kernels("runs", "differs"))
def test_a_name_for_kernels_that_runs_is_used_by_a_program(name):
    users = [n for n, p in PROGRAMS.items() if f"cuda.{name}" in p.read_text()]
    assert any(outcome(n) is None for n in users)


def test_every_vector_type_runs(tmp_path):
    names = [n for row in ROWS if row.section == "Vector types" for n in row.names]
    lines = ["from numba import cuda", "@cuda.jit", "def use(out):"]
    for i, n in enumerate(names):
        last = "xyzw"[int(n[-1]) - 1]
        arguments = ", ".join("1234"[: int(n[-1])])
        lines += [f"    v{i} = cuda.{n}({arguments})", f"    out[{i}] = v{i}.{last}"]
    path = tmp_path / "vectors.py"
    path.write_text("\n".join(lines))
    out = np.zeros(len(names), np.int64)
    with installed():
        runpy.run_path(str(path))["use"][1, 1](out)
    assert out.tolist() == [int(n[-1]) for n in names]


def test_a_name_for_kernels_that_is_refused_is_refused_at_its_line(tmp_path):
    call = {"fp16": "fp16.hadd(x[0], x[0])", "libdevice": "libdevice.sqrtf(x[0])"}
    names = [n for n in names_in_kernels("refused") if hasattr(cuda, n)]
    lines = ["from numba import cuda", "import numba.cuda.libdevice", "kernels = {}"]
    expected = {}
    for n in names:
        lines += ["@cuda.jit", f"def use_{n}(x):"]
        expected[n] = f"refused.py:{len(lines) + 1}: use_{n}: "
        lines += [
            f"    x[0] = cuda.{call.get(n, f'{n}(1)')}",
            f"kernels['{n}'] = use_{n}",
        ]
    path = tmp_path / "refused.py"
    path.write_text("\n".join(lines))
    with installed():
        kernels = runpy.run_path(str(path))["kernels"]
        for n, message in expected.items():
            with pytest.raises(simt.KernelError) as caught:
                kernels[n][1, 32](np.zeros(1))
            assert message in str(caught.value)
            assert n in str(caught.value)


# -------------------------------------------------------------------- what stays CUDA's


def test_numba_cuda_is_itself_again_afterwards():
    before = dict(vars(cuda))
    with installed():
        assert cuda.jit is not before["jit"]
    assert dict(vars(cuda)) == before


def test_new_device_memory_is_not_zero():
    with installed():
        assert np.isnan(cuda.device_array(10).copy_to_host()).all()
        assert (
            cuda.device_array((2, 3), np.int32, order="F").copy_to_host() == -1
        ).all()


def test_a_copy_needs_equal_dtypes_and_shapes():
    with installed():
        device = cuda.to_device(np.zeros(4))
        with pytest.raises(TypeError, match="dtype"):
            device.copy_to_host(np.zeros(4, np.float32))
        with pytest.raises(ValueError, match="shape"):
            device.copy_to_device(np.zeros(5))
        with pytest.raises(ValueError, match="contiguous"):
            cuda.to_device(np.zeros(8)[::2])


def test_a_launch_keeps_the_limits_of_cuda():
    with installed():

        @cuda.jit
        def nothing(x):
            pass

        for configuration in [(1, 1025), (0, 1), (1, (1, 1, 65)), ((1, 65536), 1)]:
            with pytest.raises(simt.KernelError, match="rule launch-limits"):
                nothing[configuration](np.zeros(1))
        with pytest.raises(ValueError):
            nothing(np.zeros(1))
        nothing[1, 1](np.zeros(1))
        with pytest.raises(simt.KernelError, match="rule gpu-binary"):
            nothing.inspect_asm()


def test_arguments_that_fit_no_signature_are_refused():
    with installed():

        @cuda.jit("void(float32[:], int32)")
        def fill(x, value):
            x[0] = value

        x = np.zeros(1, np.float32)
        for arguments in [(np.zeros(1), 1), (x[None], 1), (1, 1), (x, 1j), (x,)]:
            with pytest.raises(TypeError, match=r"test_drop_in.py:\d+: fill: No match"):
                fill[1, 1](*arguments)


def test_a_kernel_tells_what_it_was_compiled_for():
    with installed():

        @cuda.jit
        def fill(x, value):
            x[0] = value

        assert fill.signatures == [] and fill.overloads == {}
        x = cuda.to_device(np.zeros(1, np.float32))
        fill[1, 1](x, 1)
        (signature,) = fill.signatures
        assert signature == (numba.float32[::1], numba.int64)
        assert fill.overloads[signature].max_threads_per_block == 1024
        assert fill.get_max_threads_per_block() == {signature: 1024}
        declared = cuda.jit("void(float32[:], int64)")(fill)
        assert declared.signatures == [(numba.float32[:], numba.int64)]


def test_a_specialized_kernel_is_one_for_these_types():
    with installed():

        @cuda.jit
        def fill(x, value):
            x[0] = value

        x = np.zeros(1, np.float32)
        special = fill.specialize(x, 1)
        assert fill.specialize(cuda.to_device(x), 2) is special is not fill
        assert special.specialized and not fill.specialized
        special[1, 1](x, np.int8(2))  # as the int64 that it was specialized for
        assert x[0] == 2
        for arguments in [(np.zeros(1), 1), (x, 2.5)]:
            with pytest.raises(TypeError, match="No match"):
                special[1, 1](*arguments)
        with pytest.raises(RuntimeError, match="already specialized"):
            special.specialize(x, 1)


def test_extensions_prepare_arguments_and_finish_after_the_launch():
    said = []

    class Extension:
        def __init__(self, name):
            self.name = name

        def prepare_args(self, kind, value, stream, retr):
            said.append(f"{self.name} {value if np.isscalar(value) else kind}")
            retr.append(lambda: said.append(f"{self.name} done"))
            return (kind, value + 1) if np.isscalar(value) else (kind, value)

    with installed():

        @cuda.jit(extensions=[Extension("outer"), Extension("inner")])
        def fill(x, value):
            x[0] = value

        x = np.zeros(1)
        fill[1, 1](x, 5)
    assert x[0] == 7
    kind = numba.typeof(x)
    assert said[:4] == [f"inner {kind}", "inner 5", f"outer {kind}", "outer 6"]
    assert said[4:] == ["inner done", "inner done", "outer done", "outer done"]


def test_a_kernel_can_be_pickled():
    with installed():
        scale = 3

        @cuda.jit("void(float32[:])")
        def fill(x):
            x[0] = scale

        copy = pickle.loads(pickle.dumps(fill))
        x = np.zeros(1, np.float32)
        copy[1, 1](x)
        assert x[0] == 3


def test_a_nested_function_with_a_signature_may_call_itself():
    with installed():

        @cuda.jit("int64(int64)", device=True)
        def factorial(n):
            if n <= 1:
                return 1
            return n * factorial(n - 1)

        @cuda.jit
        def fill(x):
            x[0] = factorial(5)

        x = np.zeros(1)
        fill[1, 1](x)
        assert x[0] == 120


@pytest.mark.parametrize(
    ("configuration", "error"),
    [
        ((), ValueError),
        ((1,), ValueError),
        ((1, 1.5), TypeError),
        ((1, (1, 1, 1, 1)), ValueError),
    ],
)
def test_a_launch_without_sizes_is_an_error_of_its_caller(configuration, error):
    with installed():

        @cuda.jit
        def nothing():
            pass

        with pytest.raises(error):
            nothing[configuration]()
        with pytest.raises(ValueError, match="launch configuration"):
            nothing()


def test_what_numba_cannot_type_is_refused_when_it_is_decorated():
    with installed():

        def shared_of_unknown_size(x):
            cuda.shared.array(x.size, numba.float32)

        with pytest.raises(TypingError):
            cuda.jit("void(float32[:])")(shared_of_unknown_size)
        late = cuda.jit(shared_of_unknown_size)
        with pytest.raises(TypingError) as caught:  # here, too, and a KernelError
            late[1, 1](np.zeros(1, np.float32))
        assert isinstance(caught.value, simt.KernelError)
        assert "test_drop_in.py:" in str(caught.value)


def test_a_device_function_is_no_kernel():
    with installed():
        twice = cuda.jit(device=True)(lambda x: 2 * x)
        with pytest.raises(RuntimeError, match="device function"):
            twice[1, 1](1)


def test_a_ufunc_casts_scalars_and_no_arrays():
    with installed():

        @numba.vectorize(["int16(int16, int16)"], target="cuda")
        def add(a, b):
            return a + b

        @numba.guvectorize(
            ["(int32, int32[:], int32[:])"], "(),(n)->(n)", target="cuda"
        )
        def scale(a, x, out):
            for i in range(x.size):
                out[i] = a * x[i]

        x = np.arange(4, dtype=np.int16)
        assert add(x, 15.0).tolist() == [15, 16, 17, 18]
        assert add(x, 15.0).dtype == np.int16
        with pytest.raises(TypeError, match="No matching version"):
            add(x, x.astype(np.float64))
        with pytest.raises(TypeError):
            add(x, x, x)
        assert scale(np.int64(3), x.astype(np.int32)).tolist() == [0, 3, 6, 9]
        on_device = scale(np.int64(3), cuda.to_device(x.astype(np.int32)))
        assert on_device.copy_to_host().tolist() == [0, 3, 6, 9]


def test_check_mode_checks_a_ufunc():
    with installed("check"):

        @numba.guvectorize(["(int32[:], int32[:])"], "(n)->(n)", target="cuda")
        def shift(x, out):
            for i in range(x.size):
                out[i] = x[i + 1]

        with pytest.raises(simt.KernelError, match="x"):
            shift(np.arange(4, dtype=np.int32))


def test_a_kernel_keeps_the_mode_of_its_decoration():
    def race(x):
        x[0] = cuda.threadIdx.x

    with installed("check"):
        checked = cuda.jit(race)
        with installed():
            cuda.jit(race)[1, 32](np.zeros(1))
            with pytest.raises(simt.KernelError, match="race"):
                checked[1, 32](np.zeros(1))


def stub():
    """Has implementations for some types only."""


def stub_of_stubs():
    """Its implementation calls a stub."""


@overload(stub, target="generic")
def _(x):
    return lambda x: 1


@overload(stub, target="cuda")
def _(x):
    if isinstance(x, numba.types.Array):
        return lambda x: x.size
    return lambda x: x + 0.5


@overload(stub_of_stubs, target="cuda")
def _(x):
    def implementation(x):
        return 10 * stub(x)

    return implementation


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_calls_the_overload_for_its_types_and_gpus(mode):
    with installed(mode):

        @cuda.jit
        def fill(out, x):
            out[0] = stub(x)
            out[1] = stub_of_stubs(x)

        out = np.zeros(2)
        fill[1, 1](out, 3)
        assert out.tolist() == [3.5, 35]
        fill[1, 1](out, np.zeros(4))
        assert out.tolist() == [4, 40]


def test_a_ufunc_broadcasts_arrays_on_the_device():
    with installed():

        @numba.vectorize(["float64(float64, float64)"], target="cuda")
        def less(a, b):
            return a - b

        a = np.arange(6.0).reshape(2, 3, 1)
        b = a.transpose(2, 1, 0)
        found = less(cuda.to_device(a), cuda.to_device(b))
        np.testing.assert_array_equal(found.copy_to_host(), a - b)


def test_a_broadcast_array_stays_one_on_the_device():
    with installed():
        broad = np.broadcast_to(np.arange(3.0), (4, 3))
        device = cuda.to_device(broad)
        assert device.strides == broad.strides
        assert (device.copy_to_host() == broad).all()
        device[0, 0] = 7
        assert (device.copy_to_host()[:, 0] == 7).all()


def test_copies_on_the_device_need_equal_strides():
    with installed():
        c, f = (
            cuda.to_device(np.ones((2, 3))),
            cuda.to_device(np.ones((2, 3), order="F")),
        )
        with pytest.raises(ValueError, match="strides"):
            c.copy_to_device(f)
        with pytest.raises(ValueError, match="contiguous"):
            f[0].copy_to_device(np.ones(3))
        with pytest.raises(NotImplementedError, match="negative strides"):
            c[::-1].copy_to_host()
        for axes in [(0, 0), (0, 2)]:
            with pytest.raises(ValueError):
                c.transpose(axes)
        assert c.transpose((1, 0)).shape == (3, 2)


def test_mapped_memory_is_an_array_of_both_sides():
    with installed():

        @cuda.jit
        def increment(x):
            x[cuda.grid(1)] += 1

        for make in (cuda.mapped_array, cuda.managed_array):
            x = make(4, np.float32)
            x[:] = 1
            increment[1, 4](x)
            assert cuda.is_cuda_array(x) and x.tolist() == [2, 2, 2, 2]
            increment[1, 4](cuda.as_cuda_array(x))
            assert x.copy_to_host().tolist() == [3, 3, 3, 3]
            assert x.__cuda_array_interface__["stream"] is None


def test_a_record_on_the_device():
    kind = np.dtype([("a", np.int32), ("b", np.float32, 2)])
    with installed():

        @cuda.jit
        def fill(record):
            record.a = 3
            record.b[1] = 4

        record = devicearray.DeviceRecord(kind)
        record["a"] = 1
        record["b"] = np.ones(2)
        assert record["a"] == 1 and record["b"].copy_to_host().tolist() == [1, 1]
        fill[1, 1](record)
        host = np.zeros(1, kind)[0]
        record.copy_to_host(host)
        assert host["a"] == 3 and host["b"].tolist() == [1, 4]
        copy, new = devicearray.auto_device(host)
        assert new and copy["a"] == 3 and copy.gpu_data != record.gpu_data


def test_a_named_tuple_keeps_its_names():
    Point = namedtuple("Point", ("x", "y"))
    with installed():

        @cuda.jit
        def fill(out, points):
            out[0] = points.x[0] + points.y

        out = np.zeros(1)
        fill[1, 1](out, Point(cuda.to_device(np.ones(1)), 2.5))
        assert out[0] == 3.5


def test_a_cached_kernel_is_found_again(tmp_path, program, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    path = program(
        "import numpy as np\n"
        "from numba import cuda\n"
        "@cuda.jit(cache=True)\n"
        "def one(x):\n"
        "    x[0] = 1\n"
        "x = np.zeros(1)\n"
        "one[1, 1](x)\n"
        "hits = sum(one.stats.cache_hits.values())\n"
    )
    with installed():
        ran = [runpy.run_path(path) for _ in range(2)]
    assert [r["hits"] for r in ran] == [0, 1]
    assert [r["x"][0] for r in ran] == [1, 1]


def test_warnings_of_slow_programs_are_for_those_who_ask(monkeypatch, recwarn):
    with installed():

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        assert not recwarn
        monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
        with pytest.warns(NumbaPerformanceWarning, match="low occupancy"):
            nothing[2, 1]()


def test_a_copy_of_a_host_array_is_warned_of_if_asked(monkeypatch, recwarn):
    with installed():

        @cuda.jit
        def nothing(a):
            pass

        nothing[1, 1](np.zeros(1))
        monkeypatch.setattr(config, "CUDA_WARN_ON_IMPLICIT_COPY", 1)
        nothing[1, 1](cuda.device_array(1))
        nothing[1, 1](cuda.mapped_array(1))
        assert not recwarn
        for host in (np.zeros(1), cuda.pinned_array(1)):
            with pytest.warns(NumbaPerformanceWarning, match="will incur copy") as told:
                nothing[1, 1](host)
            assert told[0].filename == __file__


SEVEN = "seven"


class Unusual(Exception):
    """An exception of a program's own."""


@cuda.jit(device=True)
def checked_helper(x):
    if x > 100:
        raise ValueError("of a device function")
    return x


def risky(out, a, pair):
    i = cuda.grid(1)
    if a[i] == 7:
        raise Unusual(SEVEN, 7)
    elif a[i] == 8:
        raise Unusual
    elif a[i] == 9:
        out[i] = out.shape[i]
    elif a[i] == 10:
        out[i] = pair[-i]
    elif a[i] == 11:
        out[i] += (1, 2)[i]
    elif a[i] == 12 and 1 // (a[i] - 12) > 0:
        out[i] = 1
    elif a[i] == 13:
        out[i] %= a[i] - 13
    else:
        out[i] = checked_helper(a[i]) / a[i]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (7, Unusual, ": seven"),
        (8, Unusual, ""),
        (9, IndexError, ": tuple index out of range"),
        (10, IndexError, ": tuple index out of range"),
        (11, IndexError, ": tuple index out of range"),
        (12, ZeroDivisionError, ": division by zero"),
        (13, ZeroDivisionError, ": division by zero"),
        (0, ZeroDivisionError, ": division by zero"),
    ],
)
def test_with_debug_a_kernel_raises_as_on_a_gpu(value, error, text):
    a = np.ones(64, np.int64)
    a[35] = value
    with installed():
        kernel = cuda.jit(debug=True, opt=False)(risky)
        with pytest.raises(error) as raised:
            kernel[2, 32](np.zeros(64), a, (1, 2))
    lines, first = inspect.getsourcelines(risky)
    place = f"In function 'risky', file {__file__}, line "
    message = str(raised.value.args[0])
    assert message.startswith(place)
    line = lines[int(message.removeprefix(place).split(",")[0]) - first]
    assert line.split()[0] in ("raise", "out[i]", "elif")
    assert message.endswith(f"tid=[0, 0, 3] ctaid=[0, 0, 1]{text}")
    assert raised.value.args[1:] == ((7,) if value == 7 else ())


def test_an_exception_of_a_device_function_is_an_error_of_the_kernel():
    with installed():
        kernel = cuda.jit(debug=True, opt=False)(risky)
        with pytest.raises(simt.KernelError, match="raise ValueError"):
            kernel[1, 1](np.zeros(1), np.full(1, 101), (1, 2))


def test_without_debug_and_with_fastmath_a_division_by_zero_goes_on():
    def divide(out, a):
        out[0] = 1.0 / a[0]

    with installed():
        for options in ({}, {"debug": True, "opt": False, "fastmath": True}):
            out = np.zeros(1)
            cuda.jit(**options)(divide)[1, 1](out, np.zeros(1))
            assert out[0] == np.inf


def test_what_numba_has_no_bytecode_for_is_refused_at_its_line(tmp_path):
    path = tmp_path / "inside.py"
    path.write_text(
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def kernel(x):\n"
        "    import math\n"
        "    x[0] = math.pi\n"
    )
    with installed():
        kernel = runpy.run_path(str(path))["kernel"]
        with pytest.raises(simt.KernelError) as caught:
            kernel[1, 1](np.zeros(1))
    said = "inside.py:4: kernel: import is not supported in a kernel: write the import"
    assert str(caught.value) == f"{said} before the kernel"


def test_arguments_that_do_not_fit_are_told_in_words():
    with installed():

        @cuda.jit("void(float32[:,:,:], int32)")
        def put(x, n):
            x[0, 0, 0] = n

        given = "type\\(s\\) an array of 1 dimension, float64; float64"
        wanted = "declared for an array of 3 dimensions, float32; int32"
        with pytest.raises(TypeError, match=f"{given}. It was {wanted}"):
            put[1, 1](np.zeros(3), 2.5)


def test_memory_of_others_is_refused():
    interface = {"shape": (3,), "typestr": "<f8", "data": (4096, False), "version": 3}
    elsewhere = SimpleNamespace(__cuda_array_interface__=interface)
    with installed(), pytest.raises(simt.KernelError, match="rule foreign-memory"):
        cuda.as_cuda_array(elsewhere)


def test_a_grid_synchronises_only_as_one_block(tmp_path):
    path = tmp_path / "blocks.py"
    path.write_text(
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def wait(x):\n"
        "    x[cuda.blockIdx.x] = 1\n"
        "    cuda.cg.this_grid().sync()\n"
    )
    with installed():
        wait = runpy.run_path(str(path))["wait"]
        with pytest.raises(simt.KernelError, match="rule grid-sync"):
            wait[2, 32](np.zeros(2))


# ------------------------------------------------------------------------- command line


def run(*arguments, cwd=None):
    """`python -m snref.simt ARGUMENTS` in a process of its own."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "-m", "snref.simt", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
    )


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a program; what the command changes is put back."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        path = tmp_path / "a_program.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_program_gets_its_own_arguments(program, capsys):
    path = program("import sys; print(sys.argv[1:], __name__, sys.path[0])")
    assert command.main([path, "--check", "-m", "--help"]) == 0
    folder = os.path.dirname(path)
    shown = capsys.readouterr()
    assert shown.out == f"['--check', '-m', '--help'] __main__ {folder}\n"
    assert "--check is given to the program: write it before" in shown.err


def test_nothing_to_run_is_said_so(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main([])
    assert caught.value.code == 2
    assert "give a program, or -m and a module" in capsys.readouterr().err


def test_a_module_gets_its_own_arguments(program, capsys):
    program("import sys; print(sys.argv[1:], __name__)")
    sys.modules.pop("a_program", None)
    assert command.main(["-m", "a_program", "-q"]) == 0
    assert capsys.readouterr().out == "['-q'] __main__\n"


def test_an_exit_code_is_kept(program):
    with pytest.raises(SystemExit) as caught:
        command.main([program("import sys; sys.exit(7)")])
    assert caught.value.code == 7


def test_a_traceback_begins_in_the_program(program, capsys):
    path = program("def f():\n    1 / 0\nf()\n")
    assert command.main([path]) == 1
    lines = capsys.readouterr().err.splitlines()
    frames = [line for line in lines if line.startswith("  File")]
    assert lines[0] == "Traceback (most recent call last):"
    assert [f"{path}" in frame for frame in frames] == [True, True]
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("statement", "error"),
    [("cuda.syncthreads", "KernelError"), ("nosuch(x)", "Untyped")],
)
def test_a_traceback_of_a_kernel_shows_no_library(program, capsys, statement, error):
    path = program(
        "import numpy as np\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def kernel(x):\n"
        f"    {statement}\n"
        "kernel[1, 32](np.zeros(1))\n"
    )
    assert command.main([path]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [path in line for line in lines if line.startswith("  File")] == [True]
    assert any(f"{error}: a_program.py:5: kernel: " in line for line in lines)


def test_check_mode_finds_a_race(program, capsys):
    path = program(
        "import numpy as np\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def race(x):\n"
        "    x[0] = cuda.threadIdx.x\n"
        "race[1, 32](np.zeros(1))\n"
    )
    assert command.main([path]) == 0
    assert command.main(["--check", path]) == 1
    assert "a_program.py:5: race: " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["no_such_file.py"], ["--nonsense"]])
def test_wrong_use_is_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m snref.simt" in capsys.readouterr().err


def test_the_simulator_and_its_replacement_exclude_each_other(monkeypatch, capsys):
    monkeypatch.setattr(config, "ENABLE_CUDASIM", 1)
    with pytest.raises(SystemExit) as caught:
        command.main(["program.py"])
    assert caught.value.code == 2
    assert "NUMBA_ENABLE_CUDASIM" in capsys.readouterr().err


@pytest.mark.slow
def test_pytest_runs_a_suite_of_cuda_programs(tmp_path):
    (tmp_path / "test_kernel.py").write_text(
        "import numpy as np\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def increment(x):\n"
        "    x[cuda.grid(1)] += 1\n"
        "def test_increment():\n"
        "    assert cuda.is_available()\n"
        "    x = np.zeros(32)\n"
        "    increment[1, 32](x)\n"
        "    assert (x == 1).all()\n"
        "def test_failure():\n"
        "    assert False\n"
    )
    result = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 failed, 1 passed" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 1


def test_the_examples_of_the_drop_in_run():
    assert doctest.testmod(drop_in) == (0, 2)  # none fails of two


def test_where_numba_cuda_is_installed_whole_programs_do_not_run(
    monkeypatch, tmp_path, capsys
):
    (tmp_path / "program.py").write_text("")
    monkeypatch.setattr(replaced, "find_spec", lambda name: name)
    with pytest.raises(RuntimeError, match="numba-cuda is installed"):
        simt.install()
    with pytest.raises(SystemExit):
        command.main([str(tmp_path / "program.py")])
    assert "numba-cuda is installed" in capsys.readouterr().err
