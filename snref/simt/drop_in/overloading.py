"""Functions that a program gives Numba by `@overload`: what a kernel calls instead.

`simt` reads the source of what a kernel calls, and of such a function that is a stub.
Numba's type inference knows which implementation these types of arguments have; the
kernel gets a copy of itself in which the stub's name stands for that implementation.
"""

from collections.abc import Iterator
from types import CellType, FunctionType
from typing import Any

from numba.core import ir
from numba.core.target_extension import get_local_target, target_override
from numba.core.utils import order_by_target_specificity
from numba.cuda.descriptor import cuda_target

from .typed import typed


def implemented(function: FunctionType, args: tuple[Any, ...]) -> FunctionType:
    """The function with implementations in place of the stubs that it calls."""
    if not any(map(_is_overloaded, _called(function))):
        return function
    found = dict(_implementations(function, args))
    scope = {**function.__globals__, **found}
    free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = tuple(CellType(found[n]) if n in found else cell for n, cell in free)
    new = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, cells
    )
    new.__module__, new.__qualname__ = function.__module__, function.__qualname__
    return new


def _called(function: FunctionType) -> Iterator[Any]:
    """What the global and free names of a function stand for."""
    code = function.__code__
    yield from (function.__globals__.get(n) for n in code.co_names)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # of a name that is not bound yet
            continue


def _is_overloaded(value: Any) -> bool:
    if not isinstance(value, FunctionType):
        return False
    cuda_target.typing_context.refresh()
    return cuda_target.typing_context._lookup_global(value) is not None


def _implementations(
    function: FunctionType, args: tuple[Any, ...]
) -> Iterator[tuple[str, FunctionType]]:
    """The name of each stub in a function, and its implementation."""
    result = typed(function, None, args)
    context = cuda_target.typing_context
    for call, signature in result.fndesc.calltypes.items():
        if not isinstance(call, ir.Expr) or call.op != "call":
            continue
        named = result.metadata["func_ir"].get_definition(call.func)
        stub = isinstance(named, ir.Global | ir.FreeVar) and named.value
        if not _is_overloaded(stub):
            continue
        templates = result.fndesc.typemap[call.func.name].templates
        with target_override("cuda"):
            target = get_local_target(context)
            for template in order_by_target_specificity(target, templates):
                made, kinds = template(context)._get_impl(signature.args, {})
                if made is not None:
                    yield named.name, implemented(made.py_func, tuple(kinds))
                    break
