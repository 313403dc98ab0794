"""Manual of numba-cuda, "Global Variables": a number and an array as constants."""

import numpy as np
from numba import cuda

TAX_RATE = 0.08
PRICES = np.array([10.0, 25.0, 5.0, 15.0, 30.0])


@cuda.jit
def totals(quantities, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = quantities[i] * PRICES[i] * (1 + TAX_RATE)


quantities = cuda.to_device(np.arange(5))
out = cuda.device_array(5)
totals[1, 32](quantities, out)
np.testing.assert_allclose(out.copy_to_host(), np.arange(5) * PRICES * (1 + TAX_RATE))
