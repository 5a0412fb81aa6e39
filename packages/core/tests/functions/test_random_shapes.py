"""Random numbers of a negative size are refused, as zeros of one are."""

import pytest

import calor
from calor.errors import ShapeError


@pytest.mark.parametrize("name", ["normal", "uniform", "bits", "exponential", "gumbel"])
@pytest.mark.parametrize("shape", [-1, (2, -3)])
def test_a_negative_size_is_refused(name, shape) -> None:
    with pytest.raises(ShapeError, match="has a negative size"):
        getattr(calor.random, name)(shape)
