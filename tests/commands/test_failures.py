"""What nobody foresaw, broken installations, limits, and the working folder."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import snref
from snref.__main__ import main
from snref.commands import doctor, plan, ready
from snref.device.present import Finding
from snref.support import limits

ROOT = Path(snref.__file__).parents[1]
POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX limits")
BROKEN = {
    "missing": "raise ModuleNotFoundError(\"No module named 'llvmlite'\")",
    "of another platform": 'raise ImportError("wrong ELF class")',
    "without its library": "raise OSError(\"Could not find 'libllvmlite.so'\")",
    "of another version": "raise AttributeError(\"llvmlite has no attribute 'ir'\")",
}


def shell(line, folder, *path):
    """Run a shell's command line in a folder; "snref" is the command of this clone."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, path), str(ROOT)])
    }
    return subprocess.run(
        ["sh", "-c", line.replace("snref ", f"{sys.executable} -m snref ")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# Errors that nobody foresaw


def ours(body, **names):
    """A function that stands in snref/commands/plan.py, as a traceback shows it."""
    source = f"def run(arguments): {body}"
    exec(compile(source, plan.__file__, "exec"), names)
    return names["run"]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("conv1"), "internal error: KeyError: 'conv1'"),
        (LookupError("gpt2"), "internal error: LookupError: gpt2"),
        (AssertionError(), "internal error: AssertionError: "),
        (RuntimeError("two\nlines"), "internal error: RuntimeError: two lines"),
        (
            MemoryError("Unable to allocate 52 GiB"),
            "enough memory: Unable to allocate 52",
        ),
        (ImportError("wrong ELF class"), "wrong ELF class; 'snref doctor' says"),
        (OSError(12, "Cannot allocate memory"), "refused a request: Cannot allocate"),
        (OSError("no number"), "internal error: OSError: no number"),
        (OSError(28, "No space left", "a.json"), "a.json: No space left"),
    ],
)
def test_an_unforeseen_error_is_one_true_line(monkeypatch, capsys, error, says):
    monkeypatch.setattr(plan, "run", ours("raise error", error=error))
    assert main(["plan", "lenet"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and says in said.err
    assert "standard output" not in said.err
    assert ("doctor --report" in said.err) == ("internal error" in said.err)


def test_a_value_error_that_python_raises_is_no_users_mistake(monkeypatch, capsys):
    """The message of a bug is not printed as if it answered what the user typed."""
    monkeypatch.setattr(plan, "run", ours("[].remove('x')"))
    assert main(["plan", "lenet"]) == 1
    said = capsys.readouterr().err
    assert "internal error: ValueError: list.remove(x): x not in list" in said
    assert "(snref/commands/plan.py:" in said


LAYERS = """
    import json
    import snref
    from snref.layers import Linear, ReLU, Softmax

    class InForward(ReLU):
        def forward(self, node):
            return {}["x"]

    class InBackward(ReLU):
        def backward(self, node):
            return json.loads("{")

    class Raises(ReLU):
        def forward(self, node):
            raise ValueError("no such thing")

    def net(batch, layer=InForward):
        net = snref.Net("mine")
        x = net.add("fc", Linear(10), net.input((batch, 3)))
        net.add("softmax", Softmax(), net.add("own", layer(), x))
        return net

    def backward(batch):
        return net(batch, InBackward)

    def raises(batch):
        return net(batch, Raises)
"""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("net", "layers3.py:8: KeyError: 'x'"),
        ("backward", "layers3.py:12: JSONDecodeError: Expecting property name"),
        ("raises", "layers3.py:16: ValueError: no such thing"),
    ],
)
def test_an_error_in_a_users_layer_is_not_called_a_fault_of_snref(
    tmp_path, monkeypatch, capsys, function, says
):
    """Layers run after the function that made the net has returned."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers3.py").write_text(textwrap.dedent(LAYERS))
    assert main(["plan", f"layers3:{function}"]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and "internal" not in said


@pytest.mark.parametrize(
    "words", ["--traceback plan alexnat", "plan alexnat --traceback"]
)
def test_the_stack_is_printed_when_it_is_asked_for(capsys, words):
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last)")
    assert said.splitlines()[-1].startswith("snref: no net is called 'alexnat'")


@POSIX
def test_an_error_is_not_printed_where_the_output_goes(tmp_path):
    done = shell("snref plan alexnat 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


# Installations and limits


@pytest.mark.slow
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_llvmlite_is_named_before_training_begins(tmp_path, how):
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text(BROKEN[how])
    train = shell("snref train digits", ROOT, tmp_path)
    assert train.returncode == 1 and train.stdout == ""
    assert train.stderr.startswith("snref: Numba cannot be imported: ")
    assert train.stderr.count("\n") == 1
    assert "llvmlite" in train.stderr or "ELF" in train.stderr
    said = shell("snref doctor", ROOT, tmp_path)
    assert (said.returncode, said.stderr) == (1, "")
    assert "cpu   FAILS  Numba cannot be imported: " in said.stdout
    assert "pip install" in said.stdout


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("NUMBA_DISABLE_JIT=1", "NUMBA_DISABLE_JIT is set, under which no kernel is"),
        ("NUMBA_ENABLE_CUDASIM=1", "NUMBA_ENABLE_CUDASIM is set, under which no"),
        ("NUMBA_NUM_THREADS=0", "Numba cannot be imported: ValueError: Number of"),
    ],
)
def test_a_setting_of_numba_under_which_no_kernel_runs_is_named(setting, says):
    done = shell(f"{setting} snref train digits; {setting} snref doctor", ROOT)
    assert done.stderr.startswith(f"snref: {says}") and done.stderr.count("\n") == 1
    assert f"cpu   FAILS  {says}" in done.stdout
    assert f"to repair:\n  unset {setting.partition('=')[0]}\n" in done.stdout
    assert "pip install" not in done.stdout


@POSIX
@pytest.mark.parametrize("limit", ["-v 200000", "-v 900000", "-d 200000", "-n 20"])
@pytest.mark.parametrize("verb", ["train digits", "profile digits --out -"])
def test_a_limit_that_is_too_low_is_named_before_the_work_begins(tmp_path, limit, verb):
    done = shell(f"ulimit {limit} && snref {verb}", tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"snref: the limit 'ulimit {limit}' is too low")
    assert done.stderr.count("\n") == 1


@POSIX
def test_the_doctor_names_a_limit_and_sells_no_package_for_it(monkeypatch, capsys):
    limits = {ready.resource.RLIMIT_NOFILE: (20, 20)}
    infinite = (ready.resource.RLIM_INFINITY,) * 2
    monkeypatch.setattr(
        ready.resource, "getrlimit", lambda limit: limits.get(limit, infinite)
    )
    monkeypatch.setattr(doctor, "find_gpu", lambda: Finding("not asked", None))
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "cpu   FAILS  the limit 'ulimit -n 20' is too low" in said
    assert "pip install" not in said


def test_a_net_that_the_machine_cannot_hold_is_refused_before_it_is_made(capsys):
    assert main(["train", "lenet", "--batch", "99999999", "--device", "cpu"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("snref: not enough memory: training lenet needs ")


@pytest.mark.parametrize("short", ["machine", "container", "process"])
def test_the_least_of_all_limits_of_memory_counts(monkeypatch, short):
    known = {"machine": 3000, "container": 2000, "process": 2500} | {short: 1000}
    found = [(nbytes, f"the {name}'s") for name, nbytes in known.items()]
    monkeypatch.setattr(limits, "_limits", lambda: found)
    limits.check_memory(1000, "training")
    said = f"^training needs 1001 bytes; the {short}'s is 1000$"
    with pytest.raises(MemoryError, match=said):
        limits.check_memory(1001, "training")
    monkeypatch.setattr(limits, "_limits", list)
    limits.check_memory(10**18, "training")


@POSIX
def test_the_limits_of_memory_of_this_machine_are_known():
    assert all(nbytes > 0 for nbytes, _ in limits._limits())
    assert limits._limits()[0][0] >= 2**20


# The working folder


@pytest.mark.parametrize("line", ["snref plan lenet", "snref doctor"])
def test_nothing_in_the_working_folder_replaces_what_is_imported(tmp_path, line):
    for name in ("org", "yaml", "numba", "numpy", "argparse", "csv", "json", "scipy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    for name in ("scipy", "snref", "llvmlite"):
        (tmp_path / name).mkdir()
    done = shell(line, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_training_and_its_helpers_import_nothing_from_the_working_folder(
    tmp_path, monkeypatch
):
    """Helper processes that compile kernels start in the same folder."""
    for name in ("org", "yaml", "signal", "pickle", "numba", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()")
    (tmp_path / "scipy").mkdir()
    monkeypatch.setenv("SNREF_CACHE", str(tmp_path / "cache"))
    done = shell("snref train digits --epochs 1", tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "imported").exists()


def test_the_working_folder_is_searched_for_a_users_module_only_and_last(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine2.py").write_text(
        "import sys, helper2, json\n"
        "from snref.nets import lenet\n"
        "def net(batch):\n"
        "    assert sys.path[-1] == ''\n"
        "    return lenet(batch)\n"
    )
    (tmp_path / "helper2.py").write_text("")
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    before = [entry for entry in sys.path if entry]
    monkeypatch.setattr(sys, "path", list(before))
    assert main(["plan", "mine2:net"]) == 0
    assert main(["plan", "missing2:net"]) == 2
    assert sys.path == before


def test_a_users_module_that_another_one_hides_is_said_to_be_hidden(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "html.py").write_text("def net(batch): ...")
    assert main(["plan", "html:net"]) == 2
    said = capsys.readouterr().err
    assert "module 'html' (" in said and "has no function 'net'" in said


# Files


WRITING = {
    "plan lenet": ("--json", "--csv", "--latex"),
    "compare lenet": ("--json", "--csv", "--latex"),
    "fit lenet --memory 1GB": ("--json", "--csv", "--latex"),
    "sweep lenet --memory 9MB:11MB:2": ("--json", "--csv", "--latex"),
    "nets": ("--json", "--csv", "--latex"),
    "verify graph.json plan.json": ("--json", "--csv", "--latex"),
    "export lenet": ("--out",),
    "profile lenet": ("--out",),
    "train digits": ("--save",),
}
PLANNING = {"plan", "compare", "sweep", "fit", "nets", "verify", "export"}
READING = {
    "plan lenet": ("--costs", "--device"),
    "compare lenet": ("--costs",),
    "fit lenet --memory 1GB": ("--costs",),
    "sweep lenet": ("--costs",),
    "export lenet": ("--costs",),
    "train digits": ("--costs", "--data"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    """A working folder with a graph, its plan, and files that are of no use."""
    monkeypatch.chdir(tmp_path)
    assert main(["export", "lenet", "--out", "graph.json"]) == 0
    assert main(["plan", "lenet", "--steps", "--json", "plan.json"]) == 0
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "empty.toml").touch()
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)) * 20)
    capsys.readouterr()
    return tmp_path


def refused(capsys, line):
    """Run a command line that is refused for a file: its one line, and no output."""
    try:
        code = main(line)
    except SystemExit as exit:
        code = exit.code
    said = capsys.readouterr()
    assert code == 2 and said.out == "", (line, said)
    assert said.err.startswith("snref") and said.err.count("\n") == 1, said.err
    assert "internal error" not in said.err
    return said.err


@pytest.mark.parametrize("verb", WRITING)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(folder, capsys, verb):
    before = sorted(path.name for path in folder.iterdir())
    for option in WRITING[verb]:
        for path in ("no/where", "folder.toml", "plan.json/x", ""):
            said = refused(capsys, [*verb.split(), option, path])
            assert path in said, said
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("verb", [v for v in WRITING if v.split()[0] in PLANNING])
def test_a_full_disk_is_named_with_the_file(folder, capsys, verb):
    for option in WRITING[verb]:
        assert main([*verb.split(), option, "/dev/full"]) == 1
        said = capsys.readouterr().err
        assert said == "snref: /dev/full: No space left on device\n"


@pytest.mark.parametrize("verb", READING)
def test_a_file_that_cannot_be_read_is_named(folder, capsys, verb):
    for option in READING[verb]:
        for path in ("none.toml", "folder.toml", "empty.toml", "binary.toml"):
            said = refused(capsys, [*verb.split(), option, path])
            assert path in said and len(said) < 400, said


@pytest.mark.parametrize(
    "wrong", ["none.toml", "folder.toml", "empty.toml", "binary.toml"]
)
def test_a_graph_or_plan_that_cannot_be_read_is_named(folder, capsys, wrong):
    assert wrong in refused(capsys, ["verify", wrong, "plan.json"])
    assert wrong in refused(capsys, ["verify", "graph.json", wrong])


@POSIX
def test_a_file_that_may_not_be_read_or_written_is_named(folder, capsys):
    (folder / "secret").touch(mode=0)
    if os.access(folder / "secret", os.R_OK):
        pytest.skip("this user may read everything")
    for line in ("plan lenet --costs", "plan lenet --json", "export lenet --out"):
        said = refused(capsys, [*line.split(), "secret"])
        assert "secret: Permission denied" in said
    for line in (
        ["verify", "none", "plan.json"],
        ["verify", "graph.json", "folder.toml"],
    ):
        assert line[1] in refused(capsys, line) or line[2]


@POSIX
@pytest.mark.parametrize("verb", ["plan lenet", "cite", "--help", "--version"])
@pytest.mark.parametrize("python", ["PYTHONUNBUFFERED=", "PYTHONUNBUFFERED=1"])
def test_a_full_or_closed_output_is_one_line_at_most(tmp_path, verb, python):
    if os.path.exists("/dev/full"):
        full = shell(f"{python} snref {verb} > /dev/full", tmp_path)
        assert full.returncode == 1
        assert full.stderr == "snref: standard output: No space left on device\n"
    closed = shell(f"{python} snref {verb} >&-", tmp_path)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_what_has_no_kernel_cannot_be_measured(folder, capsys):
    said = refused(capsys, ["profile", "gpt2", "--batch", "1", "--out", "costs.csv"])
    assert "gpt2 can be planned only" in said
