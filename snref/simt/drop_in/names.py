"""Every public name of `numba.cuda`: it runs, it differs from CUDA, or it is refused.

`snref/simt/NAMES.md` is `page()`; a test holds that file and this table against
`dir(numba.cuda)`, of Numba 0.68 and of numba-cuda, and against what the names do.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .refusals import RULES

# Section; names; verdict; what they do (if refused on the host: a rule of RULES).
# A name in braces stands for a list below.
_TABLE = """
## Kernels and launches
jit; differs; Numba's own, with kernels that simt compiles at their first launch. \
Options of the GPU compiler do nothing, `link` is refused
reduce Reduce; differs; combines from left to right, which a GPU does not
In InOut; runs; arrays in host memory are used in place, those in `In` copied
Out; differs; the kernel finds the host's values, on a GPU it finds none
declare_device; refused; foreign-code
## Memory
to_device device_array_like; runs;
device_array; differs; new memory is NaN (as an integer -1), on a GPU whatever was there
pinned_array pinned_array_like; differs; ordinary NumPy arrays
mapped_array mapped_array_like managed_array pinned mapped; runs;
is_cuda_array as_cuda_array; runs;
from_cuda_array_interface; differs; follows pointers into memory of this device, \
refuses others (rule foreign-memory)
open_ipc_array IpcHandle; refused; foreign-memory
BaseCUDAMemoryManager HostOnlyCUDAMemoryManager GetIpcHandleMixin set_memory_manager \
MemoryPointer MappedMemory PinnedMemory; refused; memory-manager
MemoryInfo prepare_shape_strides_dtype; runs;
## Device, streams, events
is_available is_supported_version; runs; True
is_float16_supported; runs; True
cuda_error; runs; None
detect gpus list_devices select_device get_current_device; runs; one device, the CPU, \
with the limits of compute capability 7.5
current_context require_context close synchronize defer_cleanup; runs;
runtime; differs; there is none: its version is (-1, -1)
stream default_stream legacy_default_stream per_thread_default_stream external_stream; \
differs; every command is done when its call returns
event event_elapsed_time; runs; time of this CPU
profiling profile_start profile_stop; differs; nothing to start. `simt.profile` counts \
memory traffic by source line
## In kernels
threadIdx blockIdx blockDim gridDim grid gridsize; runs;
laneid warpsize; runs; warps of 32
shared local; runs; also dynamic shared memory
const; runs; `const.array_like` of a global array
syncthreads syncthreads_and syncthreads_count syncthreads_or; runs; threads \
that have returned are not waited for; refused where others disagree
syncwarp all_sync any_sync eq_sync ballot_sync activemask; runs;
shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync; runs;
atomic; differs; in the order of threads: sums of floats are the same at each run
threadfence threadfence_block threadfence_system nanosleep; differs; nothing to do
selp popc brev clz ffs fma cbrt; runs;
cg; differs; a grid that synchronises runs as one block (rule grid-sync)
match_any_sync match_all_sync lanemask_lt; runs;
shfl_sync_intrinsic vote_sync_intrinsic; refused; by the compiler of kernels: use \
shfl_sync, all_sync ... which are made of them
fp16; runs; float16 rounds after every operation, as on a GPU
libdevice; differs; the functions of numbers that `math` has, too, `fast_sinf` ..., \
`sincos`, `frexp`, `rsqrt` and `sad`; the compiler of kernels refuses the others
## Vector types
{vectors}; runs; in kernels: a variable for each component
## Compiling for GPUs
compile compile_ptx compile_for_current_device compile_ptx_for_current_device; runs; \
Numba's own, still for GPUs: needs NVVM from a CUDA toolkit
implementation test alias CudaSupportError KernelRuntimeError; runs; Numba's own
## Modules
random; runs;
extending; differs; types and intrinsics that it registers are not used. (Functions \
with Numba's `@overload` run where the kernel itself, or another of them, calls them)
config runtests; runs; Numba's own
{modules}; differs; Numba's own, made for its driver
## In numba-cuda only
vectorize guvectorize; runs; Numba's own, with kernels that simt compiles
is_bfloat16_supported is_fp8_supported; differs; False
compile_all; runs; Numba's own, still for GPUs
config_default_cc numba_cuda_default_ptx_cc HAS_NUMBA; runs; Numba's own
Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource; refused; foreign-code
ldca ldcg ldcs ldcv ldlu stcg stcs stwb stwt; refused; by the compiler of kernels: \
index the array
bf16 bfloat16; refused; by the compiler of kernels: use float32
literal literal_unroll; refused; by the compiler of kernels: loop over `range`
Dim3 dim3 GridGroup grid_group; runs; types, for Numba's compiler
{types}; runs; types of Numba
"""

_KINDS = "char short int long longlong uchar ushort uint ulong ulonglong float double"
_SIZED = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64"
_LISTS = {
    "vectors": " ".join(
        [f"{kind}{n}" for kind in _KINDS.split() for n in "1234"]
        + [f"{kind}x{n}" for kind in _SIZED.split() for n in "1234"]
    ),
    "modules": """
        api api_util args cache_hints cext cgutils cloudpickle codegen compiler core
        cpython cuda_paths cudadecl cudadrv cudaimpl cudamath datamodel debuginfo
        decorators descriptor device_init devicearray devices deviceufunc dispatcher
        driver errors flags fp8 initialize intrinsic_wrapper intrinsics itanium_mangler
        kernels launchconfig libdevicedecl libdevicefuncs libdeviceimpl locks lowering
        mathimpl memory_management misc models nvvm nvvmutils printimpl reduction
        serialize simulator simulator_init stubs target testing tests typeconv types
        typing ufuncs utils vector_types vectorizers
    """,
    "types": """
        b1 bool bool_ boolean byte c16 c8 char complex128 complex64 deferred_type double
        f4 f8 ffi ffi_forced_object float32 float64 i1 i2 i4 i8 int16 int32 int64 int8
        int_ intc intp long_ longlong none optional short size_t ssize_t u1 u2 u4 u8
        uchar uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong ushort void
    """,
}


@dataclass(frozen=True)
class Row:
    """Names of a section that share a verdict: "runs", "differs" or "refused"."""

    section: str
    names: tuple[str, ...]
    verdict: str
    how: str  # or the name of a rule

    @property
    def text(self) -> str:
        """What the page says: a rule is written out."""
        rule = RULES.get(self.how)
        return f"{rule} (rule {self.how})" if rule else self.how


def _rows() -> Iterator[Row]:
    section = ""
    for line in _TABLE.strip().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        else:
            names, verdict, how = (part.strip() for part in line.split(";", 2))
            listed = names.format(**_LISTS).split()
            yield Row(section, tuple(listed), verdict, how)


ROWS = tuple(_rows())
VERDICTS = {name: row for row in ROWS for name in row.names}
REFUSED = {name: row.how for name, row in VERDICTS.items() if row.how in RULES}


def page() -> str:
    """The table as a Markdown page."""
    lines = [
        "# `numba.cuda` under `python -m snref.simt`",
        "",
        "Every public name, of Numba 0.68 and of numba-cuda. *Runs*: as on a GPU. "
        "*Differs*: runs,",
        "but not all is the same. *Refused*: raises `simt.KernelError` with file, line "
        "and rule.",
        "",
        "Written by `page()` of `drop_in/names.py`; do not edit.",
    ]
    section = ""
    for row in ROWS:
        if row.section != section:
            section = row.section
            lines += ["", f"## {section}", ""]
            lines += ["| names | verdict | how |", "|---|---|---|"]
        names = " ".join(f"`{name}`" for name in row.names)
        lines.append(f"| {names} | {row.verdict} | {row.text} |")
    lines += ["", "## Rules", "", "| rule | says |", "|---|---|"]
    lines += [f"| {rule} | {text} |" for rule, text in RULES.items()]
    return "\n".join(lines) + "\n"
