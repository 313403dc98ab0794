"""Synthetic labelled images of any size: a smooth pattern a class, and noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

NOISE = 0.5  # deviation, beside patterns of deviation 1


def make(
    image_shape: tuple[int, ...], classes: int, count: int, seed: int
) -> tuple[NDArray[Any], ...]:
    """Return training images and labels, and a quarter as many that are held out.

    The pattern of a class is, in every channel, a sum of three plane waves of random
    directions. An image is the pattern of its class and noise.
    """
    random = np.random.default_rng(seed)
    channels, height, width = image_shape
    down, across = np.meshgrid(
        np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij"
    )
    patterns = np.zeros((classes, *image_shape), np.float32)
    for pattern in patterns.reshape(classes * channels, height, width):
        for _ in range(3):
            fy, fx = random.uniform(-4, 4, 2)
            phase = random.uniform(0, 2 * np.pi)
            pattern += np.sin(2 * np.pi * (fy * down + fx * across) + phase)

    def part(size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        labels = random.integers(0, classes, size).astype(np.int32)
        noise = random.standard_normal((size, *image_shape), np.float32)
        return patterns[labels] + np.float32(NOISE) * noise, labels

    return (*part(count), *part(max(1, count // 4)))
