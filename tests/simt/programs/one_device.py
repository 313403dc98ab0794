"""The device: its list, limits, context, and memory."""

from numba import cuda

assert cuda.is_available() and cuda.is_supported_version()
assert cuda.detect()
assert len(cuda.gpus) == len(cuda.list_devices()) == 1
assert cuda.cuda_error() is None

device = cuda.select_device(0)
assert device.id == cuda.get_current_device().id == cuda.gpus.current.id == 0
assert device.compute_capability >= (5, 0)
assert device.WARP_SIZE == 32 and device.MAX_THREADS_PER_BLOCK == 1024
assert device.MULTIPROCESSOR_COUNT >= 1 and device.name

context = cuda.current_context()
free, total = context.get_memory_info()
assert 0 < free <= total
with cuda.gpus[0], cuda.defer_cleanup(), cuda.profiling():
    cuda.profile_start()
    cuda.synchronize()
    cuda.profile_stop()


@cuda.require_context
def needs_a_context():
    return cuda.current_context().device.id


assert needs_a_context() == 0
cuda.close()
