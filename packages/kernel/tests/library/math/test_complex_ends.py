"""What do functions of complex numbers make of infinities, NaN and zeros of both signs?"""

from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

from calor.plugins.discovery import registry
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
PARTS = (0.0, -0.0, 0.75, -2.5, 30.0, 1e200, np.inf, -np.inf, np.nan)


@pytest.fixture(scope="module")
def backend():
    if find_spec("calor_cpu") is not None:
        return registry.backend("cpu")
    return KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))


def agrees(found, wanted):
    """C leaves open the signs of some zeros and infinities, and NaN has none."""
    if np.isnan(wanted):
        return np.isnan(found)
    return abs(found) == abs(wanted) or abs(found - wanted) <= 1e-13


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_a_number_is_as_in_c(name, backend):
    inputs = np.array([complex(a, b) for a, b in product(PARTS, repeat=2)])
    inputs = inputs[~np.isfinite(inputs)]
    (found,), (wanted,) = run_op(backend, name, [inputs], {})
    wrong = [
        f"{name}({z}) is {a}, not {b}"
        for z, a, b in zip(inputs, found, wanted, strict=True)
        if not (agrees(a.real, b.real) and agrees(a.imag, b.imag))
    ]
    assert not wrong, "\n".join(wrong)
