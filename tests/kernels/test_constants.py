"""Constants that layers share with kernels, which they cannot import."""

from importlib import import_module

from snref.kernels import batchnorm, bias, linear, lrn, pool, relu, softmax
from snref.layers import slices


def test_layers_launch_the_blocks_that_kernels_are_written_for() -> None:
    layers = {
        name: import_module(f"snref.layers.{name}")
        for name in ("batchnorm", "bias", "lrn", "pool", "relu", "softmax")
    }
    assert layers["batchnorm"].BLOCK == (batchnorm.PIXELS, batchnorm.IMAGES)
    assert layers["softmax"].THREADS == softmax.THREADS
    assert layers["lrn"].THREADS == lrn.THREADS
    assert layers["lrn"].LARGEST <= lrn.LARGEST
    assert layers["pool"].WIDEST == pool.WIDEST
    assert layers["bias"].BLOCK == bias.BLOCK
    assert layers["relu"].BITS == relu.BITS == 32  # of an int32
    assert slices.IMAGES == slices.images_of_slice(1) == linear.DEPTH


def test_the_widest_window_leaves_room_for_a_tile() -> None:
    for threads in (32, 64):
        assert pool.SPAN - 2 * (pool.WIDEST - 1) - threads >= 1
