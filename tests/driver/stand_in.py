"""The kernels of the stand-in for NVIDIA's driver (``libcuda.c``).

Each launch runs ``snref.simt``'s compiled form of the kernel whose machine code was
launched, on NumPy arrays at the addresses that the launch was given. What the stand-in
does not check: the machine code itself, and how fast it is.

    LD_LIBRARY_PATH=FOLDER python tests/driver/stand_in.py -m snref train digits
    LD_LIBRARY_PATH=FOLDER pytest -p tests.driver.stand_in -m gpu -n 0
"""

import atexit
import ctypes
import runpy
import sys
import traceback

import numpy as np

from snref import simt
from snref.device.machine_code import Code
from snref.kernels import find

THREE = ctypes.POINTER(ctypes.c_uint)
RUNNER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, THREE, THREE, ctypes.c_void_p)

driver = ctypes.CDLL("libcuda.so.1")
driver.fake_faults.restype = ctypes.c_char_p
for count in (driver.fake_count, driver.fake_used, driver.fake_most):
    count.restype = ctypes.c_long

codes = {}  # of the machine code that is loaded, by the name of its kernel
kernels = {}  # compiled for the CPU, by the same
image = Code.image


def noted(code):
    codes[code.stem] = code
    return image(code)


Code.image = noted


def faults():
    """Return what the driver was asked to do and should not have been."""
    return driver.fake_faults().decode().splitlines()


def arguments(code, address):
    """Yield the arrays and numbers that a launch was given, which lie at an address."""
    for dtype, dimensions in code.types:
        size = 8 if dimensions else np.dtype(dtype).itemsize
        address += -address % size
        if not dimensions:
            raw = (ctypes.c_uint8 * size).from_address(address)
            yield np.frombuffer(raw, dtype)[0]
            address += size
            continue
        count = 5 + 2 * dimensions
        words = list((ctypes.c_int64 * count).from_address(address))
        parents, elements, itemsize, data = words[:2], *words[2:5]
        shape, strides = words[5 : 5 + dimensions], words[5 + dimensions :]
        raw = (ctypes.c_uint8 * (elements * itemsize)).from_address(data)
        array = np.frombuffer(raw, dtype).reshape(shape)
        assert parents == [0, 0] and itemsize == array.itemsize
        assert data % itemsize == 0 and strides == list(array.strides)
        yield array
        address += 8 * count


@RUNNER
def run(name, grid, block, address):
    try:
        code = codes[name.decode()]
        if code not in kernels:
            kernels[code] = simt.compile(find(code.kernel))
        kernels[code][tuple(grid[:3]), tuple(block[:3])](*arguments(code, address))
        return 0
    except BaseException:
        traceback.print_exc()
        return 1


driver.fake_run_kernels_with(run)


def pytest_sessionfinish(session):
    if faults():
        session.exitstatus = 1


@atexit.register
def tell():
    for fault in faults():
        print(f"fault: {fault}", file=sys.stderr)


if __name__ == "__main__":
    sys.modules["tests.driver.stand_in"] = sys.modules["__main__"]
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
