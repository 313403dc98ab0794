"""Manual, "Examples": the tiled product of matrices that are not square."""

import runpy
from pathlib import Path

import numpy as np

tiled = runpy.run_path(str(Path(__file__).with_name("matrix_product_tiled.py")))
tiled["run"](np.arange(115).reshape(5, 23), np.ones((23, 7)))
