"""Manual, "CUDA Array Interface": a stream of the array and one of the kernel."""

import numpy as np
from numba import cuda, int32, void


@cuda.jit(void(int32[::1]))
def count(x):
    i = cuda.grid(1)
    if i < len(x):
        x[i] = i


array_stream, kernel_stream = cuda.stream(), cuda.stream()
x = cuda.device_array(16384, dtype=np.int32, stream=array_stream)
start, end = cuda.event(), cuda.event()
start.record(kernel_stream)
count[64, 256, kernel_stream](x)
end.record(kernel_stream)
end.wait(array_stream)
end.synchronize()
assert end.query()
assert start.elapsed_time(end) >= 0
assert cuda.event_elapsed_time(start, end) >= 0

with array_stream.auto_synchronize():
    host = x.copy_to_host(stream=array_stream)
assert (host == np.arange(16384)).all()

seen = []
kernel_stream.add_callback(lambda stream, status, arg: seen.append(arg), "done")
kernel_stream.synchronize()
assert seen == ["done"]
assert cuda.default_stream() is not None
