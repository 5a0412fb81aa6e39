"""Are products right whose operands are copied to lines that TMA reads?"""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, float32
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_interpreter.device import LanesDevice
from calor_kernel.contract.work import Input
from calor_kernel.library.matmul.operand_padding import padded, ready
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Task
from calor_kernel.runtime.backend import KernelBackend

from .test_gemv_planes import ORDERS
from .test_matmul import ONE, check
from .test_units import ALONE, NONE, tma_plans


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(tma_ways, "_BOXES", {(64, 64, 2, 2): 1.0})
    monkeypatch.setattr(tma_ways, "_worth_padding", lambda product, info: True)
    monkeypatch.setattr(tma_ways, "_worth_turning", lambda product, one: True)
    return KernelBackend("lanes", lambda index: LanesDevice(ALONE))


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("shape", [(67, 45, 65), (72, 41, 66), (65, 300, 71)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_odd_lines(backend, monkeypatch, dtype, shape, orders):
    seen = tma_plans(monkeypatch)
    m, k, n = shape
    more = {"precision": "high"} if dtype == "float32" else {}
    digits = 2e-3 if more else None
    check(backend, ((m, k), (k, n), ONE, NONE, orders), dtype, dtype, digits, **more)
    assert seen


@pytest.mark.parametrize("orders", [(None, None), ((0, 2, 1), (0, 2, 1))], ids=str)
def test_batches(backend, monkeypatch, orders):
    seen = tma_plans(monkeypatch)
    row = ((3, 65, 17), (3, 17, 67), ((2,), (1,)), ((0,), (0,)), orders)
    check(backend, row, "bfloat16", "bfloat16")
    assert seen


VIEWS = {
    "every second": lambda x: x[:, ::2],
    "from an odd element": lambda x: x[:, 3:73],
    "backwards": lambda x: x[:, ::-1],
    "one column": lambda x: calor.broadcast_to(x[:, :1], (66, 70)),
    "one row": lambda x: calor.broadcast_to(x[:1], (66, 140)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", [bfloat16, float32], ids=str)
def test_views(backend, name, dtype):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((66, 140)), rng.standard_normal((150, 69))
    with calor.device(device_of(backend, 0)), calor.matmul_precision("high"):
        a, b = calor.asarray(x.astype(np.float32)).astype(dtype), calor.asarray(y, dtype=float32)
        b = b.astype(dtype)

        @calor.jit
        def product(a, b):
            left = VIEWS[name](a)
            return left @ b[: left.shape[1]]

        found = product(a, b).astype(float32).numpy()
        left = VIEWS[name](a.astype(float32)).numpy().astype(np.float64)
        wanted = left @ b.astype(float32).numpy()[: left.shape[1]].astype(np.float64)
    assert np.abs(found - wanted).max() <= 2e-2 * np.abs(wanted).max()


def test_operands_that_are_ready_stay():
    a, b = Operand((0, 0), 64, 1, 0, bfloat16), Operand((0, 0), 1, 65, 0, bfloat16)
    product = Product((1, 1), 64, 65, 64, a, b, bfloat16)
    assert ready(a, product, along=True)
    assert not ready(b, product, along=False)
    made = padded(Task(product, (Input(0), Input(1)), ALONE), along=False)
    assert made.product.a is a
    assert (made.product.b.depth, made.product.b.free) == (72, 1)
    assert len(made.before) == 1
