"""Mistakes in what users bring: modules, files, streams. One line, no traceback."""

import copy
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from random import Random

import pytest

import snref
from snref.__main__ import main
from snref.support.imports import imported

ROOT = Path(snref.__file__).parents[1]
POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX streams and devices")


@pytest.fixture
def mistaken(capsys, tmp_path, monkeypatch):
    """Run a command line that is wrong, in a folder of its own: its one line."""
    monkeypatch.chdir(tmp_path)

    def run(*words, code=2):
        try:
            got = main(words)
        except SystemExit as exit:  # argparse's own
            got = exit.code
        said = capsys.readouterr()
        assert got == code, said.err
        assert said.err.count("\n") == 1 and said.err.startswith("snref"), said.err
        return said.err

    return run


# Options and files

IGNORED = [
    ("--policy chen --transfers offload", "omit transfers"),
    ("--policy chen --recompute off --transfers none", "recompute and transfers"),
    ("--policy chen --memory 20MB --effort 2", "--effort is for"),
    ("--preset cache --memory 20MB --effort 2", "--effort is for"),
    ("--effort 2", "--effort is for"),
    ("--memory 20MB --transfers cache --effort 2", "--effort is for"),
    ("--memory 20MB --recompute cost --effort 2", "--effort is for"),
]


@pytest.mark.parametrize(("options", "said"), IGNORED)
def test_an_option_that_would_be_ignored_is_refused(mistaken, options, said):
    assert said in mistaken("plan", "lenet", *options.split())


@pytest.mark.parametrize(
    "line",
    ["plan lenet --json", "plan lenet --csv", "plan lenet --costs", "fit lenet --json"],
)
def test_a_file_without_a_name_is_refused(mistaken, line):
    assert "'': a file needs a name" in mistaken(*line.split(), "")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
@pytest.mark.parametrize(
    "line", ["plan lenet --costs /dev/zero", "compare lenet --plan /dev/zero"]
)
def test_a_file_without_an_end_is_refused(mistaken, monkeypatch, line):
    monkeypatch.setattr("snref.support.files.MOST", 2**16)
    assert "/dev/zero: has more than 65,536 characters" in mistaken(*line.split())


# Modules

NETS = """
    from snref.layers import Conv, Linear, ReLU, Softmax
    from snref.net import Net

    def fails(batch):
        raise RuntimeError("two\\nlines")

    def leaves(batch):
        raise SystemExit(3)

    def endless(batch):
        return endless(batch)

    def wrong_shape(batch):
        net = Net("mine")
        net.add("conv", Conv(4, 3, groups=2), net.input((batch, 3, 8, 8)))

    def wrong_setting(batch):
        Linear(0)

    def nothing(batch):
        return None

    def no_batch():
        return None

    def empty(batch):
        return Net("mine")

    def four(batch):
        net = Net("mine")
        net.chain(net.input((4, 3)), softmax=Softmax())
        return net

    number = 3
"""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("fails", ["nets1.py:6: RuntimeError: two lines"]),
        ("leaves", ["nets1.py:9: SystemExit: 3"]),
        ("endless", ["nets1.py:12: RecursionError"]),
        (
            "wrong_shape",
            ["nets1.py:16: layer 'conv': groups 2: must divide 3 channels"],
        ),
        ("wrong_setting", ["nets1.py:19: outputs 0: must be >= 1"]),
        ("nothing", ["must return a Net, returned NoneType"]),
        ("no_batch", ["TypeError", "takes 0 positional arguments"]),
        ("empty", ["net 'mine' has no input"]),
        ("four", ["called for batch 2, returned a net for batch 4"]),
        ("number", [") has no function 'number'"]),
        ("Net.add", [") has no function 'Net.add'"]),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "train", "export", "compare"])
def test_a_net_of_ones_own_that_fails_says_where(mistaken, verb, function, words):
    Path("nets1.py").write_text(textwrap.dedent(NETS))
    said = mistaken(verb, f"nets1:{function}", "--batch", "2")
    for word in words:
        assert word in said, said


