"""A drop-in for Numba's CUDA simulator: unchanged CUDA programs on the CPU, compiled.

    python -m snref.simt program.py

replaces the host side of `numba.cuda` (arrays, streams, launches) by the one in this
package, in the program's child processes, too (`children.py`). A notebook calls
`simt.install()` instead. What a kernel calls (`cuda.grid`, `cuda.shared.array` ...)
stays Numba's: `simt` knows these names. `names.py` says of every name whether it runs,
differs or is refused.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

import numba
from numba import cuda
from numba.core import config
from numba.cuda import decorators
from numba.cuda import dispatcher as numba_dispatcher
from numba.cuda.cudadrv import devicearray as numba_arrays
from numba.cuda.cudadrv import devices as numba_devices
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.cudadrv import runtime as numba_runtime
from numba.cuda.dispatcher import CUDADispatcher

from snref import simt
from snref.simt.crash import point_to_check_mode

from . import arrays, devices, reduction
from .children import inherited
from .launching import kernels, make_jit
from .names import REFUSED
from .refusals import refused
from .typed import typed
from .written import remember_sources

Mode: TypeAlias = Literal["compile", "check", "debug"]
MODES: dict[Mode, Callable[[Any], Any]] = {
    "compile": simt.compile,
    "check": simt.check,
    "debug": simt.debug,
}

# Numba's warnings of slow programs on a GPU: only if the environment asks for them.
OF_SPEED = "CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_WARN_ON_IMPLICIT_COPY"


# What `numba.cuda.cudadrv.devicearray` has, which programs import, too.
ARRAYS = (
    *("DeviceNDArray", "DeviceRecord", "MappedNDArray"),
    *("from_array_like", "from_record_like", "auto_device"),
)


def replacements(run: Callable[[Any], Any]) -> dict[str, Any]:
    """The host side of `numba.cuda` by name; kernels run through `run`."""
    return {
        "jit": make_jit(decorators.jit, run),
        "reduce": reduction.Reduce,
        "Reduce": reduction.Reduce,
        "vectorize": partial(numba.vectorize, target="cuda"),
        "guvectorize": partial(numba.guvectorize, target="cuda"),
        # memory
        "to_device": arrays.to_device,
        "device_array": arrays.device_array,
        "device_array_like": arrays.device_array_like,
        "pinned_array": arrays.host_array,
        "pinned_array_like": arrays.host_array_like,
        "mapped_array": arrays.mapped_array,
        "mapped_array_like": arrays.mapped_array_like,
        "managed_array": arrays.mapped_array,
        "pinned": arrays.pinned,
        "mapped": arrays.mapped,
        "is_cuda_array": arrays.is_cuda_array,
        "as_cuda_array": arrays.as_cuda_array,
        "from_cuda_array_interface": arrays.from_cuda_array_interface,
        # device, context, streams, events
        "is_available": lambda: True,
        "is_supported_version": lambda: True,
        "is_float16_supported": lambda: True,
        "is_bfloat16_supported": lambda: False,
        "is_fp8_supported": lambda: False,
        "runtime": devices.Runtime(),
        "MemoryInfo": devices.MemoryInfo,
        "cuda_error": devices.nothing,
        "detect": devices.detect,
        "gpus": devices.gpus,
        "list_devices": lambda: devices.gpus,
        "select_device": devices.select_device,
        "get_current_device": devices.current_device,
        "current_context": devices.current_context,
        "require_context": devices.require_context,
        "close": devices.nothing,
        "synchronize": devices.nothing,
        "defer_cleanup": devices.defer_cleanup,
        "stream": devices.Stream,
        "default_stream": lambda: devices.Stream(0),
        "legacy_default_stream": lambda: devices.Stream(1),
        "per_thread_default_stream": lambda: devices.Stream(2),
        "external_stream": devices.Stream,
        "event": devices.Event,
        "event_elapsed_time": devices.event_elapsed_time,
        "profiling": devices.defer_cleanup,
        "profile_start": devices.nothing,
        "profile_stop": devices.nothing,
    } | {name: refused(name, rule) for name, rule in REFUSED.items()}


@contextmanager
def installed(mode: Mode = "compile") -> Iterator[None]:
    """`numba.cuda` without a GPU inside the block; `mode` says how kernels run.

    >>> from numba import cuda
    >>> with installed():
    ...     cuda.is_available()
    True
    """
    context = {
        "get_context": devices.current_context,
        "gpus": devices.gpus,
        "reset": devices.nothing,
        "require_context": devices.require_context,
    }
    dispatcher = context | {
        "_Kernel": kernels(MODES[mode]),
        "compile_cuda": typed,
        "get_current_device": devices.current_device,
    }
    targets = (
        (cuda, replacements(MODES[mode])),
        (numba_dispatcher, dispatcher),
        (numba_devices, context),
        (numba_arrays, {n: getattr(arrays, n) for n in ARRAYS}),
        (numba_runtime, {"runtime": devices.Runtime()}),
        (numba_driver, {"Linker": devices.Linker}),
        (numba_driver.Driver, {"get_device": lambda self, devnum=0: devices.device}),
        (config, {n: 0 for n in OF_SPEED if f"NUMBA_{n}" not in os.environ}),
    )
    remember_sources()
    with ExitStack() as undo:
        undo.enter_context(inherited(mode))
        for module, new in targets:
            for name in new.keys() & vars(module).keys():
                undo.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, new[name])
        yield


_lasting = ExitStack()  # what `install` has done


def install(mode: Mode = "compile") -> None:
    """Replace `numba.cuda` until the process ends, or until the next call."""
    _lasting.close()
    if mode == "compile":
        point_to_check_mode()
    numbas_own = _made_by_numba(vars(sys.modules["__main__"]))
    if numbas_own:
        warnings.warn(
            f"{', '.join(numbas_own)}: made by Numba before simt.install() and in need "
            "of a GPU; import or define again what is to run without one",
            RuntimeWarning,
            stacklevel=3,
        )
    _lasting.enter_context(installed(mode))


def _made_by_numba(names: dict[str, Any]) -> list[str]:
    """Those of the names that are bound to Numba's own kernels or host functions."""
    replaced = [vars(cuda)[n] for n in replacements(simt.compile) if n in vars(cuda)]
    own = [v for v in replaced if getattr(v, "__module__", "").startswith("numba.")]
    return [
        name
        for name, value in names.items()
        if isinstance(value, CUDADispatcher) or any(value is v for v in own)
    ]
