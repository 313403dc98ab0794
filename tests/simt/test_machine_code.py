"""The loop over threads is vectorised: packed multiply-adds in the machine code.

Without this a register-tiled product is thirty times slower, and nothing else fails.
"""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba.core.codegen import CPUCodeLibrary

from snref.simt import run

from . import examples

A = np.zeros((64, 64), np.float32)
PRODUCTS = [
    pytest.param(examples.register_product, id="register_product"),
    pytest.param(examples.tiled_product, id="tiled_product", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=PRODUCTS)
def compiled(request):
    """The assembly of a product for this machine, and its LLVM text before."""
    types = [run.numba.typeof(A)] * 3
    text = run.stages(request.param, (16, 16, 1), types)["emit"]
    scope = {}
    exec(text, scope)
    written = []
    add = CPUCodeLibrary.add_ir_module

    def note(library, module):
        written.append(str(module))
        add(library, module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CPUCodeLibrary, "add_ir_module", note)
        scope["launch"](0, 1, 1, 1, 1, A, A, A.copy(), np.empty(1, np.uint8))
    (assembly,) = scope["launch"].inspect_asm().values()
    return assembly, max(written, key=len)  # beside it, the intrinsics' small modules


def test_the_host_multiplies_vectors(compiled):
    assembly, _ = compiled
    triple = llvm.get_process_triple()
    if not triple.startswith("x86_64"):
        pytest.skip(f"the registers of {triple} have other names")
    if not llvm.get_host_cpu_features().get("fma"):
        pytest.skip("this processor has no multiply-add")
    assert re.search(r"vfmadd\w*ps\s.*%[yz]mm", assembly)
    assert not re.search(r"vfmadd\w*sd\s", assembly), "float64 in a float32 kernel"


@pytest.mark.parametrize(
    ("triple", "cpu", "packed"),
    [
        ("arm64-apple-macosx11.0.0", "apple-m1", r"fmla(\.4s|\s+v\d+\.4s)"),
        ("x86_64-pc-windows-msvc", "haswell", r"vfmadd\w*ps\s.*%ymm"),
    ],
)
def test_other_machines_multiply_vectors(compiled, triple, cpu, packed):
    try:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple(triple)
    except RuntimeError as e:
        pytest.skip(f"this llvmlite cannot compile for {triple}: {e}")
    _, text = compiled
    machine = target.create_target_machine(cpu=cpu, opt=3)
    module = llvm.parse_assembly(re.sub(r"(?m)^target .*$", "", text))
    module.triple, module.data_layout = triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    assembly = machine.emit_assembly(module)
    assert re.search(packed, assembly), assembly[:2000]
