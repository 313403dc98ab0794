"""A kernel's machine code for a GPU: compiled by Numba once, and kept on disk.

Neither a GPU nor its driver is needed to compile: helper processes can do it ahead,
as for the CPU (``simt.ahead``), and the cache is the same folder.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, TypeAlias

from snref.kernels import find
from snref.plans import Kernel
from snref.simt import cache
from snref.simt.ahead import compile_ahead

Types: TypeAlias = tuple[tuple[str, int], ...]  # dtype, and dimensions: 0 for a number

COMPILERS = ("numba-cuda", "cuda-core", "cuda-bindings")


@dataclass(frozen=True)
class Code:
    """A kernel for arguments of these types, on GPUs of a compute capability."""

    kernel: Kernel
    types: Types
    capability: tuple[int, int]

    @cached_property
    def stem(self) -> str:
        """The name of the kernel in its machine code, and of the file that keeps it."""
        function = find(self.kernel).py_func
        made_by = map(version, COMPILERS)
        key = cache.key(function, self.types, self.capability, *made_by)
        return f"{function.__name__}_{key}"

    @property
    def file(self) -> str:
        """The name of its file in the cache."""
        major, minor = self.capability
        return f"{self.stem}.sm_{major}{minor}{cache.CODE}"

    def done(self) -> bool:
        """Return whether it is on disk."""
        return cache.kept(self.file) is not None

    def compile(self) -> bytes:
        """Compile, and keep the machine code on disk. Returns it."""
        image = _assembled(find(self.kernel), self.types, self.capability, self.stem)
        cache.keep(self.file, image)
        return image

    def image(self) -> bytes:
        """Return the machine code, from disk if it is there."""
        if (kept := cache.kept(self.file)) is not None:
            return kept
        # Numba keeps the frames of its callers, in tracebacks that refer to themselves:
        # in a thread of its own none of them holds memory of the GPU.
        done: list[Any] = []

        def compile_() -> None:
            try:
                done.append(self.compile())
            except Exception as error:
                done.append(error.with_traceback(None))

        thread = threading.Thread(target=compile_)
        thread.start()
        thread.join()
        if isinstance(done[0], bytes):
            return done[0]
        raise done[0]


def ahead(codes: Sequence[Code]) -> None:
    """Begin to compile kernels in other processes, in the order of first launches.

    A kernel that was given as an object compiles in this one, at its first launch.
    """
    named = dict.fromkeys(code for code in codes if isinstance(code.kernel, str))
    compile_ahead([code for code in named if not code.done()])


def _assembled(
    kernel: Any, types: Types, capability: tuple[int, int], name: str
) -> bytes:
    """Compile a `@cuda.jit` function to machine code in which it has this name."""
    from cuda.core import Linker, LinkerOptions, ObjectCode
    from numba import cuda
    from numba.cuda import types as kinds

    def kind(dtype: str, dimensions: int) -> Any:
        scalar = getattr(kinds, dtype)
        return kinds.Array(scalar, dimensions, "C") if dimensions else scalar

    text, _ = cuda.compile(
        kernel.py_func,
        kinds.void(*(kind(*given) for given in types)),
        device=False,
        abi="numba",
        fastmath=kernel.targetoptions.get("fastmath", False),
        cc=capability,
    )
    # A name without what Numba counts: the same in every process.
    (entry,) = re.findall(r"\.visible \.entry (\w+)\(", text)
    code = ObjectCode.from_ptx(text.replace(entry, name).encode())
    options = LinkerOptions(arch=f"sm_{capability[0]}{capability[1]}")
    return bytes(Linker(code, options=options).link("cubin").code)
