"""Are small products of a large batch right where teams of lanes add their sums?"""

from dataclasses import replace

import pytest

from calor.dtypes import float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Request, View
from calor_kernel.library.matmul.lowering import lower_dot_general
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import check

INFO = replace(MANY_UNITS, cores=2)
BATCH = ((0,), (0,))
# Shapes of both operands, contracted pairs, batch pairs, and orders in memory.
ROWS = [
    ((40, 50), (40, 50), ((1,), (1,)), BATCH, (None, None)),
    ((17, 37), (17, 37), ((1,), (1,)), BATCH, (None, None)),
    ((40, 1, 600), (40, 1, 600), ((2,), (2,)), BATCH, (None, None)),
    ((20, 3, 52), (20, 4, 52), ((2,), (2,)), BATCH, (None, None)),
    ((20, 2, 36), (20, 3, 36), ((2,), (2,)), BATCH, ((1, 0, 2), None)),
    # Dense along the batch, so that a unit adds a sum.
    ((40, 50), (40, 50), ((1,), (1,)), BATCH, ((1, 0), (1, 0))),
]


def labels(*shapes: tuple[int, ...], info: DeviceInfo = INFO) -> list[str]:
    said = {"contract": ((1,), (1,)), "batch": BATCH, "dtype": float32}
    views = tuple(View.dense(spec(shape, float32)) for shape in shapes)
    results = (spec(shapes[0][:1], float32),)
    (work,) = lower_dot_general(Request("dot_general", said, views, results, info))
    return [launch.label for launch in work.launches]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8", "complex64"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_products(row, dtype):
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFO))
    result = {"int8": "int32"}.get(dtype, dtype)
    check(backend, row, dtype, result)


def test_many_short_sums_are_of_teams():
    assert labels((40, 50), (40, 50)) == ["matmul team sums of 8"]


def test_cubes_have_a_product_each_where_there_are_few():
    assert labels((3, 50), (3, 50)) != ["matmul team sums of 8"]
    assert labels((15, 1500), (15, 1500)) != ["matmul team sums of 8"]
