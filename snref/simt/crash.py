"""What is printed when a wrong index in a compiled kernel ends the process.

No Python can run then, so the handler of the signals is machine code. It prints a line
and hands over to the handler before it, such as `faulthandler`'s, or to the system.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

import llvmlite.binding as llvm
import numba  # noqa: F401  (it makes LLVM ready)

TEXT = (
    "\nsnref.simt: the process died of a memory error. Compiled kernels check nothing: "
    "if a wrong index in a kernel is the cause, `python -m snref.simt --check PROGRAM` "
    "or `simt.check(kernel)` names its line.\n"
)
_HANDLER = """
define void @handler{signal}(i32 %signal) {{
    call {word} @write(i32 2, {word} {text}, {word} {size})
    call {word} @signal(i32 %signal, {word} {before})
    call i32 @raise(i32 %signal)
    ret void
}}
"""
_kept: list[Any] = []  # what the handlers need as long as the process lives


def point_to_check_mode() -> None:
    """Print TEXT when a signal of a memory error ends this process (not on Windows)."""
    if _kept or os.name != "posix":
        return
    text = TEXT.encode()
    buffer = ctypes.create_string_buffer(text)
    word = f"i{8 * ctypes.sizeof(ctypes.c_void_p)}"  # an address is a number here
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes = (ctypes.c_int, ctypes.c_void_p)
    set_handler.restype = ctypes.c_void_p
    signals = [int(s) for s in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)]
    module = f"declare {word} @write(i32, {word}, {word})\n"
    module += f"declare {word} @signal(i32, {word})\ndeclare i32 @raise(i32)\n"
    for s in signals:
        module += _HANDLER.format(
            signal=s,
            word=word,
            text=ctypes.addressof(buffer),
            size=len(text),
            before=set_handler(s, None) or 0,
        )
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(module), machine)
    engine.finalize_object()
    for s in signals:
        set_handler(s, engine.get_function_address(f"handler{s}"))
    _kept.extend([buffer, engine])
