"""Are the mathematical functions as near to the exact results as they say, with the same bits?"""

from importlib.util import find_spec

import numpy as np
import pytest

from calor.dtypes import float32, float64

from .ulp import BOUNDS, ROUGH, TWO, errors, evaluate, samples, sweep

CPU = find_spec("calor_cpu") is not None
FASTEST = "cpu" if CPU else "lanes"
NAMES = list(BOUNDS)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("name", NAMES)
def test_bound(name, dtype):
    bound = getattr(BOUNDS[name], dtype.name)
    slack = ROUGH.get(name, 0.0) if dtype is float64 else 0.01
    operands = samples(dtype, 1 + (name in TWO), 2000)
    found = errors(name, operands, evaluate(name, operands, FASTEST))
    worst = int(np.argmax(found))
    assert found[worst] <= bound + slack, [o[worst] for o in operands]


@pytest.mark.skipif(not CPU, reason="calor-cpu is not installed")
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("name", NAMES)
def test_every_device_gives_the_same_bits(name, dtype):
    operands = [o[::7] for o in samples(dtype, 1 + (name in TWO), 600, seed=1)]
    a, b = evaluate(name, operands, "lanes"), evaluate(name, operands, "cpu")
    both = np.isnan(a) & np.isnan(b)
    bits = np.dtype(f"u{dtype.itemsize}")
    assert np.all(both | (a.view(bits) == b.view(bits)))


@pytest.mark.slow
@pytest.mark.skipif(not CPU, reason="calor-cpu is not installed")
@pytest.mark.parametrize("name", [n for n in NAMES if n not in TWO])
def test_float32_from_end_to_end(name):
    worst = max(sweep(name, 127))
    assert worst[0] <= BOUNDS[name].float32 + 0.01, worst
