"""What the functions of one kernel share: the kernel's own and those it calls."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

import numpy as np

from snref.simt import ir
from snref.simt.front.vectors import Vectors
from snref.simt.front.views import View
from snref.simt.ir import Array, KernelError, Source


class Unit:
    """One kernel in the making: the names, files and arrays of all its functions."""

    def __init__(self, block: tuple[int, int, int], dynamic: int, debug: bool = False):
        self.block, self.debug = block, debug
        self.dynamic = dynamic  # bytes of dynamic shared memory
        self.kernel = ""  # its name
        self.sources: list[Source] = []
        self.taken: set[str] = set()  # names in use
        self.imports: dict[str, str] = {}  # name -> statement
        self.constants: dict[str, np.ndarray] = {}  # global arrays, by new name
        self.arrays: dict[str, Array] = {}  # shared and local
        self.ndim: dict[str, int] = {}  # of all arrays and views, by name
        self.dtypes: dict[str, Any] = {}  # of arrays: the Numba types of their elements
        self.tuples: dict[str, int] = {}  # arguments that are tuples: how many values
        self.views: dict[str, View] = {}
        self.records: dict[str, ast.expr] = {}  # variables: the element that they name
        self.vectors: Vectors = {}
        self.calling: list[Any] = []  # the functions being inlined, outermost first
        self.outlined: dict[Any, str] = {}  # functions that call themselves: new names
        self.sites: list[KernelError] = []  # what ends the launch

    def fresh(self, stem: str) -> str:
        """A name that no function of the kernel uses."""
        return ir.fresh(stem, self.taken)

    def source(self, code: CodeType) -> int:
        """The number of a function among those of the kernel."""
        source = Source(code.co_filename, code.co_firstlineno)
        if source not in self.sources:
            self.sources.append(source)
        return self.sources.index(source)

    def error(self, node: Any, problem: str, kind: str = "refused") -> KernelError:
        """The error to raise for a problem at this place of the source."""
        line = getattr(node, "lineno", 0)
        return ir.located(self.sources, line, self.kernel, problem, kind)

    def needs(self, function: str, module: str = "runtime") -> str:
        """A function of the runtime, imported by the generated text; its name."""
        self.imports[function] = f"from snref.simt.{module} import {function}"
        return function

    def thread_index(self, axis: str) -> ast.expr:
        """`cuda.threadIdx.x`: 0 where there is one thread only."""
        if self.block[ir.AXES.index(axis)] == 1:
            return ast.Constant(0)
        return ir.name(f"threadIdx_{axis}")

    def grid(self, axis: str) -> ast.expr:
        """`cuda.grid` along one axis: the thread's place in the grid.

        >>> ast.unparse(Unit((64, 1, 1), 0).grid("x"))
        'blockIdx_x * 64 + threadIdx_x'
        """
        threads = self.block[ir.AXES.index(axis)]
        inside = f" * {threads} + threadIdx_{axis}" if threads > 1 else ""
        return ir.expression(f"blockIdx_{axis}{inside}")

    def gridsize(self, axis: str) -> ast.expr:
        """`cuda.gridsize` along one axis: the threads of the grid."""
        threads = self.block[ir.AXES.index(axis)]
        return ir.expression(f"gridDim_{axis}" + (f" * {threads}" * (threads > 1)))
