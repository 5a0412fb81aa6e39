"""Are products of rows that do not merge right without a copy, and when is the copy made?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.matmul.lowering import lower_dot_general
from calor_kernel.library.matmul.problem import product_of
from calor_kernel.runtime.backend import KernelBackend

# The first operand as it lies, how the rows of the product are read from it, and the columns.
ROWS = {
    "columns of each": ((3, 24, 64), lambda x: x.mT, 40),
    "a slice of each": ((2, 70, 32), lambda x: x[:, 4:68], 8),
    "two axes": ((2, 3, 16, 72), lambda x: x.mT, 16),
    "few rows": ((3, 24, 9), lambda x: x.mT, 40),
    "columns too": ((2, 24, 64), lambda x: x.mT, 1),
}


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows_apart(name, dtype):
    shape, turn, n = ROWS[name]
    rng = np.random.default_rng(5)
    x = np.round(4 * rng.standard_normal(shape)).astype(np.float32)
    w = np.round(4 * rng.standard_normal((turn(x).shape[-1], n))).astype(np.float32)
    bias = np.arange(n, dtype=np.float32)
    for info in (MANY_UNITS, ONE_UNIT):
        backend = KernelBackend("lanes", lambda index, info=info: LanesDevice(info))
        with calor.device(device_of(backend, 0)):
            given = (calor.asarray(v).astype(dtype) for v in (x, w, bias))
            found = calor.jit(lambda a, b, c: calor.maximum(turn(a) @ b + c, 0))(*given)
            found = found.astype(float32).numpy()
        wanted = np.maximum(turn(x) @ w + bias, 0)
        digits = 2e-2 if dtype is bfloat16 else 1e-5
        assert np.abs(found - wanted).max() <= digits * np.abs(wanted).max()


def asked(rows, columns, info=MANY_UNITS, dtype=bfloat16, **said):
    """Return the request of a product of the columns of 8 matrices with weights."""
    x = View((8, rows, 128), (rows * 128, 1, rows), dtype)
    w = View((128, columns), (columns, 1), dtype)
    said = {"contract": ((2,), (0,)), "batch": ((), ()), **said}
    return Request("dot_general", said, (x, w), (spec((8, rows, columns), dtype),), info)


@pytest.mark.parametrize(
    ("rows", "columns", "copied"),
    [(512, 64, False), (512, 4096, False), (200, 64, False), (200, 4096, True), (24, 64, True),
     (577, 64, True)],
)  # fmt: skip
def test_a_copy_is_made_where_it_saves_time(rows, columns, copied):
    product, _ = product_of(asked(rows, columns))
    assert (product is None) is copied
    labels = [launch.label for launch in lower_dot_general(asked(rows, columns))[0].launches]
    assert ("copy_tiles" in labels) is copied
    if product is not None:
        assert (product.batches, product.m, product.b.batch) == (8, rows, (0, 0))


def test_where_rows_merge_first():
    """Cubes of one unit pack an operand once; TF32 is read along the K axis."""
    assert product_of(asked(512, 64, replace(ONE_UNIT, cores=8)))[0] is None
    for precision, copied in (("highest", False), ("high", True)):
        one = asked(512, 64, dtype=float32, precision=precision)
        assert (product_of(one)[0] is None) is copied
