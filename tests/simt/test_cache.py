"""The kernel cache: what is found again, who is trusted, what is removed."""

import errno
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import cuda
from numba.cuda import random

from snref import simt
from snref.simt import cache, run

from . import examples

ROOT = Path(__file__).parents[2]
NOBODY = 65534
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes as on POSIX")
root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root has other users"
)


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """The user's folder of each test, with nothing in it."""
    folder = tmp_path / "own"
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    monkeypatch.delenv(cache.SHARED_VARIABLE, raising=False)
    return folder


def hits(kernel):
    """Run the kernel; how much of its machine code was found in the cache."""
    a = np.ones(64, np.float32)
    c = a * 0
    compiled = simt.compile(kernel)
    compiled[2, 32](a, c)
    assert (c == 3).all()
    (module,) = compiled.modules.values()
    return sum(module.code.stats.cache_hits.values())


def files(folder):
    return sorted(f for f in folder.rglob("*") if f.is_file() and f.name != ".pruned")


def copied(source, target):
    """Copy the files, but neither their times nor their modes."""
    target.mkdir()
    for file in files(source):
        (target / file.name).write_bytes(file.read_bytes())
    return target


# ------------------------------------------------------------------ found again


def test_a_second_process_finds_the_code_of_the_first(own, monkeypatch):
    code = "from tests.simt import examples, test_cache\n"
    code += "print(test_cache.hits(examples.scale))"
    first = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert first.stdout == "0\n", first.stderr

    def compiled_again(*_):
        raise AssertionError("nothing is left to compile")

    monkeypatch.setattr(run, "stages", compiled_again)
    assert hits(examples.scale) == 1


PROGRAM = """
import os, sys
sys.path[:0] = [{root!r}, {here!r}]
import numpy as np
from kernels import double, scale, shift
from snref import simt

a = np.ones(64, np.float32)
if sys.argv[1:]:  # become another user, after all imports that compiling does
    os.environ["SNREF_CACHE"] += "-before"
    for run in (simt.compile, simt.check):
        run(double)[2, 32](a.copy())
    os.environ["SNREF_CACHE"] = os.environ["SNREF_CACHE"].removesuffix("-before")
    os.setuid(int(sys.argv[1]))
c = a * 0
for run in (simt.compile(scale), simt.check(scale)):
    run[2, 32](a, c)
    assert (c == 3).all()
    (module,) = run.modules.values()
    print(sum(module.code.stats.cache_hits.values()))
try:
    simt.check(shift)[2, 32](a)
except simt.KernelError as error:
    print(error)
"""
KERNELS = """
from numba import cuda
FACTOR = 3

@cuda.jit(device=True)
def multiplied(x):
    return x * FACTOR

@cuda.jit
def scale(a, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = multiplied(a[i])

@cuda.jit
def double(a):
    a[cuda.grid(1)] *= 2

@cuda.jit
def shift(a):
    i = cuda.grid(1)
    a[i] = a[i + 1]
"""


def down(n):
    """A device function: it calls itself."""
    return 0 if n <= 0 else 1 + down(n - 1)


def thrice(a, c):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    c[i] = down(3) * a[i]


def test_code_that_calls_itself_is_not_kept(own):
    """Numba ties such calls up in the process that compiles; elsewhere they crash."""
    assert [hits(thrice), hits(thrice)] == [0, 0]
    assert not list(own.glob("*" + cache.CODE))


