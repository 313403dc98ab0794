"""The `@cuda.jit` kernels, a file a layer: the only place of their mathematics."""

from importlib import import_module
from typing import Any


def find(name: str) -> Any:
    """The kernel that a launch names: "relu.forward" is in snref.kernels.relu.

    Raises LookupError if there is none.
    """
    module, _, function = name.rpartition(".")
    try:
        return getattr(import_module(f"snref.kernels.{module}"), function)
    except (ImportError, AttributeError):
        raise LookupError(f"snref.kernels has no kernel {name!r}") from None