POLICIES = """
    from snref.plans import Alloc, Free, Plan

    def fails(route, options, costs):
        raise KeyError("conv1")

    def nothing(route, options, costs):
        return None

    def no_steps(route, options, costs):
        return Plan((1, 2))

    def generates(route, options, costs):
        return Plan(step for step in route.steps)

    def by_name(route, options, costs):
        return Plan((Alloc("conv1.y"), *route.steps))

    def odd_offset(route, options, costs):
        first = route.steps[0].writes[0]
        return Plan((Alloc(first, "0"), *route.steps))

    def frees_twice(route, options, costs):
        import snref.scheduler.liveness as liveness
        made = liveness.free_dead(route)
        last = next(step for step in made.steps if isinstance(step, Free))
        return Plan((*made.steps, last))

    def few(route):
        return route
"""


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("fails", 2, "policies1.py:5: KeyError: 'conv1'"),
        ("nothing", 2, "must return a Plan, returned NoneType"),
        ("no_steps", 2, "steps[0] is no step but int"),
        ("generates", 2, "the steps must be a tuple, not generator"),
        ("by_name", 2, "steps[0] has no Tensor but str"),
        ("odd_offset", 2, "steps[0]: the offset must be an int or None, not '0'"),
        ("frees_twice", 1, "invalid plan: steps["),
        ("few", 2, "TypeError"),
        ("none", 2, ") has no function 'none'"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "compare"])
def test_a_policy_that_fails_says_where(mistaken, verb, function, code, words):
    Path("policies1.py").write_text(textwrap.dedent(POLICIES))
    line = verb, "lenet", "--batch", "2", "--policy", f"policies1:{function}"
    assert words in mistaken(*line, code=code)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("wrong1", "def (:", "SyntaxError: invalid syntax (wrong1.py, line 1)"),
        ("lacks1", "import nowhere1", "lacks1.py:1: ModuleNotFoundError"),
        ("fails1", "\n1 / 0", "fails1.py:2: ZeroDivisionError"),
        ("exits1", "raise SystemExit(5)", "exits1.py:1: SystemExit: 5"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(mistaken, name, text, words):
    Path(f"{name}.py").write_text(text)
    assert words in mistaken("plan", f"{name}:net")
    assert words in mistaken("plan", "lenet", "--policy", f"{name}:net")


@pytest.mark.parametrize("name", ["", ":", ":f", ".:f", "..a:f", "a/b:f", "a b:f"])
def test_a_name_that_can_be_no_module_is_refused(name):
    with pytest.raises(ValueError, match=r"policy .* must be MODULE:FUNCTION"):
        imported(name, "policy")


# Files and sizes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["plan", "lenet", "--json", ""], "'': a file needs a name"),
        (["plan", "lenet", "--json", "a\0b"], r"'a\x00b': "),
        (["plan", "lenet", "--json", "y" * 300], "File name too long"),
        (["plan", "lenet", "--costs", ""], "''"),
        (["plan", "lenet", "--costs", "a\0b"], r"'a\x00b': "),
        (["plan", "lenet", "--device", "a\0.toml"], r"'a\x00.toml': "),
        (["verify", "a\0b", "-"], r"'a\x00b': "),
        (["plan", "lenet", "--json", "-", "--csv", "-"], "'-' takes only one of"),
        (["plan", "lenet", "--json", "x", "--csv", "x"], "'x' takes only one of"),
        (["plan", "lenet", "--memory", "9" * 5000], "'9999"),
        (["plan", "lenet", "--batch", "9" * 5000], "'9999"),
        (["plan", "lenet", "--batch", "9" * 30], "more than 281474976710656 bytes"),
        (["plan", "gpt2", "--batch", "1" + "0" * 12], "more than 281474976710656"),
    ],
)
def test_a_path_or_number_that_cannot_be_is_named(mistaken, line, words):
    if os.name == "nt" and "Is a" in words:
        words = "'': "
    said = mistaken(*line)
    assert words in said and len(said) < 500, said
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00\xff\xfe\x8f" * 50, id="binary"),
        pytest.param('{"schema": "snref.plan/2"'.encode("utf-16"), id="UTF-16"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"9" * 5000, id="long"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"schema": "snref.graph/2"}', id="another schema"),
        pytest.param(b'{"schema": 1e999}', id="infinity"),
    ],
)
def test_a_file_that_is_something_else_is_refused(mistaken, raw):
    Path("wrong").write_bytes(raw)
    main(["export", "lenet", "--batch", "2", "--out", "graph.json"])
    for line in (
        ["verify", "wrong", "graph.json"],
        ["verify", "graph.json", "wrong"],
        ["plan", "lenet", "--costs", "wrong"],
    ):
        said = mistaken(*line)
        assert said.startswith("snref: wrong") and len(said) < 300, said


