"""Elementary functions in float32 arithmetic, for the kernels of several layers.

A library's exp is called for one element at a time on a CPU, where arithmetic alone is
done for 8 or 16 at once, like that of a warp on a GPU.
"""

from numba import cuda, float32, int32

LOWEST = -87.0  # exp(LOWEST) is about the least normal float32, 1.2e-38


@cuda.jit(device=True)
def negative_exp(x):
    """exp(x) for x <= 0, to within 2 units in the last place; 0 below LOWEST.

    With m whole and f = x + m log 2 at most half of log 2 in size, exp(x) is
    exp(f) 2^-m. The polynomial is the Taylor series to degree 7, whose remainder
    there, f^8/8!, is 5e-9; log 2 is subtracted in two parts, of which m times the first
    is exact (Cody and Waite 1980, chapter 6); and 2^-m is one factor a binary digit.
    """
    low = x < float32(LOWEST)
    reduced = float32(LOWEST) if low else x
    m = int32(float32(0.5) - reduced * float32(1.4426950409))
    f = reduced + float32(m) * float32(0.693359375)
    f = f - float32(m) * float32(2.12194440e-4)
    y = float32(1 / 5040)
    y = y * f + float32(1 / 720)
    y = y * f + float32(1 / 120)
    y = y * f + float32(1 / 24)
    y = y * f + float32(1 / 6)
    y = y * f + float32(1 / 2)
    y = y * f * f + f + float32(1)
    y = y * (float32(2.0**-1) if m & 1 else float32(1))
    y = y * (float32(2.0**-2) if m & 2 else float32(1))
    y = y * (float32(2.0**-4) if m & 4 else float32(1))
    y = y * (float32(2.0**-8) if m & 8 else float32(1))
    y = y * (float32(2.0**-16) if m & 16 else float32(1))
    y = y * (float32(2.0**-32) if m & 32 else float32(1))
    y = y * (float32(2.0**-64) if m & 64 else float32(1))
    return float32(0) if low else y