@pytest.mark.slow
def test_a_copy_of_program_and_cache_compiles_nothing():
    """In another folder, with the kernels in other lines, and for another user."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)

        def program(folder, before=""):
            here = top / folder
            here.mkdir()
            (here / "kernels.py").write_text(before + KERNELS)
            text = PROGRAM.format(root=str(ROOT), here=str(here))
            (here / "program.py").write_text(text)
            return here / "program.py"

        def output(program, *user, **variables):
            done = subprocess.run(
                [sys.executable, "-B", program, *user],
                env={**os.environ, **{k: str(v) for k, v in variables.items()}},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout.splitlines()

        filled = output(program("here"), SNREF_CACHE=top / "filled")
        assert filled[:2] == ["0", "0"]
        assert filled[2].startswith("kernels.py:22: shift: a[")
        shared = copied(top / "filled", top / "shared")
        shared.chmod(0o555)
        own, user = top / "own", []
        own.mkdir()
        if os.name == "posix" and os.geteuid() == 0:
            user = [str(NOBODY)]
            os.chown(own, NOBODY, NOBODY)
        there = program("there", "# another line\n" * 10)
        again = output(there, *user, SNREF_CACHE=own, SNREF_SHARED_CACHE=shared)
        assert again[:2] == ["1", "1"]
        assert again[2].startswith("kernels.py:32: shift: a[")
        assert not files(own)
        shared.chmod(0o755)


def test_what_the_shared_folder_lacks_goes_to_the_users_own(own, tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    monkeypatch.setenv(cache.VARIABLE, str(shared))
    hits(examples.scale)
    held = files(shared)
    monkeypatch.setenv(cache.VARIABLE, str(own))
    monkeypatch.setenv(cache.SHARED_VARIABLE, str(shared))
    assert hits(examples.scale) == 1
    assert hits(examples.add_two) == 0
    assert hits(examples.add_two) == 1
    assert files(shared) == held
    assert {f.name.partition("_")[0] for f in files(own)} == {"add"}
    stems = {f.name.partition(".")[0] for f in files(shared) + files(own)}
    assert cache.compiled() == stems


def test_a_module_of_the_shared_folder_is_compiled_for_this_processor(
    own, tmp_path, monkeypatch
):
    hits(examples.scale)
    shared = copied(own, tmp_path / "shared")
    for file in shared.glob(f"*{cache.CODE}"):
        file.unlink()
    for file in files(own):
        file.unlink()
    monkeypatch.setenv(cache.SHARED_VARIABLE, str(shared))
    assert hits(examples.scale) == 0
    assert hits(examples.scale) == 1
    assert [f.suffix for f in files(own)] == [cache.CODE]


def test_the_key_holds_constants_of_modules_within_modules(monkeypatch):
    package, settings = ModuleType("package"), ModuleType("package.settings")
    package.settings, settings.WIDTH = settings, 3
    scope = {"package": package}
    exec("def kernel(a):\n    a[0] = package.settings.WIDTH", scope)
    first = cache.key(scope["kernel"])
    assert cache.key(scope["kernel"]) == first
    settings.WIDTH = 4
    assert cache.key(scope["kernel"]) != first


# ------------------------------------------------------------------ who is trusted


@posix
def test_the_key_tells_numbas_own_functions_apart():
    def kernel_of(draw):
        def kernel(states, out):
            out[0] = draw(states, 0)

        return kernel

    draws = random.xoroshiro128p_uniform_float32, random.xoroshiro128p_normal_float32
    keys = {cache.key(kernel_of(draw)) for draw in draws}
    assert len(keys) == 2


def test_a_folder_that_others_can_write_to_is_not_used(own):
    own.mkdir()
    own.chmod(0o777)
    with pytest.warns(UserWarning, match=rf"nobody else may .*chmod go-w {own}"):
        assert hits(examples.scale) == 0
    assert not files(own)
    assert not cache.lasting()


@posix
@pytest.mark.parametrize("variable", [cache.VARIABLE, cache.SHARED_VARIABLE])
@pytest.mark.parametrize("suffix", [".py", cache.CODE])
def test_a_file_that_others_can_write_to_is_not_used(
    own, tmp_path, monkeypatch, variable, suffix
):
    hits(examples.scale)
    level = own
    if variable == cache.SHARED_VARIABLE:
        level = copied(own, tmp_path / "shared")
        monkeypatch.setenv(cache.SHARED_VARIABLE, str(level))
        shutil.rmtree(own)
        cache._usable.cache_clear()
    (file,) = level.glob(f"*{suffix}")
    content = b"raise SystemExit" if suffix == ".py" else b"cos\nabort\n(tR."
    file.write_bytes(content)
    file.chmod(0o664)
    assert hits(examples.scale) == (1 if suffix == ".py" else 0)
    assert hits(examples.scale) == 1  # what the user's own folder now has


@root
def test_files_of_another_user_are_not_used(own, monkeypatch):
    hits(examples.scale)
    (code,) = own.glob(f"*{cache.CODE}")
    os.chown(code, NOBODY, NOBODY)
    assert hits(examples.scale) == 0
    os.chown(own, NOBODY, NOBODY)
    cache._usable.cache_clear()
    cache._readable.cache_clear()
    with pytest.warns(UserWarning, match="must belong to root or to you"):
        assert cache.folder() != own


@posix
def test_what_is_written_is_trusted_whatever_the_umask(own):
    before = os.umask(0)
    try:
        assert hits(examples.scale) == 0
    finally:
        os.umask(before)
    modes = {f.stat().st_mode & 0o777 for f in files(own)}
    assert modes == {0o644} and own.stat().st_mode & 0o777 == 0o755
    assert hits(examples.scale) == 1


def test_a_shared_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.SHARED_VARIABLE, str(tmp_path / "nothing"))
    with pytest.warns(UserWarning, match="nothing is not used: No such file"):
        assert cache.folders() == [cache.folder()]


# ------------------------------------------------------------------ what goes wrong


def test_a_folder_that_cannot_be_written_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    chosen = cache.folder()
    assert chosen.is_dir()
    assert tmp_path not in chosen.parents


def test_many_threads_may_compile_at_once(own):
    together, problems = threading.Barrier(8), []

    def work():
        try:
            for block in (32, 64, 96):
                compiled = simt.compile(examples.scale)
                a, c = np.ones(96, np.float32), np.zeros(96, np.float32)
                together.wait(60)
                compiled[3, block](a, c)
                assert (c == 3).all()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert not list(own.rglob("*.part"))


def test_a_full_disk_is_no_reason_to_stop(own, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert hits(examples.scale) == 0
        assert hits(examples.scale) == 0
    assert not files(own)
    assert hits(examples.scale) == 0
    assert hits(examples.scale) == 1


@pytest.mark.parametrize("problem", [ValueError, AttributeError, UnicodeDecodeError])
def test_damage_may_show_in_any_way(own, problem):
    """Of a pickle that is not what was written."""
    hits(examples.scale)
    (code,) = own.glob(f"*{cache.CODE}")
    raised = {
        ValueError: b"cbuiltins\nint\n(Vx\ntR.",
        AttributeError: b"cbuiltins\nnothing\n.",
        UnicodeDecodeError: b"\x80\x04\x8c\x02\xff\xfe.",
    }
    with pytest.raises(problem):
        pickle.loads(raised[problem])
    code.write_bytes(raised[problem])
    assert hits(examples.scale) == 0  # made anew
    assert hits(examples.scale) == 1


@pytest.mark.parametrize("suffix", [".py", cache.CODE])
@pytest.mark.parametrize("left", [0, 40, -1])
def test_a_damaged_file_of_the_cache_is_made_anew(own, suffix, left):
    """As a power cut or a full disk leaves it: cut short."""
    hits(examples.scale)
    (file,) = own.glob(f"*{suffix}")
    file.write_bytes(file.read_bytes()[:left])
    hits(examples.scale)
    assert hits(examples.scale) == 1


# ------------------------------------------------------------------ what is removed


def module(folder, name, age, size=10):
    """The files of a module that was last used `age` days ago."""
    stem = f"{name}_{'0' * 20}"
    for suffix, days in ((".py", age), (f".0-0{cache.CODE}", age + 100)):
        file = folder / (stem + suffix)
        file.write_bytes(bytes(size))
        used = time.time() - days * 86400
        os.utime(file, (used, used))


def left(folder):
    return {f.name.rpartition("_")[0] for f in files(folder)}


def test_modules_that_were_not_used_for_long_are_removed(own):
    own.mkdir()
    module(own, "used", 1)
    module(own, "old", 91)
    (own / "letter.py").write_text("a file of the user's own")
    os.utime(own / "letter.py", (0, 0))
    cache.prune(own)
    assert left(own) == {"used", ""}
    assert (own / "letter.py").exists()


def test_the_least_recently_used_leave_until_the_rest_is_small(own, monkeypatch):
    own.mkdir()
    for days, name in enumerate("abcd"):
        module(own, name, days)
    monkeypatch.setattr(cache, "LARGEST", 50)
    cache.prune(own)
    assert left(own) == {"a", "b"}


def test_a_file_that_another_process_has_just_removed_is_no_obstacle(own):
    own.mkdir()
    module(own, "old", 91)
    (own / f"gone_{'0' * 20}.part").symlink_to(own / "nothing")  # listed, then missing
    cache.prune(own)
    assert not [f for f in files(own) if "old" in f.name]


def test_pruning_waits_a_day(own):
    own.mkdir()
    cache.prune(own)
    module(own, "old", 91)
    cache.prune(own)
    assert left(own) == {"old"}
    cache.prune(own, time.time() + 90_000)
    assert not left(own)


def test_a_module_that_is_used_is_young(own):
    hits(examples.scale)
    for file in files(own):
        os.utime(file, (0, 0))
    assert hits(examples.scale) == 1
    assert all(time.time() - f.stat().st_mtime < 3600 for f in files(own))


def test_a_process_whose_files_were_removed_compiles_again(own):
    a, c = np.ones(64, np.float32), np.zeros(64, np.float32)
    compiled = simt.compile(examples.scale)
    compiled.module((32, 1, 1), 0, (a, c))
    for file in files(own):
        file.unlink()
    compiled[2, 32](a, c)
    assert (c == 3).all()
    assert hits(examples.scale) == 1
