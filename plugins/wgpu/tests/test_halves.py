"""Recipes convert the bits of half types as NumPy converts the types."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
)
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.ir import fold
from calor_kernel.ir.passes import Rewriter
from calor_kernel.language import Buffer, cast, cube_position, kernel
from calor_wgpu.passes.recipes import block_of

HALVES = (bfloat16, float16)


class Lowered(Rewriter):
    """Puts a recipe in the place of casts from a type."""

    def __init__(self, source: DType, recipe: str, dtype: DType) -> None:
        super().__init__()
        self.given: tuple[DType | None, str, DType] = source, recipe, dtype

    def operation(self, operation: Any) -> Any:
        source, recipe, dtype = self.given
        if operation.name != "cast" or operation.operands[0].type.dtype is not source:
            return None
        block = block_of(recipe, dtype)
        assert block is not None
        self.stand(block.arguments[0], self.parts(operation.operands[0]))
        # The recipe has casts of its own.
        self.given = None, recipe, dtype
        made = self.inline(block)
        self.given = source, recipe, dtype
        return made


@kernel
def converted(y: Any, x: Any, *, through: Any) -> None:
    i = cube_position()
    value = x[i]
    for dtype in through:
        value = cast(value, dtype)
    y[i] = value


def convert(x: Any, of: DType, through: tuple[DType, ...], *recipes: Any) -> Any:
    """What a kernel of casts makes of numbers, with recipes in the places of some."""
    made = converted.build([Buffer(through[-1]), Buffer(of)], through=through)
    for recipe in recipes:
        made = verify(Lowered(*recipe).run(made))
    y = np.zeros(len(x), through[-1].numpy)
    run_on_lanes(made, (len(x), 1, 1), [y, x])
    return y


def narrowed(x: Any, half: DType) -> Any:
    return convert(x, float32, (uint16,), (float32, "of_float32", half)).view(half.numpy)


@pytest.mark.parametrize("half", HALVES)
def test_every_half_survives(half: DType) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits.view(half.numpy)
    z = convert(bits, uint16, (float32,), (uint16, "float32_of", half))
    y = narrowed(z, half)
    with np.errstate(invalid="ignore"):
        number = ~np.isnan(halves)
        np.testing.assert_array_equal(z, halves.astype(np.float32))
    np.testing.assert_array_equal(y.view(np.uint16)[number], bits[number])
    assert np.isnan(y[~number]).all()


@pytest.mark.parametrize("half", HALVES)
def test_ties_and_limits_round_to_even(half: DType) -> None:
    """Around every finite half: itself, the point between it and the next, and what is beside."""
    halves = np.arange(1 << 15, dtype=np.uint16).view(half.numpy)
    with np.errstate(invalid="ignore"):
        exact = np.sort(halves[np.isfinite(halves)].astype(np.float32))[::7]
    between = exact[:-1] / 2 + exact[1:] / 2
    above, below = np.nextafter(between, np.float32(np.inf)), np.nextafter(between, np.float32(0))
    points = np.resize(np.concatenate([exact, between, above, -below]), 1 << 15)
    points[:4] = [np.inf, -np.inf, np.nan, 1e-45]
    with np.errstate(over="ignore"):
        wanted = points.astype(half.numpy)
    np.testing.assert_array_equal(
        narrowed(points, half).astype(np.float32), wanted.astype(np.float32)
    )


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("dtype", [float64, int32, int64, uint32, uint64])
def test_a_number_rounded_to_odd_is_rounded_once(dtype: DType, half: DType) -> None:
    # Close to the middle of two neighbours, which float32 alone rounds to the middle.
    middles = np.arange(2 * 128 + 1, 2 * 256, 2)
    if dtype is float64:
        bits = 8 if half is bfloat16 else 11
        middles = np.arange(2**bits + 1, 2 ** (bits + 1), 2) * 2.0**-bits
        x = np.concatenate([middles * (1 + 2.0**-40), -middles * (1 - 2.0**-40)])
    else:
        shift = 8 * dtype.itemsize - 11
        x = np.concatenate([(middles << shift) + 1, (middles << shift) - 1, middles, middles >> 8])
        x = x.astype(dtype.numpy)
    odd = convert(x, dtype, (float32,), (dtype, "odd", dtype))
    wanted = [fold.convert(number, half) for number in x.tolist()]
    np.testing.assert_array_equal(narrowed(odd, half).astype(np.float64), wanted)
