"""Numbers at the ends of a dtype, where steps on the way to a result overflow or vanish."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import calor
from calor import dtypes, special
from calor_conformance.rows.domains import special as special_numbers

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


COUNTS = {
    name: len(rows[0]) - 1
    for name, rows in json.loads(Path(__file__).with_name("points.json").read_text("utf-8")).items()
    if hasattr(special, name)
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", COUNTS)
def test_special_numbers_give_what_float64_gives(name, dtype):
    """NaN, infinities, zeros, the least and the largest numbers, in every combination."""
    kind = getattr(dtypes, dtype)
    some = special_numbers(kind)
    x = [n.reshape(-1) for n in np.meshgrid(*[some] * COUNTS[name], indexing="ij")]
    if name == "airy_ai":
        x = [x[0][~(x[0].astype(np.float32) < -1e3)]]  # The phase of far waves is lost.
    if name == "zeta":
        x = [n[~(x[1].astype(np.float32) < 0)] for n in x]  # Terms of both signs cancel.
    function = getattr(special, name)
    with calor.device("numpy"):
        made = function(*map(calor.asarray, x)).astype("float32").numpy()
        exact = function(*(calor.asarray(n.astype(np.float64)) for n in x)).numpy()
    with np.errstate(over="ignore"):
        expected = exact.astype(kind.numpy).astype(np.float32)
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    least = {"betaln": 1e-6, "gammainc_slope": 1e-15}.get(name, float(np.finfo("f4").tiny))
    least = least if dtype == "float32" else 1e-5
    np.testing.assert_allclose(made, expected, rtol=tolerance, atol=least)
