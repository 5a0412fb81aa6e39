"""What functions refuse by a typed error, where an argument is out of what it may be."""

import math

import pytest

import calor
from calor.errors import ArgumentError, ShapeError


@pytest.mark.parametrize("axes", [(0,), (0, 1, 1)])
def test_a_turn_needs_two_axes(axes) -> None:
    with pytest.raises(ShapeError, match="give the two axes of a plane"):
        calor.rot90(calor.zeros((2, 3)), axes=axes)


def test_a_vector_has_an_axis() -> None:
    with pytest.raises(ShapeError, match="vecmat: the first operand has no axis"):
        calor.vecmat(2.0, calor.zeros((2, 3)))


def test_geometric_steps_begin_at_a_finite_number() -> None:
    with pytest.raises(ArgumentError, match="geomspace: from inf to 2.0"):
        calor.geomspace(math.inf, 2.0, 3)
