"""Fixtures of the kernel tests; the functions they share are in reference.py."""

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every test."""
    return np.random.default_rng(2018)
