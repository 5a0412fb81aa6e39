"""Values from the host that an element type cannot hold: defined, or refused, on every device."""

import numpy as np
import pytest

import calor


def test_floats_saturate_as_in_a_cast():
    given = [1e10, float("nan"), -1e30, 2.9]
    made = calor.asarray(given, dtype=calor.int32)
    assert made.tolist() == calor.asarray(given).astype(calor.int32).tolist()
    assert made.tolist() == [2147483647, 0, -2147483648, 2]
    assert calor.asarray(np.asarray([300.0, -5.0]), dtype=calor.uint8).tolist() == [255, 0]


@pytest.mark.parametrize("given", [-1, [1, -1], [[300]]])
def test_python_integers_that_do_not_fit_are_refused(given):
    with pytest.raises(OverflowError, match=r"does not fit uint8 \(0 … 255\); choose a wider"):
        calor.asarray(given, dtype=calor.uint8)


def test_parts_of_different_shapes_are_a_shape_error():
    with pytest.raises(calor.errors.ShapeError, match="differ in shape; pad them"):
        calor.asarray([[1, 2], [3]])


@pytest.mark.parametrize("index", [-6, [-6, 0], 5])
def test_an_index_tensor_out_of_range_is_refused(index):
    x = calor.arange(5.0)
    with pytest.raises(calor.errors.ElementIndexError, match="out of range for axis 0 of size 5"):
        x[calor.asarray(index)].numpy()


def test_a_jitted_index_out_of_range_is_refused():
    f = calor.jit(lambda x, i: x[i])
    x = calor.arange(5.0)
    assert (f(x, -5).item(), f(x, 4).item()) == (0.0, 4.0)
    with pytest.raises(calor.errors.ElementIndexError, match="index -6 is out of range"):
        f(x, -6).item()
