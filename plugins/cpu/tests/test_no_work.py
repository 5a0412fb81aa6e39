"""Programs of which nothing is left to compute."""

import numpy as np
import pytest

import calor
import calor.linalg


@pytest.mark.parametrize("shape", [(0, 0), (5, 0), (0, 5), (2, 0, 0), (0, 3, 3)])
def test_singular_values_of_empty_matrices(shape: tuple[int, ...]) -> None:
    with calor.device("cpu"):
        found = calor.linalg.svdvals(calor.asarray(np.zeros(shape, np.float32)))
    assert found.shape == np.linalg.svd(np.zeros(shape), compute_uv=False).shape
    assert found.numpy().size == 0
