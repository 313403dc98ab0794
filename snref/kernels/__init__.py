"""The `@cuda.jit` kernels, a file a layer: the only place of their mathematics."""

from importlib import import_module
from inspect import signature
from typing import Any

from snref.plans import RUN_VALUES, Kernel, Launch
from snref.support.imports import imported


def find(kernel: Kernel) -> Any:
    """Return the `@cuda.jit` function that a launch names, or is given.

    "relu.forward" is in snref.kernels.relu; "module:function" is in any module that
    Python finds. Raises ValueError if there is none, or its module fails.
    """
    if not isinstance(kernel, str):
        return kernel
    if ":" in kernel:
        return imported(kernel, "kernel")
    module, name = importable(kernel)
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise ValueError(f"snref.kernels has no kernel {kernel!r}") from None


def importable(kernel: str) -> tuple[str, str]:
    """Return the module in which a kernel of this name is, and its name there.

    >>> importable("relu.forward"), importable("mine:leaky")
    (('snref.kernels.relu', 'forward'), ('mine', 'leaky'))
    """
    if ":" in kernel:
        module, _, name = kernel.partition(":")
        return module, name
    module, _, name = kernel.rpartition(".")
    return f"snref.kernels.{module}", name


def check_arguments(launch: Launch) -> None:
    """Raise ValueError unless the launch's kernel exists and takes what it is given.

    >>> from snref.plans import Tensor
    >>> x, y = Tensor("x", (2,)), Tensor("y", (2,))
    >>> check_arguments(Launch("relu.backward", (y,), (x,)))
    Traceback (most recent call last):
    ValueError: kernel relu.backward (...relu.py:14) takes 3 arguments (dx, s, dy), ...
    """
    kernel = find(launch.kernel)
    function = getattr(kernel, "py_func", None)
    if function is None:
        raise ValueError(f"kernel {launch.kernel_name}: is not a @cuda.jit function")
    takes = list(signature(function).parameters)
    gives = [tensor.name for tensor in launch.outputs + launch.inputs]
    gives += map(str, launch.scalars)
    for scalar in launch.scalars:
        if isinstance(scalar, str) and scalar not in RUN_VALUES:
            raise ValueError(
                f"kernel {launch.kernel_name}: no value is called {scalar!r}; there "
                f"are {', '.join(RUN_VALUES)}"
            )
    if len(takes) != len(gives):
        code = function.__code__
        missing = ", ".join(takes[len(gives) :])
        missing = f": nothing is given for {missing}" if missing else ""
        raise ValueError(
            f"kernel {launch.kernel_name} ({code.co_filename}:{code.co_firstlineno}) "
            f"takes {len(takes)} arguments ({', '.join(takes)}), the launch gives "
            f"{len(gives)} ({', '.join(gives)}){missing}"
        )
