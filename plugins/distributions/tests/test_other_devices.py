"""Distributions whose parameters are on another device than the current one."""

import numpy as np
import pytest

import calor
from other_device import other_device


@pytest.mark.parametrize("name", ["Normal", "LogNormal", "Cauchy", "Laplace", "Gumbel", "Uniform"])
@pytest.mark.parametrize("asked", ["log_prob", "cdf", "icdf"])
@pytest.mark.parametrize("value", [0.25, np.array([0.25, 0.5])])
def test_numbers_and_arrays_are_put_where_the_parameters_are(name, asked, value) -> None:
    with other_device():
        low, high = calor.asarray([0.0, -1.0]), calor.asarray([1.0, 2.0])
        made = getattr(calor.distributions, name)(low, high)
        want = getattr(made, asked)(value).numpy()
    found = getattr(made, asked)(value)
    assert found.device == other_device()
    assert found.numpy().tobytes() == want.tobytes()
    assert found.dtype is calor.float32