def places(value, path=()):
    """Every place in a JSON value, as keys and indices from the top."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, below in inner:
        yield from places(below, (*path, key))


JUNK = (None, True, 0, -1, 1, 2**63 - 1, 2**63, 10**400, 0.5, 1e308, float("inf"))
JUNK += (float("nan"), "", "conv1", "conv1.y", "\ud800", "a\nb", [], {}, [1], {"a": 1})


@pytest.mark.parametrize("seed", range(2))
def test_whatever_the_files_say_verify_answers_in_one_line(
    seed, tmp_path, monkeypatch, capsys
):
    """60 graphs and 60 plans, each with something in it deleted, moved or replaced."""
    monkeypatch.chdir(tmp_path)
    random = Random(seed)
    main(["export", "digits", "--batch", "2", "--out", "graph.json"])
    main(["plan", "digits", "--batch", "2", "--steps", "--json", "plan.json"])
    whole = {
        name: json.loads(Path(name).read_text()) for name in ("graph.json", "plan.json")
    }
    answers = set()
    for i in range(120):
        files = copy.deepcopy(whole)
        document = files["plan.json" if i % 2 else "graph.json"]
        *above, key = random.choice([*places(document)])
        for step in above:
            document = document[step]
        match random.randrange(4):
            case 0:
                del document[key]
            case 1 if isinstance(document, list):
                random.shuffle(document)
            case 2 if isinstance(document, list):
                document.append(document[key])
            case _:
                document[key] = random.choice(JUNK)
        for name, value in files.items():
            Path(name).write_text(json.dumps(value))
        capsys.readouterr()
        answers.add(code := main(["verify", "graph.json", "plan.json", "--json", "-"]))
        said = capsys.readouterr()
        assert said.err.count("\n") == (code > 0) and len(said.err) < 500, said.err
        if code == 0:
            json.loads(said.out, parse_constant=pytest.fail)
    assert answers == {0, 1, 2}


def test_which_file_is_meant_is_said_first(mistaken):
    main(["export", "lenet", "--batch", "2", "--out", "graph.json"])
    said = mistaken("verify", "graph.json", "graph.json")
    assert "schema: 'snref.graph/3', must be 'snref.plan/3' or 'snref.plan/2'" in said


def test_a_byte_order_mark_is_no_fault(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["export", "lenet", "--batch", "2", "--out", "graph.json"])
    main(["plan", "lenet", "--batch", "2", "--steps", "--json", "plan.json"])
    for name in "graph.json", "plan.json":
        Path(name).write_text(Path(name).read_text("utf-8"), "utf-8-sig")
    assert main(["verify", "graph.json", "plan.json"]) == 0
    assert "valid" in capsys.readouterr().out


@POSIX
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, capsys):
    target = tmp_path / "plan.json"
    target.write_text("old")
    target.chmod(0o600)
    assert main(["plan", "lenet", "--json", str(target)]) == 0
    assert target.stat().st_mode & 0o777 == 0o600
    assert json.loads(target.read_text())["net"] == "lenet"


# Streams


def shell(line, folder):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    line = line.replace("snref ", f"{sys.executable} -m snref ")
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@POSIX
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("snref plan lenet > /dev/full", 1, "standard output: No space left"),
        ("snref plan lenet --csv - > /dev/full", 1, "standard output: No space left"),
        ("snref plan lenet >&-", 0, ""),
        ("snref verify - - <&-", 2, "standard input is closed"),
    ],
)
def test_a_stream_that_is_full_or_closed_is_one_line_at_most(
    tmp_path, line, code, said
):
    if "/dev/full" in line and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and done.stderr.count("\n") == bool(said)


@POSIX
def test_a_name_that_the_terminal_cannot_say_is_spelled(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from snref.layers import Softmax\n"
        "from snref.net import Net\n"
        "def net(batch):\n"
        "    net = Net('n\\u00e9t')\n"
        "    net.add('\\u0441', Softmax(), net.input((batch, 3)))\n"
        "    return net\n"
    )
    done = shell("snref plan mine:net --steps", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"n\xe9t" in done.stdout and r"\u0441" in done.stdout


def test_a_plan_for_another_batch_is_not_the_graphs(mistaken, capsys):
    assert main(["export", "lenet", "--batch", "8", "--out", "graph.json"]) == 0
    plan = ["plan", "lenet", "--batch", "16", "--steps", "--json", "plan.json"]
    assert main(plan) == 0
    capsys.readouterr()
    said = mistaken("verify", "graph.json", "plan.json")
    assert "plan.json: is for batch 16, the graph for 8" in said


def test_a_fraction_of_a_byte_is_no_size(mistaken):
    assert "1.6 is no whole number" in mistaken("plan", "lenet", "--memory", "1.6")
