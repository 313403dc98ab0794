"""Who may import whom: planning stays free of devices, devices of planning."""

import ast
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import snref

PACKAGE = Path(snref.__file__).parent
# A part of snref -> the parts it may import, and what from outside the standard
# library. A part is a module or a package; the longest name that fits counts.
ALLOWED = {
    "": {
        "checking",
        "layers",
        "net",
        "nets",
        "planning",
        "plans",
        "scheduler",
        "training",
    },
    "support": set(),
    "support.imports": {"plans"},
    "simt": {"simt", "numba", "llvmlite", "numpy"},
    "kernels": {"kernels", "plans", "support.imports", "numba"},
    "plans": {"plans"},
    "layers": {"layers", "plans"},
    "net": {"plans", "layers", "support"},
    "parts": {"plans", "layers", "net"},
    "nets": {"nets", "net", "layers", "support", "support.imports"},
    "timing": {"timing", "plans", "support"},
    "scheduler": {"scheduler", "timing.costs", "plans", "support"},
    "policies": {"policies", "scheduler", "timing", "timing.costs", "plans"}
    | {"scipy"},
    "planning": {"planning", "policies", "scheduler", "timing", "net", "plans"}
    | {"parts"}
    | {"layers", "support", "support.imports", "scipy", ""},
    "device": {"device", "kernels", "simt", "plans", "numba", "numpy", "cuda"},
    "checking": {"checking", "kernels", "layers", "parts", "plans", "device", "simt"}
    | {"numpy"},
    "data": {"data", "numpy"},
    "papers": {"support"},
    "views": {"matplotlib"},
}
EVERYTHING = {"commands", "__main__", "training"}


def modules():
    """Every module of snref by its name under it, with its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def part_of(name, parts):
    """The longest of the parts that a module's name begins with."""
    return max(
        (p for p in parts if p == name or name.startswith(f"{p}.")),
        key=len,
        default=None,
    )


def imports(name, path):
    """What a module imports, at the top or in functions, by full names."""
    known = {f"snref.{other}" for other, _ in modules()}
    package = ["snref", *name.split(".")][: None if path.stem == "__init__" else -1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, level=level, names=names):
                base = package[: len(package) - level + 1] if level else []
                module = ".".join([*base, *([module] if module else [])])
                for alias in names:
                    below = f"{module}.{alias.name}"
                    yield below if below in known else module


def parts_imported(name, path):
    """What a module imports, as the table may call it: part and module, or package."""
    for found in imports(name, path):
        top, _, below = found.partition(".")
        if top == "snref":
            yield {part_of(below, ALLOWED.keys() | EVERYTHING) if below else "", below}
        elif top not in sys.stdlib_module_names:
            yield {top}


@pytest.mark.parametrize(("name", "path"), tuple(modules()))
def test_a_module_imports_only_what_the_table_allows(name, path):
    if part_of(name, EVERYTHING):
        return
    part = part_of(name, ALLOWED) if name else ""
    assert part is not None, f"snref.{name} needs a row in the table"
    for found in parts_imported(name, path):
        assert found & ALLOWED[part], f"snref.{name} imports {found}"


def test_the_table_allows_nothing_that_no_module_imports():
    used = {part: {part} for part in ALLOWED}
    for name, path in modules():
        if not part_of(name, EVERYTHING):
            part = part_of(name, ALLOWED) if name else ""
            used[part].update(*parts_imported(name, path))
    unused = {part: allowed - used[part] for part, allowed in ALLOWED.items()}
    assert not {part: names for part, names in unused.items() if names}


def in_a_new_process(script):
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = {"numba", "numpy", "matplotlib", "scipy", "torch", "llvmlite"}


@pytest.mark.parametrize(
    "work",
    [
        "import snref; dir(snref)",
        "import snref; snref.plan(snref.nets.alexnet(batch=2)).summary()",
        "import snref; snref.plan(snref.nets.lenet(batch=2), memory='6MB').to_json()",
        "from snref.__main__ import main; main(['compare', 'lenet'])",
        "from snref.__main__ import main; main(['nets'])",
        "from snref.__main__ import main; main(['export', 'lenet'])",
    ],
)
def test_planning_needs_neither_numba_nor_numpy(work):
    out = in_a_new_process(f"{work}\nimport sys; print('\\n', *sys.modules)")
    loaded = set(out.splitlines()[-1].split())
    assert "snref" in loaded
    assert not HEAVY & loaded


def test_importing_snref_imports_nothing_of_it():
    out = in_a_new_process("import snref, sys; print(*sys.modules)")
    assert [name for name in out.split() if name.startswith("snref")] == ["snref"]


def test_every_public_name_is_there_and_no_function_has_a_modules_name():
    for name in snref.__all__:
        value = getattr(snref, name)
        assert value is not None
        if not isinstance(value, type(snref)):
            assert not (PACKAGE / name).exists(), name
            assert not (PACKAGE / f"{name}.py").exists(), name
    assert set(snref.__all__) <= set(dir(snref))
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        _ = snref.fly


@pytest.mark.parametrize("seed", range(2))
def test_modules_may_be_imported_in_any_order(seed):
    needs_the_extra_gpu = "device.cuda"
    names = [name for name, _ in modules() if "__main__" not in name]
    names.remove(needs_the_extra_gpu)
    random.Random(seed).shuffle(names)
    lines = [f"import snref.{name}".rstrip(".") for name in names]
    example = "print(snref.plan(snref.nets.lenet(batch=2), preset='cache').summary())"
    assert "lenet" in in_a_new_process("\n".join([*lines, "import snref", example]))
