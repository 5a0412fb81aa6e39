"""Are products of few columns on a processor those of few rows, transposed?"""

import pytest

from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.library.matmul import cpu_ways
from calor_kernel.runtime.backend import KernelBackend

from .test_gemv_planes import ORDERS
from .test_matmul import ONE, check

NONE = ((), ())


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("shape", [(40, 33, 1), (37, 70, 2), (61, 5, 3), (130, 48, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_shapes(monkeypatch, dtype, shape, orders):
    found = []

    def columns(*given, made=cpu_ways.WAYS[0].works):
        works = list(made(*given))
        found.extend(works)
        return works

    ways = (cpu_ways.Way("few columns", cpu_ways.WAYS[0].refuses, columns), *cpu_ways.WAYS[1:])
    monkeypatch.setattr(cpu_ways, "WAYS", ways)
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    m, k, n = shape
    check(backend, ((m, k), (k, n), ONE, NONE, orders), dtype, dtype)
    row = ((3, m, k), (3, k, n), ((2,), (1,)), ((0,), (0,)), (None, None))
    check(backend, row, dtype, dtype)
    assert found or k < 16
