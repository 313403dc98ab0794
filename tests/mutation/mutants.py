"""Mutants of the code: one comparison, constant, argument order or statement changed.

    python -m tests.mutation.mutants --draw 200 --seed 1 --jobs 2

draws mutants from the syntax trees of the planner, the verifier, the pool, the
checkpoint, the kernels and the layers. Each is put into a copy of the repository, where
the default tests run, the nearest first, until one fails. What none catches is listed,
unless ``equivalent.toml`` argues that no test could.

Not drawn, since nothing can change: the operands of ``max`` and ``min`` exchanged, and
``strict`` of ``zip``, which is an assertion.
"""

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Queue
from random import Random

ROOT = Path(__file__).parents[2]
NOT_COPIED = ".git", "__pycache__", ".*_cache", "*.egg-info", "build", "dist"
DESELECTED = "--ignore=tests/mutation", "--ignore=tests/simt", "--ignore=tests/driver"
SECONDS = 600  # of CPU; a mutant that makes the tests run on for longer is caught
PATIENCE = 3600  # for tests that wait for ever: seconds on the clock

# Where mutants are drawn from, and the tests that are nearest to each file of it.
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "planner": (
        ("snref/scheduler/*.py",),
        ("tests/scheduler", "tests/planning", "tests/plans"),
    ),
    "verifier": (("snref/plans/verification.py",), ("tests/plans",)),
    "pool": (("snref/scheduler/slab.py",), ("tests/scheduler",)),
    "checkpoint": (
        ("snref/training/checkpoint.py",),
        ("tests/training", "tests/commands"),
    ),
    "kernels": (("snref/kernels/*.py", "snref/kernels/conv/*.py"), ("tests/kernels",)),
    "layers": (("snref/layers/*.py",), ("tests/layers", "tests/nets", "tests/kernels")),
}
KINDS = "comparison", "constant", "arguments", "statement"

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    """A place in a file, and what stands there instead."""

    room: str
    path: str
    kind: str
    line: int
    start: int  # in characters
    stop: int
    text: str  # of the line
    old: str
    new: str

    @property
    def name(self) -> str:
        """What tells the mutant from others, also when lines are added above it."""
        old, new = " ".join(self.old.split()), " ".join(self.new.split())
        where = "" if self.text.strip() == old else f" in `{self.text.strip()}`"
        return f"{self.path}: `{old}` -> `{new}`{where}"


def changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The mutants of one node: (kind, what stands there instead)."""
    match node:
        case ast.Compare(ops=[op, *_]):
            new = copy.deepcopy(node)
            new.ops[0] = COMPARISONS[type(op)]()
            yield "comparison", new
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield "constant", ast.Constant(number + 1)
        case ast.Call(func=ast.Name(id="max" | "min")):
            pass
        case ast.Call(args=[first, second, *_]) if not any(
            isinstance(argument, ast.Starred) for argument in (first, second)
        ):
            new = copy.deepcopy(node)
            new.args[:2] = second, first
            if ast.dump(new) != ast.dump(node):
                yield "arguments", new
        case (
            ast.Assign()
            | ast.AnnAssign(value=ast.expr())
            | ast.AugAssign()
            | ast.Delete()
            | ast.Expr(value=ast.Call())
            | ast.For()
            | ast.If()
            | ast.Raise()
            | ast.Return(value=ast.expr())
        ):
            yield "statement", ast.Pass()


@cache
def mutants_of(room: str, path: Path) -> tuple[Mutant, ...]:
    """All mutants of a file. Annotations, decorators and messages have none."""
    text = path.read_text("utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def position(line: int, column: int) -> int:  # a column counts bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def visit(node: ast.AST) -> Iterator[Mutant]:
        for kind, new in changed(node):
            assert isinstance(node, ast.expr | ast.stmt)
            assert node.end_lineno is not None and node.end_col_offset is not None
            start = position(node.lineno, node.col_offset)
            stop = position(node.end_lineno, node.end_col_offset)
            old, shown = text[start:stop], ast.unparse(new)
            yield Mutant(
                room,
                str(path.relative_to(ROOT)),
                kind,
                node.lineno,
                start,
                stop,
                lines[node.lineno - 1],
                old,
                f"({shown})" if isinstance(new, ast.expr) else shown,
            )
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            for child in children:
                if isinstance(child, ast.JoinedStr):  # of messages
                    continue
                if isinstance(child, ast.keyword) and child.arg == "strict":
                    continue
                if isinstance(child, ast.AST):
                    yield from visit(child)

    return tuple(visit(ast.parse(text)))


def drawn(number: int, seed: int) -> list[Mutant]:
    """Mutants by room and kind in turn, so that the small ones are not forgotten."""
    random = Random(seed)
    pools: dict[tuple[str, str], list[Mutant]] = {}
    taken: set[str] = set()
    for room, (patterns, _) in sorted(ROOMS.items(), key=lambda r: len(r[1][0][0])):
        for kind in KINDS:
            pools[room, kind] = []
        for path in sorted({p for pattern in patterns for p in ROOT.glob(pattern)}):
            if room == "planner" and path.name == "slab.py":
                continue
            for mutant in mutants_of(room, path):
                pools[room, mutant.kind].append(mutant)
    for pool in pools.values():
        random.shuffle(pool)
    found: list[Mutant] = []
    while len(found) < number and any(pools.values()):
        for pool in pools.values():
            if pool and len(found) < number:
                mutant = pool.pop()
                if mutant.name not in taken:
                    taken.add(mutant.name)
                    found.append(mutant)
    return found


class Copy:
    """A copy of the repository, into which one mutant after another is put."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def caught(self, mutant: Mutant, everything: bool = True) -> str | None:
        """The test that catches a mutant, or what else did; None if none does."""
        path = self.folder / mutant.path
        text = path.read_text("utf-8")
        changed = text[: mutant.start] + mutant.new + text[mutant.stop :]
        path.write_text(changed, "utf-8")
        try:
            nearest = self.nearest(mutant)
            return self.failing(nearest) or (self.failing(()) if everything else None)
        finally:
            path.write_text(text, "utf-8")

    def nearest(self, mutant: Mutant) -> tuple[str, ...]:
        """The tests of a file, its examples, and the other tests of its room."""
        path = Path(mutant.path)
        names = f"test_{path.stem}.py", f"test_{path.parent.name}.py"
        tests = [
            test
            for room in ROOMS[mutant.room][1]
            for test in sorted((self.folder / room).rglob("test_*.py"))
        ]
        tests.sort(key=lambda test: test.name not in names)
        own = [test for test in tests if test.name in names]
        files = (*own, self.folder / path, *tests[len(own) :])
        return tuple(str(file.relative_to(self.folder)) for file in files)

    def failing(self, tests: tuple[str, ...]) -> str | None:
        """Run tests until one fails: its name; None if all pass."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", *DESELECTED]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [*command, "-p", "no:cacheprovider", *tests],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                preexec_fn=_limit_cpu if os.name == "posix" else None,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "no test ended in time"
        if done.returncode == 0:
            return None
        failed = [
            line
            for line in done.stdout.splitlines()
            if line.startswith(("FAILED", "ERROR"))
        ]
        return failed[0][:160] if failed else f"pytest ended with {done.returncode}"


def _limit_cpu() -> None:
    """Count CPU time, not the clock: a busy machine makes no mutant look caught."""
    import resource  # POSIX has it

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@dataclass(frozen=True)
class Result:
    """What became of a mutant: the test that caught it, None if none did."""

    mutant: Mutant
    by: str | None
    seconds: float


def equivalents() -> dict[str, str]:
    """The mutants that are argued to change nothing a test should see, with why."""
    text = (Path(__file__).parent / "equivalent.toml").read_text("utf-8")
    return {entry["mutant"]: entry["why"] for entry in tomllib.loads(text)["mutants"]}


def run_all(mutants: list[Mutant], jobs: int, everything: bool) -> Iterator[Result]:
    """Run the tests on each mutant, several at a time, each in a copy of its own.

    They come as they are done. Raises RuntimeError if a test fails without a mutant.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Copy] = Queue()
        for number in range(jobs):
            copies.put(Copy(Path(folder) / str(number)))

        def one(mutant: Mutant | None) -> Result | str | None:
            here, start = copies.get(), time.time()
            try:
                if mutant is None:
                    return here.failing(())
                by = here.caught(mutant, everything)
                return Result(mutant, by, time.time() - start)
            finally:
                copies.put(here)

        if everything and (failing := one(None)):
            raise RuntimeError(f"without a mutant: {failing}")
        for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
            result = done.result()
            assert isinstance(result, Result)
            yield result


def report(results: list[Result]) -> str:
    """Return the shares that were caught, and the mutants that were not."""
    why = equivalents()
    counted = [r for r in results if r.by or r.mutant.name not in why]
    caught = [r for r in counted if r.by]
    lines = [
        f"{len(results)} mutants, {len(results) - len(counted)} argued equivalent; of "
        f"the others {len(caught)} caught: {100 * len(caught) / len(counted):.1f} %",
        "",
    ]
    for what in (*ROOMS, *KINDS):
        of = [r for r in counted if what in (r.mutant.room, r.mutant.kind)]
        lines.append(f"{what:12} {sum(bool(r.by) for r in of):4} of {len(of):4}")
    for title, known in (("Not caught", False), ("Argued equivalent", True)):
        left = [r.mutant.name for r in results if not r.by]
        left = [name for name in left if (name in why) == known]
        lines += ["", f"{title}: {len(left)}"]
        for name in left:
            lines.append(f"- {name}")
            if known:
                lines.append(f"  {why[name]}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--nearest", action="store_true", help="only the nearest tests")
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    arguments = parser.parse_args()
    mutants = drawn(arguments.draw, arguments.seed)
    if arguments.list:
        print(*(mutant.name for mutant in mutants), sep="\n")
        return
    results = []
    for result in run_all(mutants, arguments.jobs, not arguments.nearest):
        results.append(result)
        verdict = "caught" if result.by else "SURVIVED"
        print(f"{verdict:8} {result.seconds:4.0f} s  {result.mutant.name}", flush=True)
        if result.by:
            print(f"               {result.by}", flush=True)
    print(f"\n{report(results)}")


if __name__ == "__main__":
    main()
