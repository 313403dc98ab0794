"""Python runs this at its start in a child process of a program under the drop-in.

See `children.py`. `numba.cuda` is replaced when the child imports it: a child that has
no use for kernels starts as fast as ever.
"""

import importlib
import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, *[os.pardir] * 4))  # the folder of snref


class AfterImport(MetaPathFinder):
    """Finds `numba.cuda` as others do, and replaces its host side once it is loaded.

    If `snref.simt` comes first, it imports `numba.cuda` while it is not whole itself:
    then the replacement waits for its end.
    """

    def find_spec(self, name: str, *more: Any) -> ModuleSpec | None:
        if name not in ("numba.cuda", "snref.simt"):
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_install(module: ModuleType) -> None:
                load(module)
                install()

            spec.loader.exec_module = load_and_install  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Replace `numba.cuda`, as it is in the parent process."""
    if importlib.util.find_spec("snref") is None:
        sys.path.append(ROOT)
    from snref.simt.drop_in import install

    install(os.environ["SNREF_SIMT"])  # type: ignore[arg-type]


def run_the_next() -> None:
    """Run the `sitecustomize` that Python would have run without this one."""
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE]
    this = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this


if __name__ == "sitecustomize":
    if "SNREF_SIMT" in os.environ:
        sys.meta_path.insert(0, AfterImport())
    run_the_next()
