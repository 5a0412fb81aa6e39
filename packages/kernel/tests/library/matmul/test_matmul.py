"""Are products what the reference says, for every way of computing them?"""

import numpy as np
import pytest

from calor.dtypes import ALL
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

NAMES = {t.name: t for t in ALL}
ONE = ((1,), (0,))
# shapes of a and b, contracted pairs, batch pairs, orders in which the operands lie in memory.
ROWS = [
    ((5, 7), (7, 9), ONE, ((), ()), (None, None)),
    ((20, 33), (33, 70), ONE, ((), ()), (None, None)),
    ((13, 40), (40, 17), ONE, ((), ()), (None, (1, 0))),
    ((13, 40), (40, 17), ONE, ((), ()), ((1, 0), None)),
    ((13, 40), (40, 17), ONE, ((), ()), ((1, 0), (1, 0))),
    ((1, 40), (40, 70), ONE, ((), ()), (None, None)),
    ((1, 40), (40, 70), ONE, ((), ()), (None, (1, 0))),
    ((3, 300), (300, 20), ONE, ((), ()), (None, (1, 0))),
    ((40, 1), (1, 17), ONE, ((), ()), (None, None)),
    ((40, 0), (0, 17), ONE, ((), ()), (None, None)),
    ((0, 5), (5, 17), ONE, ((), ()), (None, None)),
    ((3, 6, 5), (3, 5, 8), ((2,), (1,)), ((0,), (0,)), (None, None)),
    ((2, 3, 6, 5), (2, 3, 5, 8), ((3,), (2,)), ((0, 1), (0, 1)), ((0, 2, 1, 3), None)),
    ((2, 3, 4), (3, 2, 5), ((0, 1), (1, 0)), ((), ()), (None, None)),
    ((2, 3, 4), (5, 3, 2), ((1,), (1,)), ((0,), (2,)), (None, None)),
    ((2, 3, 4, 5), (4, 6, 3), ((1, 2), (2, 0)), ((), ()), (None, None)),
    ((2, 3, 4, 2), (4, 2, 5, 3), ((2, 0, 1), (0, 1, 3)), ((), ()), (None, None)),
    ((7,), (7,), ((0,), (0,)), ((), ()), (None, None)),
]
TYPES = [
    ("float32", "float32"),
    ("float64", "float64"),
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
    ("bfloat16", "float32"),
    ("int8", "int32"),
    ("int8", "int8"),
    ("uint8", "uint8"),
    ("int32", "int32"),
    ("int64", "int64"),
    ("uint16", "uint16"),
    ("bool", "bool"),
    ("complex64", "complex64"),
    ("complex128", "complex128"),
]

DIGITS = {
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float32": 2e-5,
    "float64": 1e-12,
    "complex64": 2e-5,
    "complex128": 1e-12,
}


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def operands(a, b, dtype):
    rng = np.random.default_rng(7)
    host = NAMES[dtype].numpy
    if NAMES[dtype].kind == "float":
        return [rng.standard_normal(s).astype(host) for s in (a, b)]
    if NAMES[dtype].kind == "complex":
        return [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(host) for s in (a, b)]
    if dtype == "bool":
        return [rng.random(s) < 0.2 for s in (a, b)]
    low = -100 if NAMES[dtype].kind == "int" else 0
    return [rng.integers(low, 100, s).astype(host) for s in (a, b)]


def check(backend, row, dtype, result, digits=None, **more):
    a, b, contract, batch, axes = row
    given = [
        np.ascontiguousarray(x.transpose(np.argsort(order))) if order else x
        for x, order in zip(operands(a, b, dtype), axes, strict=True)
    ]
    attributes = {"contract": contract, "batch": batch, "dtype": NAMES[result], **more}
    (found,), (wanted,) = run_op(backend, "dot_general", given, attributes, axes)
    assert found.dtype == wanted.dtype
    if NAMES[result].is_inexact:
        wide = np.complex128 if NAMES[result].is_complex else np.float64
        near = np.abs(found.astype(wide) - wanted.astype(wide))
        digits = DIGITS[result] if digits is None else digits
        assert near.max(initial=0) <= digits * np.abs(wanted.astype(wide)).max(initial=1)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(backend, row):
    check(backend, row, "float32", "float32")


@pytest.mark.parametrize(("dtype", "result"), TYPES)
def test_types(backend, dtype, result):
    check(backend, ROWS[1], dtype, result)
    check(backend, ROWS[2], dtype, result)


@pytest.mark.parametrize("rows", [2, 3, 5, 7])
def test_few_rows_of_what_is_converted(backend, rows):
    row = ((rows, 21), (21, 70), ONE, ((), ()), (None, None))
    check(backend, row, "float16", "float16")
