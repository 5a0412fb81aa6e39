"""Are gradients of activations as near to the exact slopes as they say, on machines?"""

import numpy as np
import pytest
from scipy.special import expit, ndtr

from calor.dtypes import bfloat16, float16, float32, float64

from .running import MACHINES, run_op

_SCALE = np.sqrt(2 / np.pi)


def _by_tanh(x):
    gate = expit(2 * _SCALE * (x + 0.044715 * x**3))
    return gate + x * gate * (1 - gate) * 2 * _SCALE * (1 + 3 * 0.044715 * x**2)


SLOPES = {
    "silu_gradient": lambda x: expit(x) * (1 + x * expit(-x)),
    "gelu_gradient": lambda x: ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    "gelu_tanh_gradient": _by_tanh,
}
# The bits after the leading one, and the greatest errors in units in the last place of slopes, or
# of 0.05 where these are smaller.
DIGITS = {bfloat16: (7, 0.52), float16: (10, 0.66), float32: (23, 20), float64: (52, 64)}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("op", SLOPES)
@pytest.mark.parametrize("dtype", DIGITS, ids=str)
def test_slopes(op, dtype, machine):
    count = 5001 if MACHINES[machine] is MACHINES[list(MACHINES)[-1]] else 501
    x = np.linspace(-14, 14, count).astype(dtype.numpy)
    found, _ = run_op(op, [np.ones_like(x), x], machine)
    exact = SLOPES[op](x.astype(np.float64))
    digits, most = DIGITS[dtype]
    unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(exact), 0.05))) - digits)
    assert (np.abs(found.astype(np.float64) - exact) / unit).max() <= most


@pytest.mark.parametrize("op", SLOPES)
@pytest.mark.parametrize("dtype", DIGITS, ids=str)
def test_ends(op, dtype):
    x = np.array([np.nan, -200.0, 200.0, 0.0], dtype.numpy)
    found, _ = run_op(op, [np.full_like(x, 2), x])
    assert np.isnan(found[0])
    assert abs(float(found[1])) < 1e-20
    assert float(found[2]) == 2
    assert abs(float(found[3]) - 1) < 1e-3
