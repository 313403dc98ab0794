"""Launches in simt's check mode, on arrays whose unwritten elements are marked."""

from collections.abc import Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from snref import simt
from snref.checking.values import (
    UNWRITTEN,
    Array,
    Arrays,
    LayerError,
    Values,
    bits,
    element,
    same_bits,
    unwritten,
)
from snref.device.views import number, viewed
from snref.kernels import find
from snref.plans import RUN_VALUES, Launch, Tensor

NAMED = dict(zip(RUN_VALUES, (2018, 3, 0.125, 0.9, 0.01, 0.02), strict=True))


def run(
    launches: Sequence[Launch],
    given: Mapping[Tensor, Array],
    over: Mapping[Tensor, Tensor] | None = None,
    strict: Values | None = None,
) -> Arrays:
    """Run launches on copies of what is given. All other tensors begin unwritten.

    over    outputs that lie on the memory of another tensor
    strict  check also that every input of every launch matters, and that every
            element of every output is written and finite

    Raises LayerError for a kernel that does not compile, races, accesses an array out
    of bounds, or adds up floats by atomics, in whatever order threads come.
    """
    arrays = {tensor: array.copy() for tensor, array in given.items()}
    for launch in launches:
        for tensor in launch.outputs + launch.inputs:
            if over and tensor in over:
                arrays[tensor] = arrays[over[tensor]].reshape(tensor.shape)
            elif tensor not in arrays:
                arrays[tensor] = unwritten(tensor)
        if strict:
            _check_inputs(launch, arrays, strict)
        _launch(launch, arrays)
    if strict:
        _check_outputs(launches, arrays)
    return arrays


def _launch(launch: Launch, arrays: Arrays) -> None:
    kernel, tensors = find(launch.kernel), launch.outputs + launch.inputs
    blank = () if launch.updates else launch.outputs
    partly = tuple(t.kind == "workspace" or bool(launch.portion) for t in blank)
    scalars = (NAMED[s] if isinstance(s, str) else s for s in launch.scalars)
    try:
        _checked(kernel, partly)[launch.grid, launch.block](
            *(arrays[t].reshape(viewed(t.shape, launch.view)) for t in tensors),
            *map(number, scalars),
        )
    except Exception as error:
        hint = ""
        if "before anything was written" in str(error):
            hint = "; if it is an output that the kernel reads, say updates=True"
        raise LayerError(f"kernel {launch.kernel_name}: {error}{hint}") from error


@cache
def _checked(kernel: Any, partly: tuple[bool, ...]) -> Any:
    """Return the kernel in check mode. Its first arguments hold nothing yet.

    partly  of each of them, whether it may be written in part
    """
    names = list(zip(signature(kernel.py_func).parameters, partly, strict=False))
    return simt.check(
        kernel,
        outputs=[name for name, part in names if not part],
        scratch=[name for name, part in names if part],
        exact=True,
    )


def _check_inputs(launch: Launch, before: Arrays, values: Values) -> None:
    """Check that each input changes what is written, and that none is changed."""
    mine = {t: before[t].copy() for t in launch.outputs + launch.inputs}

    def launched(arrays: Arrays) -> Arrays:
        copies = {tensor: array.copy() for tensor, array in arrays.items()}
        _launch(launch, copies)
        return copies

    clean = launched(mine)
    for tensor in launch.inputs:
        if tensor not in launch.outputs and not same_bits(clean[tensor], mine[tensor]):
            raise LayerError(
                f"kernel {launch.kernel_name} changes its input {tensor.name}"
            )
    for tensor in launch.inputs + (launch.outputs if launch.updates else ()):
        trials = (
            launched({**mine, tensor: other})
            for other in values.others(tensor, mine[tensor])
        )
        if not any(
            not same_bits(trial[output], clean[output])
            for trial in trials
            for output in launch.outputs
        ):
            raise LayerError(
                f"kernel {launch.kernel_name} reads {tensor.name}, but what it writes "
                "does not depend on it"
            )


def _check_outputs(launches: Sequence[Launch], arrays: Arrays) -> None:
    """Check that every element of every output is written, and finite."""
    for launch in launches:
        for tensor in launch.outputs:
            array = arrays[tensor]
            if tensor.kind == "workspace":
                continue
            for place in np.flatnonzero(bits(array) == UNWRITTEN[array.itemsize]):
                raise LayerError(
                    f"kernel {launch.kernel_name} does not write "
                    f"{element(tensor, place)}"
                )
            for place in np.flatnonzero(~np.isfinite(array)):
                raise LayerError(
                    f"kernel {launch.kernel_name} writes {array.reshape(-1)[place]} "
                    f"into {element(tensor, place)}"
                )
