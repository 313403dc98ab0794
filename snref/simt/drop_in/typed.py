"""Numba's own type inference for GPUs, which needs none: what it refuses, GPUs refuse.

`typed` takes the place of the function that compiles for a GPU, and stops when the
types are known. So a kernel with signatures is refused when it is decorated, a device
function has a return type, and Numba's settings that print its stages print them.
"""

import inspect
from typing import Any

from numba.core import compiler, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, PassManager, register_pass
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.target_extension import target_override
from numba.core.typed_passes import AnnotateTypes, IRLegalization
from numba.core.typing import signature
from numba.cuda.compiler import CUDACompiler, CUDAFlags, cuda_compile_result
from numba.cuda.descriptor import cuda_target


@register_pass(mutates_CFG=False, analysis_only=True)
class TypesOnly(AnalysisPass):  # type: ignore[misc]
    """The last pass: packs up what is known before any code is made."""

    _name = "snref_types_only"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make the result that the machinery expects of its last pass."""
        description = PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=state.targetctx.mangler,
            inline=False,
            noalias=False,
            abi_tags=[],
        )
        state.cr = cuda_compile_result(
            typing_context=state.typingctx,
            target_context=state.targetctx,
            typing_error=state.status.fail_reason,
            type_annotation=state.type_annotation,
            library=None,
            call_helper=None,
            signature=signature(state.return_type, *state.args),
            fndesc=description,
            metadata={"func_ir": state.func_ir},
        )
        return False


class TypeInference(CUDACompiler):  # type: ignore[misc]
    """Numba's compiler for GPUs without the passes that make code."""

    def define_cuda_lowering_pipeline(self, state: Any) -> PassManager:
        """The passes that come after type inference."""
        passes = PassManager("snref_types_only")
        passes.add_pass(IRLegalization, "ensure IR is legal prior to lowering")
        passes.add_pass(AnnotateTypes, "annotate types")
        passes.add_pass(TypesOnly, "keep the types")
        passes.finalize()
        return passes


@global_compiler_lock  # type: ignore[untyped-decorator]
def typed(
    pyfunc: Any, return_type: Any, args: tuple[Any, ...], *rest: Any, **options: Any
) -> Any:
    """Return Numba's compile result for these types of arguments, without any code.

    Raises Numba's TypingError where a GPU's compiler would.
    """
    flags = CUDAFlags()
    flags.error_model = "numpy"
    flags.compute_capability = (7, 5)
    with target_override("cuda"):
        result = compiler.compile_extra(
            typingctx=cuda_target.typing_context,
            targetctx=cuda_target.target_context,
            func=pyfunc,
            args=_folded(pyfunc, args),
            return_type=return_type,
            flags=flags,
            locals={},
            pipeline_class=TypeInference,
        )
    return result._replace(signature=signature(result.signature.return_type, *args))


def _folded(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of the parameters: those of `*rest` make a tuple.

    Numba's dispatcher for GPUs leaves this out, so that `min(a, b, c)` has no type.
    """
    code = function.__code__
    if not code.co_flags & inspect.CO_VARARGS:
        return args
    named, rest = args[: code.co_argcount], args[code.co_argcount :]
    return (*named, types.StarArgTuple.from_types(rest))
