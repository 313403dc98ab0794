"""Manual, "GPU Reduction": a sum by decorator."""

import numpy as np
from numba import cuda


@cuda.reduce
def total(a, b):
    return a + b


array = np.arange(1234, dtype=np.float64) + 1
assert total(array) == array.sum()
assert total(array, init=5) == array.sum() + 5
assert total(array, size=10) == array[:10].sum()
result = cuda.device_array(1)
assert total(cuda.to_device(array), res=result) is None
assert result[0] == array.sum()
