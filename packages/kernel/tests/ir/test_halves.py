"""Half types as their bits compute what half types do."""

import numpy as np
import pytest

from calor.dtypes import bfloat16, float16, float32
from calor.errors import CompileError
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.passes import lower_bfloat16, lower_float16, split_vectors
from calor_kernel.ir.verify import verify
from calor_kernel.language import Buffer, cast, cube_position, fma, kernel

from .kernels import CASES

LOWER = {bfloat16: lower_bfloat16, float16: lower_float16}
NAMES = [
    (name, dtype)
    for name, case in CASES.items()
    for dtype in LOWER
    if dtype in (case.result, case.source)
]


@pytest.mark.parametrize(("name", "dtype"), NAMES)
def test_bits_compute_what_halves_do(name: str, dtype: object) -> None:
    case = CASES[name]
    kernel = verify(case.build())
    expected = case.run(kernel).view(case.result.numpy)
    lowered = verify(LOWER[dtype](kernel))
    values = [v for o in lowered.body.walk() for v in (*o.operands, *o.results)]
    assert all(v.type.dtype is not dtype for v in values)
    assert all(p.memory is None or p.memory.type.dtype is not dtype for p in lowered.parameters)
    for made in (lowered, verify(split_vectors(lowered, lambda dtype: (1, 4)))):
        found = case.run(made).view(case.result.numpy)
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", LOWER)
def test_every_half_survives(dtype) -> None:
    def there_and_back(y, x, z):
        i = cube_position()
        value = cast(x[i], float32)
        y[i] = cast(value, dtype)
        z[i] = value

    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    built = kernel(there_and_back).build([Buffer(dtype), Buffer(dtype), Buffer(float32)])
    y, z = np.zeros(1 << 16, np.uint16), np.zeros(1 << 16, np.float32)
    arguments = [y, halves.view(np.uint16).copy(), z]
    run_on_lanes(LOWER[dtype](built), (1 << 16, 1, 1), arguments)
    with np.errstate(invalid="ignore"):
        number = ~np.isnan(halves)
        np.testing.assert_array_equal(z, halves.astype(np.float32))
    np.testing.assert_array_equal(y[number], halves.view(np.uint16)[number])
    assert np.isnan(y.view(dtype.numpy)[~number]).all()


@pytest.mark.parametrize("dtype", LOWER)
def test_ties_and_limits_round_to_even(dtype) -> None:
    """Around every finite half: itself, the point between it and the next, and what is beside."""
    halves = np.arange(1 << 15, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        exact = np.sort(halves[np.isfinite(halves)].astype(np.float32))[::7]
    between = exact[:-1] / 2 + exact[1:] / 2
    above, below = np.nextafter(between, np.float32(np.inf)), np.nextafter(between, np.float32(0))
    points = np.resize(np.concatenate([exact, between, above, -below]), 1 << 15)
    points[:4] = [np.inf, -np.inf, np.nan, 1e-45]

    def convert(y, x):
        i = cube_position() * 4
        y.store(i, cast(x.load(i, 4), dtype))

    built = kernel(convert).build([Buffer(dtype), Buffer(float32)])
    y = np.zeros(1 << 15, np.uint16)
    run_on_lanes(LOWER[dtype](built), (1 << 13, 1, 1), [y, points])
    with np.errstate(over="ignore"):
        wanted = points.astype(dtype.numpy)
    found = y.view(dtype.numpy)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_what_float32_cannot_do_is_refused() -> None:
    @kernel
    def fused(x):
        x[0] = fma(x[0], x[1], x[2])

    with pytest.raises(CompileError, match="fma of bfloat16 is not made of float32; cast to"):
        lower_bfloat16(fused.build([Buffer(bfloat16)]))
