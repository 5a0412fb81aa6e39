"""Numbers at the ends of a dtype, where steps on the way to a result overflow or vanish."""

import math

import numpy as np
import pytest

import calor
from calor import special

ENDS = {
    "k0 of the least number": (special.k0, [1e-45], "float32", [103.39486]),
    "k0e of the least number": (special.k0e, [1e-45], "float32", [103.39486]),
    "k1 of the least number": (special.k1, [1e-45], "float32", [math.inf]),
    "y1 where 1 / x overflows": (special.y1, [1.92855e-39], "bfloat16", [-3.3e38]),
    "no probability": (special.ndtri, [-6e-16, 1.5, -1e-30], "float32", [math.nan] * 3),
}
PAIRS = {
    "far above the shape": (special.gammainc, [1.0, 7.0, 1e5], [3e38, 1e9, 1e6], [1.0] * 3),
    "complement": (special.gammaincc, [1.0, 7.0, 1e5], [3e38, 1e9, 1e6], [0.0] * 3),
    "one pole": (special.betaln, [-1.0, 0.5], [-1.0000001, -2.0], [math.inf] * 2),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(name):
    function, given, dtype, expected = ENDS[name]
    made = function(calor.asarray(given, dtype=dtype)).astype("float32").numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-2 if dtype == "bfloat16" else 1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_ends_of_two_operands(name):
    function, a, b, expected = PAIRS[name]
    made = function(calor.asarray(a), calor.asarray(b)).numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-5)


def test_far_waves_of_airy_are_small_numbers():
    made = special.airy_ai(calor.asarray([-4.9e25, -3e38], dtype="float32")).numpy()
    assert (np.abs(made) < 1e-6).all()
