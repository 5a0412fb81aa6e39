"""Are GELU and SiLU as near to the exact results as they say, in their tails, on machines?"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtr

from calor.dtypes import bfloat16, float16, float32

from .running import MACHINES, run_op

TANH = np.sqrt(2 / np.pi)
EXACT = {
    "gelu": lambda x: x * ndtr(x),
    "gelu_tanh": lambda x: x / (1 + np.exp(-2 * TANH * (x + 0.044715 * x**3))),
}
# Bits after the leading one, and the exponent of the smallest numbers.
PRECISION = {bfloat16: (7, -133), float16: (10, -24), float32: (23, -149)}
# The largest errors from one argument to the next, in units in the last place.
HALVES = {("gelu", bfloat16): 0.501, ("gelu_tanh", bfloat16): 0.51}
HALVES |= {("gelu", float16): 0.51, ("gelu_tanh", float16): 0.59}
SINGLE = [(-6.0, 70.0), (-2.0, 8.0), (-1.0, 3.0), (0.0, 2.0), (10.0, 0.51)]


def units(op, x, found, dtype):
    """Return errors in units in the last place of exact results."""
    digits, least = PRECISION[dtype]
    with np.errstate(all="ignore"):
        exact = EXACT[op](x.astype(np.float64))
        exponent = np.floor(np.log2(np.abs(exact)))
    return np.abs(found.astype(np.float64) - exact) / 2.0 ** np.maximum(exponent - digits, least)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("op", "dtype"), HALVES, ids=str)
def test_every_half(op, dtype, machine):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    x = x if MACHINES[machine] is MACHINES[list(MACHINES)[-1]] else x[::61]
    x = x[np.isfinite(x.astype(np.float32))]
    found, _ = run_op(op, [x], machine)
    inside = np.abs(x) <= 5.6
    assert units(op, x, found, dtype)[inside].max() <= HALVES[op, dtype]
    # Beyond, a result is the argument, or hardly anything and not above zero.
    assert (found[x > 5.6] == x[x > 5.6]).all()
    below = found[x < -5.6].astype(np.float64)
    assert (below <= 0).all()
    assert (below > -1e-7).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_single_precision(machine):
    count = 100_001 if machine == list(MACHINES)[-1] else 1001
    x = np.linspace(-12, 12, count).astype(np.float32)
    found, _ = run_op("gelu", [x], machine)
    wrong = units("gelu", x, found, float32)
    for (start, bound), (end, _) in pairwise(SINGLE):
        assert wrong[(x >= start) & (x <= end)].max() <= bound
    assert (np.abs(found[x < -6]) < 1e-8).all()


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("dtype", PRECISION, ids=str)
def test_ends(op, dtype):
    x = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, -100.0], dtype.numpy)
    found, _ = run_op(op, [x])
    assert np.isnan(found[:2]).all()
    assert np.isposinf(found[2])
    assert (found[3:5] == 0).all()
    assert list(np.signbit(found[3:5])) == [False, True]
    assert -1e-20 < float(found[5]) <= 0


@pytest.mark.parametrize("machine", MACHINES)
def test_a_gate_is_zero_before_it_is_denormal(machine):
    x = np.linspace(-120, -60, 601).astype(np.float32)
    found, wanted = run_op("silu", [x], machine)
    tiny = np.finfo(np.float32).tiny
    assert ((np.abs(found) >= tiny) | (found == 0)).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=100 * tiny)
