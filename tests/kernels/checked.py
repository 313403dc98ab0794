"""A pytest plugin, `-p tests.kernels.checked`: kernels run in check mode instead.

Arrays full of NaN are what a kernel is to write: reading them first is a mistake.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from snref import simt


class Checked:
    """Launched like a compiled kernel."""

    def __init__(self, kernel: Any, threads: int | None = None) -> None:
        self.kernel = kernel
        self.names = list(signature(getattr(kernel, "py_func", kernel)).parameters)

    def __getitem__(self, shape: Any) -> Callable[..., None]:
        return partial(self.launch, shape)

    def launch(self, shape: Any, *arguments: Any) -> None:
        blank = [
            name
            for name, value in zip(self.names, arguments, strict=True)
            if isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and np.isnan(value).all()
        ]
        simt.check(self.kernel, scratch=blank)[shape](*arguments)


def pytest_configure() -> None:
    """Only as a plugin: the file is imported for its doctests, too."""
    simt.compile = Checked  # type: ignore[assignment]
