"""Check mode: every mistake is found, at its line, and correct kernels are clean."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32

from snref import simt

from . import right, wrong


@cuda.jit
def own_atomics(a, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(out, t, a[t])
    out[t] *= 2
    cuda.atomic.sub(out, t, a[t])
    cuda.syncthreads()
    cuda.atomic.add(out, 0, 1)
    cuda.syncthreads()
    a[t] = out[0]


@cuda.jit
def three_mistakes(a, out):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.y * 8 + cuda.threadIdx.x
    out[i // 2] = i
    a[i + 49] = 1
    out[i + 8] = s[i]


KERNELS = [
    pytest.param(
        kernel,
        id=kernel.py_func.__name__,
        marks=[pytest.mark.slow] if kernel in wrong.VARIANTS else [],
    )
    for kernel in wrong.CASES
]
N = wrong.N
LINES = Path(wrong.__file__).read_text(encoding="utf-8").splitlines()


def lines_at_fault(kernel):
    """Numbers of the lines marked `# wrong`, of the kernel and what it calls."""
    functions = [kernel.py_func]
    names = kernel.py_func.__code__.co_names
    functions += [
        getattr(wrong, n).py_func
        for n in names
        if n in vars(wrong) and hasattr(getattr(wrong, n), "py_func")
    ]
    found = []
    for function in functions:
        source, first = inspect.getsourcelines(function)
        found += [
            first + i for i, line in enumerate(source) if re.search(r"# wrong", line)
        ]
    return found


def test_there_are_at_least_sixty_wrong_kernels():
    assert len(KERNELS) >= 60


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_wrong_kernel_is_refused_at_its_line(kernel):
    grid, block, says, outputs = wrong.CASES[kernel]
    with pytest.raises(simt.KernelError) as caught:
        simt.check(kernel, outputs)[grid, block](*wrong.arguments())
    message = caught.value.findings[0].message
    assert f": {kernel.py_func.__name__}: " in str(caught.value)
    place = re.match(r"wrong\.py:(\d+): " + kernel.py_func.__name__, message)
    assert place and says in message, message
    at_fault = lines_at_fault(kernel)
    assert int(place[1]) in at_fault
    for other in re.findall(r"in line (\d+) by", message):
        assert int(other) in at_fault
        assert f"{other}: {LINES[int(other) - 1].strip()}" in message


def test_there_are_at_least_sixty_right_kernels():
    assert len(right.CASES) >= 60


def result(run, kernel):
    a, out = right.arguments()
    run(kernel)[right.CASES[kernel]](a, out)
    return out


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(
            kernel,
            id=kernel.py_func.__name__,
            marks=[pytest.mark.slow] if kernel in right.VARIANTS else [],
        )
        for kernel in right.CASES
    ],
)
def test_a_right_kernel_is_not_accused(kernel):
    expected = right.results(right.arguments()[0]).get(kernel.py_func.__name__)
    left = result(simt.debug, kernel)
    if expected is not None:
        np.testing.assert_array_equal(left[: len(expected)], expected)
    np.testing.assert_array_equal(result(simt.check, kernel), left)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", right.CASES, ids=lambda k: k.py_func.__name__)
def test_a_right_kernel_gives_what_the_interpreter_gives(kernel):
    np.testing.assert_array_equal(
        result(simt.compile, kernel), result(simt.debug, kernel)
    )


@cuda.jit
def sums_of_all(a, out):
    i = cuda.grid(1)
    if i < out.size:
        s = float32(0)
        p = a[0]
        for j in range(a.size):
            s += a[j]
            p = p * a[j]
        out[i] = s + p


@pytest.mark.parametrize(
    "mode",
    [simt.compile, simt.check, pytest.param(simt.profile, marks=pytest.mark.slow)],
)
def test_a_sum_that_all_threads_share_is_added_once(mode):
    a, out = np.array([2, 3, 4], np.float32), np.zeros(5, np.float32)
    mode(sums_of_all)[1, 8](a, out)
    assert out.tolist() == [9 + 48] * 5


def test_findings_are_data_and_several_in_one_run():
    a, out = wrong.arguments()
    with pytest.raises(simt.KernelError) as caught:
        simt.check(three_mistakes)[2, (8, 2)](a, out)
    first = three_mistakes.py_func.__code__.co_firstlineno
    race, outside, unset = sorted(caught.value.findings, key=lambda f: f.line)
    assert (race.kind, race.line, race.other_line) == ("race", first + 4, first + 4)
    assert (race.name, race.element, race.block) == ("out", (0,), 0)
    assert (race.thread, race.other_thread) == ((1, 0), (0, 0))
    assert (outside.kind, outside.line) == ("out-of-bounds", first + 5)
    assert (outside.element, outside.thread) == ((64,), (7, 1))
    assert (unset.kind, unset.line, unset.name) == ("uninitialised", first + 6, "s")
    assert unset.other_line is None
    assert str(caught.value).splitlines() == [
        line for f in caught.value.findings for line in f.message.splitlines()
    ]


@cuda.jit
def sums_without_an_atomic(a, out):
    t = cuda.threadIdx.x
    out[0] += a[t]  # three findings: a read and a write, a write and either
    a[t + 1] = 2


def test_a_mistake_is_told_once_and_what_to_write_instead():
    a, out = wrong.arguments()
    with pytest.raises(simt.KernelError) as caught:
        simt.check(sums_without_an_atomic)[1, 32](a, out)
    assert len(caught.value.findings) > 2
    message = str(caught.value)
    assert message.count(" sums_without_an_atomic: ") == 2
    assert "use cuda.atomic.add(out, 0, a[t])" in message
    assert "a[1] is read here and written in line" in message


@cuda.jit
def sum_and_count(a, out):
    i = cuda.grid(1)
    cuda.atomic.add(out, 0, a[i])
    cuda.atomic.max(out, 1, a[i])


@cuda.jit
def two_indices_of_one_name(a, out):
    i = cuda.grid(1)
    out[i] = a[i]
    for i in range(3):
        out[0] = i
    i = int(a[cuda.threadIdx.x])
    if i + cuda.threadIdx.x < 20:
        cuda.syncthreads()
    out[i] = 0


@cuda.jit
def goes_on_as_absent_threads_say(a, out):
    t = cuda.threadIdx.x
    while t < 8:
        if cuda.all_sync(0xFFFFFFFF, a[t] < 0):
            break
        out[t] += 1


def test_check_mode_ends_a_loop_whose_masks_name_absent_threads():
    with pytest.raises(simt.KernelError, match="that do not take part") as caught:
        simt.check(goes_on_as_absent_threads_say)[1, N](*wrong.arguments())
    assert [f.kind for f in caught.value.findings] == ["absent-lanes"]


def test_a_message_has_the_names_of_the_source():
    said = "'if i + cuda.threadIdx.x < 20:', and cuda.threadIdx.x, i differ between"
    with pytest.raises(simt.KernelError) as caught:
        simt.compile(two_indices_of_one_name)[1, N](*wrong.arguments())
    assert said in str(caught.value)


def test_an_atomic_sum_of_floats_is_a_finding_where_bits_are_asked_for():
    a, out = wrong.arguments()
    simt.check(sum_and_count)[2, 32](a, out)
    with pytest.raises(simt.KernelError, match="depends on the order") as caught:
        simt.check(sum_and_count, exact=True)[2, 32](a, out)
    (finding,) = caught.value.findings
    line = sum_and_count.py_func.__code__.co_firstlineno + 3
    assert (finding.kind, finding.line, finding.name) == ("unordered-sum", line, "out")
    whole = out.astype(np.int32)
    simt.check(sum_and_count, exact=True)[2, 32](whole, whole.copy())


@cuda.jit
def mistake_before_the_end(a, out):
    t = cuda.threadIdx.x
    out[N - t] = 1
    if t == 3:
        raise ValueError


@pytest.mark.parametrize(
    ("kernel", "kinds", "block"),
    [
        (wrong.barrier_for_half_the_block, ["divergent-barrier"], None),
        (wrong.barrier_behind_a_guard, ["divergent-barrier"], 0),
        (mistake_before_the_end, ["out-of-bounds", "raised"], 0),
        (wrong.calls_what_is_not_there, ["refused"], None),
    ],
    ids=lambda p: getattr(getattr(p, "py_func", None), "__name__", ""),
)
def test_what_ends_a_launch_is_a_finding_too(kernel, kinds, block):
    a, out = wrong.arguments()
    with pytest.raises(simt.KernelError) as caught:
        simt.check(kernel)[2, 64](np.append(a, a), out)
    found = caught.value.findings
    assert [f.kind for f in found] == kinds
    assert f":{found[-1].line}: {kernel.py_func.__name__}: " in found[-1].message
    assert found[-1].block == block


def test_an_output_that_is_not_written_in_full_is_found():
    problem = r"c\[60\] is never written, nor are 3"
    with pytest.raises(simt.KernelError, match=problem) as caught:
        simt.check(one_more, outputs=["c"])[15, 4](np.zeros(64), np.zeros(60))
    (finding,) = caught.value.findings
    assert (finding.kind, finding.name, finding.element) == (
        "never-written",
        "c",
        (60,),
    )


@pytest.mark.parametrize("shift", [1, 5])
def test_arrays_that_overlap_in_part_are_followed(shift):
    whole = np.arange(64.0)
    with pytest.raises(simt.KernelError, match="with no barrier between") as caught:
        simt.check(one_more)[1, 64](whole[shift:], whole[:-shift])
    assert {f.kind for f in caught.value.findings} == {"race"}
    simt.check(one_more)[1, 32](whole[32:], whole[:32])


def test_an_overlap_that_cannot_be_followed_is_refused():
    whole = np.arange(64.0)
    for c, a in [(whole[::2], whole[:32]), (whole.view(np.float32), whole)]:
        with pytest.raises(ValueError, match="overlap in part"):
            simt.check(one_more)[1, 32](c, a)
    simt.check(one_more)[1, 32](whole[::2], whole[1::2])


def test_a_threads_own_atomics_and_plain_accesses_are_in_order():
    a, out = wrong.arguments()
    expected = a.copy()
    expected[0] += 64
    simt.check(own_atomics)[1, 64](a, out)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(a, expected[0])


@cuda.jit
def from_the_right(c, a):
    i = cuda.grid(1)
    if i + 1 < c.size:
        c[i] = a[i + 1]


@cuda.jit
def one_more(c, a):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + 1


@pytest.mark.parametrize("step", [1, -2])
def test_an_array_under_two_names_is_one_array(step):
    """A thread reads under one name what another writes under the other."""
    a = np.arange(64.0)[::step]
    with pytest.raises(simt.KernelError, match="with no barrier between"):
        simt.check(from_the_right)[1, 64](a, a[:])
    expected = a + 1
    simt.check(one_more)[1, 64](a, a[:])
    assert np.array_equal(a, expected)


def test_a_read_only_array_with_gaps_is_checked():
    a, c = np.broadcast_to(np.float64(2), 8), np.zeros(8)
    simt.check(one_more)[1, 8](c, a)
    assert (c == 3).all()


def half_written(y):
    y[cuda.grid(1)] = 1.0


def test_scratch_holds_nothing_yet_and_may_be_written_in_part():
    y = np.zeros(64)
    simt.check(half_written, scratch=["y"])[1, 32](y)
    with pytest.raises(simt.KernelError, match="never written"):
        simt.check(half_written, outputs=["y"])[1, 32](y)
