"""Recipes compute what the operations compute that they stand for, bit for bit."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, float32, float64, int8, int16, int32, int64, uint8, uint32, uint64
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.ir.passes import Rewriter
from calor_kernel.language import (
    Buffer,
    absolute_position,
    clz,
    copysign,
    ctz,
    fma,
    kernel,
    modulo,
    mulhi,
    popcount,
)
from calor_wgpu.passes.recipes import block_of

_SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-30, 3e38, -3e38, 1.0000001]


def numbers(dtype: DType, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.kind == "float":
        made = rng.normal(size=121) * 10.0 ** rng.integers(-8, 9, 121)
        made[:] = np.where(rng.random(121) < 0.4, rng.choice(_SPECIAL, 121), made)
        return made.astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    made = rng.integers(limits.min, limits.max, 121, dtype.numpy, endpoint=True)
    made[:6] = limits.min, limits.max, 1, 3, limits.max, limits.min
    return np.where(made == 0, 1, made).astype(dtype.numpy) >> rng.integers(0, 5, 121).astype(
        dtype.numpy
    )


class Lowered(Rewriter):
    """Puts recipes in the places of operations of a name."""

    def __init__(self, name: str, dtype: DType, wide: bool) -> None:
        super().__init__()
        self.name, self.dtype, self.wide = name, dtype, wide

    def operation(self, operation: Any) -> Any:
        if operation.name != self.name or operation.operands[0].type.dtype is not self.dtype:
            return None
        block = block_of(self.name, self.dtype, wide=self.wide)
        assert block is not None
        for argument, value in zip(block.arguments, operation.operands, strict=True):
            self.stand(argument, self.parts(value))
        return self.inline(block)


@kernel
def applied(x: Any, y: Any, z: Any, r: Any, *, function: Any) -> None:
    i = absolute_position()
    r[i] = function(x[i], y[i], z[i])


FLOATS = (float32, float64)
WHOLE = (int8, int16, int32, int64, uint8, uint32, uint64)
CASES: list[tuple[str, Any, tuple[DType, ...]]] = [
    ("min", lambda x, y, z: x.builder.binary("min", x, y), FLOATS),
    ("max", lambda x, y, z: x.builder.binary("max", x, y), FLOATS),
    ("copysign", lambda x, y, z: copysign(x, y), FLOATS),
    ("abs", lambda x, y, z: abs(x), FLOATS),
    ("neg", lambda x, y, z: -x, FLOATS),
    ("fma", fma, FLOATS),
    ("modulo", lambda x, y, z: modulo(x, y), WHOLE),
    ("mulhi", lambda x, y, z: mulhi(x, y), WHOLE),
    ("clz", lambda x, y, z: clz(x), (int8, int16, uint8, int64, uint64)),
    ("ctz", lambda x, y, z: ctz(x), (int8, int16, uint8, int64, uint64)),
    ("popcount", lambda x, y, z: popcount(x), (int8, int16, uint8)),
]


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(
    ("name", "function", "dtype"),
    [pytest.param(n, f, d, id=f"{n}-{d}") for n, f, all in CASES for d in all],
)
def test_a_recipe(name: str, function: Any, dtype: DType, wide: bool) -> None:
    built = applied.build([Buffer(dtype)] * 4, function=function)
    made = verify(Lowered(name, dtype, wide).run(built))
    if name not in ("clz", "ctz", "popcount"):
        assert name not in [o.name for o in made.body.walk()]
    x, y, z = (numbers(dtype, seed) for seed in range(3))
    if name == "modulo":
        y = np.where(y == 0, np.ones_like(y), y)
        # The smallest number divided by -1 is no number of the type.
        x = np.where(x == np.iinfo(x.dtype).min, np.ones_like(x), x)
    found = []
    for one in (built, made):
        result = np.zeros_like(x)
        with np.errstate(all="ignore"):
            run_on_lanes(one, (len(x), 1, 1), [x, y, z, result])
        found.append(result)
    np.testing.assert_array_equal(*found)
    same = np.isnan(found[0]) if dtype.kind == "float" else np.zeros(len(x), bool)
    assert (np.signbit(found[0]) == np.signbit(found[1]))[~same].all()
