"""Kernels printed for Metal compute what lanes compute, on the processor."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor_kernel.language import Buffer, Scalar, fragment, kernel, mma
from calor_kernel.language.matrices import SHAPES
from device_operations import assert_case, plain_cases
from kernel_cases import (
    Case,
    _results,
    atomics_case,
    operands,
    operations,
    selection_case,
    sheet,
    vector_case,
)
from kernel_products import planes_case

SCALARS = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32)


def without_double(dtype: DType, width: int, computed: bool = False) -> Case:
    """Return the case of all operations of a type but what Metal has not."""
    missing = {"to_float64"} | ({"fma"} if dtype is bfloat16 else set())
    found = {n: f for n, f in operations(dtype, computed).items() if n not in missing}
    functions = tuple(found.values())
    arrays, results = operands(dtype), _results(dtype, functions, width)
    signature: list[Buffer | Scalar] = [Buffer(dtype, writable=False)] * 3
    signature += [Scalar(int64, nonnegative=True), *(Buffer(d) for d in results)]
    built = sheet.build(signature, cube=(4, 1, 1), functions=functions, width=width)
    size = arrays[0].size
    outputs = [np.zeros(size, d.numpy) for d in results]
    name = f"{dtype.name}x{width}{'-computed' if computed else ''}"
    return Case(name, built, (-(-size // (4 * width)), 1, 1), (*arrays, size, *outputs), (*found,))


@kernel
def numbers_of_types(*given: Any) -> None:
    for i in range(0, len(given), 2):
        given[i][0] = given[i + 1]


def numbers_case() -> Case:
    """Return the case of arguments that are numbers of every type."""
    given = (True, -3, -300, -70000, -(2**40), 200, 60000, 2**32 - 1, 2**40, 1.5, -2.5, 0.1)
    types = (*SCALARS, *FLOATS)
    signature = [part for t in types for part in (Buffer(t), Scalar(t))]
    arguments = [
        part for t, n in zip(types, given, strict=True) for part in (np.zeros(1, t.numpy), n)
    ]
    return Case("numbers", numbers_of_types.build(signature), (1, 1, 1), tuple(arguments))


@kernel
def product_of_fragments(a: Any, b: Any, c: Any, *, shape: Any) -> None:
    total = fragment(shape, "c").load(c, (8, 1))
    for p in range(0, 16, 8):
        left = fragment(shape, "a").load(a.at(p), (16, 1))
        mma(left, fragment(shape, "b").load(b.at(p * 8), (8, 1)), total)
    total.keep(lambda row, column: column <= row)
    total.store(c, (8, 1))


def fragments_case(dtype: DType) -> Case:
    """Return the case of a product by simdgroup_matrix; small numbers are exact in any order."""
    shape = SHAPES[f"simdgroup_8x8x8_{dtype.name}"]
    read = Buffer(dtype, writable=False)
    features = frozenset({"matrix"})
    built = product_of_fragments.build(
        [read, read, Buffer(float32)], cube=(32, 1, 1), plane=32, features=features, shape=shape
    )
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-7, 8, n).astype(dtype.numpy) for n in ((8, 16), (16, 8)))
    c = rng.integers(-7, 8, (8, 8)).astype(np.float32)
    arguments = (a.reshape(-1), b.reshape(-1), c.reshape(-1))
    return Case(f"fragments-{dtype.name}", built, (1, 1, 1), arguments)


@cache
def cases() -> dict[str, Case]:
    found = [
        *(without_double(t, 1) for t in (*SCALARS, *FLOATS)),
        *(without_double(t, 4) for t in (bool_, int16, uint8, uint32, uint64, *FLOATS)),
        *(without_double(t, w, computed=True) for t in FLOATS[:2] for w in (1, 4)),
        *(vector_case(t, w, cube=4) for t, w in ((bool_, 2), (float32, 4), (uint8, 8))),
        *plain_cases(64),
        selection_case(64),
        numbers_case(),
        *(atomics_case(t, units=8) for t in (int32, uint32, float32)),
        *(fragments_case(t) for t in FLOATS),
        *(planes_case(t, 32) for t in (int32, uint32, int64, float32, float16, bfloat16)),
    ]
    return {f"{i}-{c.name}": c for i, c in enumerate(found)}


@pytest.mark.parametrize("name", cases())
def test_a_kernel(exact: Any, name: str) -> None:
    assert_case(exact, cases()[name])
