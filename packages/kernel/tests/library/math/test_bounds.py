"""Are the mathematical functions as near to the exact results as they say, with the same bits?"""

from importlib.util import find_spec

import numpy as np
import pytest

from calor.dtypes import float32, float64
from calor_interpreter.launch import run_on_lanes
from calor_kernel.language import Buffer, absolute_position, kernel
from calor_kernel.library import math
from calor_kernel.library.elementwise import ROWS
from calor_kernel.library.math import base

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


@kernel
def apply_by_planes(source, target, *, function):
    i = absolute_position()
    target[i] = function(source[i])


def by_planes(function, x):
    """Return a function's results in planes of 32 units."""
    given = np.resize(x, -(-x.size // 32) * 32)
    made = np.empty_like(given)
    signature = [Buffer(float32)] * 2
    built = apply_by_planes.build(signature, cube=(32, 1, 1), plane=32, function=function)
    run_on_lanes(built, (given.size // 32, 1, 1), [given, made])
    return made[: x.size]


def test_inverses_without_branches_are_quotients():
    """At every exponent; the last number below a power of two is the hardest one."""
    draw = np.random.default_rng(0)
    bits = (np.arange(2, 253, dtype=np.uint32) << 23)[:, None] + draw.integers(0, 1 << 23, 60)
    bits = np.concatenate([bits, bits[:, :1] | 0x7FFFFF], axis=1).astype(np.uint32)
    x = bits.reshape(-1).view(np.float32)
    np.testing.assert_array_equal(by_planes(base.inverse, x), 1 / x)


@pytest.mark.parametrize("function", [math.tanh, ROWS["sigmoid"].function])
def test_planes_give_the_bits_of_a_unit(function):
    (x,) = samples(float32, 1, 500)
    one = np.empty_like(x)
    built = apply_by_planes.build([Buffer(float32)] * 2, function=function)
    run_on_lanes(built, (x.size, 1, 1), [x, one])
    np.testing.assert_array_equal(by_planes(function, x), one)


@pytest.mark.slow
@pytest.mark.skipif(not CPU, reason="calor-cpu is not installed")
@pytest.mark.parametrize("name", [n for n in NAMES if n not in TWO])
def test_float32_from_end_to_end(name):
    worst = max(sweep(name, 127))
    assert worst[0] <= BOUNDS[name].float32 + 0.01, worst
