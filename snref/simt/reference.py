"""The reference interpreter: runs a kernel as Python, one Python thread a CUDA thread.

It says what a kernel means: the compiler's stages are tested against it, and
`simt.debug` runs it. One thread runs at a time, until it waits for others or returns.
When all have stopped, those whose partners have all arrived go on. A thread that has
returned is nobody's partner. Numbers are those of Python and NumPy, so a type may
differ from the compiled kernel's. `meaning` has the names of `numba.cuda`.
"""

# mypy: ignore-errors

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from threading import Semaphore
from threading import Thread as PythonThread
from types import FunctionType
from typing import Any

import numpy as np

from snref.simt.ir import KernelError
from snref.simt.limits import Three
from snref.simt.meaning import caller, index, names_in, with_names


def interpret(
    function: FunctionType,
    grid: Three,
    block: Three,
    arguments: Sequence[Any],
    dynamic: int = 0,
    first: int = 0,
) -> None:
    """Run the blocks one after another; at the same time if they synchronise as a grid.

    `dynamic` is the number of bytes of dynamic shared memory. Thread number `first` of
    the grid runs before the others, and its block before the other blocks.
    """
    size = prod(block)
    blocks = sorted(range(prod(grid)), key=lambda b: b != first // size)
    together = "this_grid" in names_in(function.__code__)
    for some in [blocks] if together else [[b] for b in blocks]:
        threads = []
        for b in some:
            memory = {"dynamic": np.full(dynamic, 255, np.uint8)}
            threads += [Thread(b * size + t, grid, block, memory) for t in range(size)]
        for t in threads:
            t.kernel = partial(with_names(function, t, grid, block), *arguments)
            t.start()
        try:
            take_turns(sorted(threads, key=lambda t: t.number != first))
        finally:
            for t in threads:  # after a failure some still wait
                t.given = None
                t.go_on.release()


def take_turns(running):
    """Run each thread until it waits, then those whose partners have all arrived."""
    waiting = {}
    while running:
        for t in running:
            t.advance()
        stopped = [*waiting.values(), *running]
        waiting = {t.number: t for t in stopped if t.partners is not None}
        groups = defaultdict(dict)
        for n, t in waiting.items():
            groups[t.partners, t.place][n] = t.value
        running = []
        for (partners, _), values in groups.items():
            if sum(n in waiting for n in partners) in (0, len(values)):
                for n in values:
                    waiting[n].given = values
                    running.append(waiting[n])
    if waiting:
        stuck = [f"{len(g)} in line {line}" for (_, (_, _, line)), g in groups.items()]
        ((_, (code, _, line)), *_) = groups
        raise KernelError(
            f"{Path(code.co_filename).name}:{line}: {code.co_name}: threads wait for "
            f"others that do not come: {', '.join(stuck)}"
        )


class Thread(PythonThread):
    """A CUDA thread, which runs when it is told to."""

    def __init__(self, number, grid, block, memory):
        self.number, self.memory = number, memory  # in the grid; shared by the block
        self.inside = index(number % prod(block), block)
        self.outside = index(number // prod(block), grid)
        name = f"thread {tuple(self.inside)} of block {tuple(self.outside)}"
        super().__init__(name=name, daemon=True)
        self.go_on, self.stopped = Semaphore(0), Semaphore(0)
        self.partners = self.problem = None

    def run(self):
        self.go_on.acquire()
        try:
            with np.errstate(all="ignore"):
                self.kernel()
        except BaseException as problem:
            self.problem = problem
        self.partners = None
        self.stopped.release()

    def advance(self):
        """Run until the thread waits or returns."""
        self.go_on.release()
        self.stopped.acquire()
        if self.problem is not None:
            self.problem.add_note(f"in {self.name}")
            raise self.problem

    def wait(self, partners, value=None):
        """Wait until these threads are here, too. Returns what each of them brings.

        Without `partners`, those that are here when no thread can go on.
        """
        self.partners, self.value, self.place = partners, value, caller()
        self.stopped.release()
        self.go_on.acquire()
        if self.given is None:
            raise SystemExit
        return self.given
