"""Numba's own CUDA tests under the drop-in: which there are, and how each one ends.

    python -m snref.simt tests/simt/numba_suite.py --list

writes `numba_suite.txt`, which `test_numba_suite.py` holds the drop-in to; with names
of files behind it (`cudapy/test_sm`) it runs only these again. Each line has a class,
an outcome and the test's name. The class follows from RULE: a test that is about the
driver, linking, PTX, memory shared between processes or streams is not about the
language of kernels. Only names are kept here; the tests are those of the installed
Numba.
"""

import importlib
import subprocess
import sys
import unittest
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numba

# A test belongs to the first class one of whose words is a name in its code (its own,
# its class's `setUp`, and the functions of its module that they call) or is a word of
# its file's name; if there is none, to the class "language".
RULE = {
    "driver": """driver drvapi binding nvvm libs devices memory_manager runtime
        set_memory_manager deallocations cuda_error get_supported_ccs cudadrv
        CudaSupportError defer_cleanup can_access_peer get_cudalib emm mvc""",
    "linking": "link linker Linker declare_device ffi",
    "PTX": """compile_ptx compile_ptx_for_current_device compile_all
        compile_for_current_device inspect_asm inspect_llvm inspect_sass
        inspect_sass_cfg get_regs_per_thread get_local_mem_per_thread
        get_shared_mem_per_block get_const_mem_size CUDACodeLibrary ptx debuginfo""",
    "processes": "ipc get_ipc_handle open_ipc_array",
    "streams": """stream streams Stream default_stream legacy_default_stream
        per_thread_default_stream async_done add_callback auto_synchronize""",
}
SECONDS = 1800  # for the tests of one file
LIST = Path(__file__).with_suffix(".txt")


def files() -> list[str]:
    """The files of tests, as "folder/test_name"."""
    import numba.cuda.tests

    folder = Path(numba.cuda.tests.__file__).parent
    return [f"{p.parent.name}/{p.stem}" for p in sorted(folder.glob("*/test_*.py"))]


def cases(file: str) -> Iterator[unittest.TestCase]:
    """The tests of a file."""
    module = importlib.import_module("numba.cuda.tests." + file.replace("/", "."))
    pending: list[Any] = [unittest.defaultTestLoader.loadTestsFromModule(module)]
    while pending:
        current = pending.pop(0)
        if isinstance(current, unittest.TestSuite):
            pending = [*current, *pending]
        else:
            yield current


def class_of(file: str, case: unittest.TestCase) -> str:
    """The class of a test, by RULE."""
    used = _names(case) | set(file.split("/")[1].split("_"))
    for name, words in RULE.items():
        if used & set(words.split()):
            return name
    return "language"


def _names(case: unittest.TestCase) -> set[str]:
    """Names in the code of a test and of the functions of its module that it calls."""
    found: set[str] = set()
    seen: set[CodeType] = set()
    pending: list[Any] = [getattr(type(case), case._testMethodName), type(case).setUp]
    while pending:
        function = _plain(pending.pop())
        if function is None or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        names = {n for code in _codes(function.__code__) for n in code.co_names}
        found |= names
        for name in names:
            called = (function.__globals__.get(name), vars(type(case)).get(name))
            pending += [f for f in map(_plain, called) if _is_of(f, case)]
        pending += [c.cell_contents for c in function.__closure__ or () if _is_set(c)]
    return found


def _plain(value: Any) -> FunctionType | None:
    """The Python function behind decorators and kernels, if there is one."""
    while not isinstance(value, FunctionType | type) and hasattr(value, "__dict__"):
        inner = vars(value).get("__func__") or vars(value).get("py_func")
        if inner is None:
            break
        value = inner
    while "__wrapped__" in getattr(value, "__dict__", {}):
        value = value.__wrapped__
    if isinstance(value, staticmethod):
        value = value.__func__
    return value if isinstance(value, FunctionType) else None


def _is_of(function: FunctionType | None, case: unittest.TestCase) -> bool:
    return function is not None and function.__module__ == type(case).__module__


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def run(file: str) -> Iterator[str]:
    """Run the tests of a file; a line for each: class, outcome, name."""
    for case in cases(file):
        result = unittest.TestResult()
        case.run(result)
        passed = result.wasSuccessful()
        outcome = "skipped" if result.skipped else "passed" if passed else "failed"
        name = f"{file}::{type(case).__name__}::{case._testMethodName}"
        yield f"{class_of(file, case):9}  {outcome:7}  {name}"


def run_apart(file: str) -> list[str]:
    """The lines of `run`, from a process of its own.

    A test that ends the process, or does not end, leaves no line.
    """
    command = [sys.executable, "-m", "snref.simt", __file__, file]
    root = Path(__file__).parents[2]
    try:
        ended = subprocess.run(command, cwd=root, capture_output=True, timeout=SECONDS)
        output = ended.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    shown = output.decode(errors="replace")
    marked = (line for line in shown.splitlines() if line.startswith(_MARK))
    return [line.removeprefix(_MARK) for line in marked]


_MARK = "numba_suite: "  # tests print, too


def listed() -> dict[str, str]:
    """The lines of the list, by the test's name."""
    lines = LIST.read_text().splitlines()
    return {line.split()[-1]: line for line in lines if not line.startswith("#")}


def lines_of(file: str) -> dict[str, str]:
    """Run the tests of a file; their lines for the list, by the test's name."""
    names = {f"{file}::{type(c).__name__}::{c._testMethodName}": c for c in cases(file)}
    ran = {line.split()[-1]: line for line in run_apart(file)}
    return {
        name: ran.get(name, f"{class_of(file, case):9}  failed   {name}")
        for name, case in names.items()
    }


def share(lines: Iterable[str], kind: str = "language") -> tuple[int, int]:
    """How many tests of a class pass, and how many there are but skipped ones."""
    ends = [line.split()[1] for line in lines if line.split()[0] == kind]
    return ends.count("passed"), len(ends) - ends.count("skipped")


def write_list(chosen: list[str]) -> None:
    """Run the tests of all files, or of those chosen, and write the list."""
    old = listed() if chosen else {}
    for file in chosen or files():
        old = {n: line for n, line in old.items() if not n.startswith(f"{file}::")}
        old |= lines_of(file)
        head = f"# Numba {numba.__version__}: made by numba_suite.py; do not edit\n"
        order = {f: i for i, f in enumerate(files())}
        lines = sorted(old.values(), key=lambda n: order[n.split()[-1].split("::")[0]])
        LIST.write_text(head + "\n".join(lines) + "\n")
        print(file, "of language: {} of {} pass".format(*share(lines)), flush=True)


def main(given: list[str]) -> None:
    if given and given[0] == "--list":
        write_list(given[1:])
    else:
        for line in run(given[0]):
            print(f"\n{_MARK}{line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
