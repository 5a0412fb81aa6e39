"""Are small products of a large batch what the reference says, and who computes them?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.matmul.lowering import lower_dot_general
from calor_kernel.library.matmul.problem import product_of
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import check

EACH = ((2,), (1,))
ONE = ((0,), (0,))
# Teams of lanes add the sums where there are several products for each core.
INFO = replace(MANY_UNITS, cores=64)
# Batches, rows, terms, columns.
SIZES = [(40, 3, 2, 5), (33, 1, 32, 1), (300, 2, 1, 2), (32, 6, 0, 4), (4, 1, 1, 64), (2, 9, 8, 5)]
ORDERS = [(None, None), ((0, 2, 1), None), (None, (0, 2, 1)), ((1, 2, 0), (2, 0, 1))]


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


def labels(batch, m, k, n, dtype="float32"):
    kind = as_dtype(dtype)
    views = tuple(View.dense(spec(s, kind)) for s in ((batch, m, k), (batch, k, n)))
    attributes = {"contract": EACH, "batch": ONE, "dtype": kind}
    made = spec((batch, m, n), kind)
    request = Request("dot_general", attributes, views, (made,), INFO)
    return [launch.label for launch in lower_dot_general(request)[0].launches]


@pytest.mark.parametrize("orders", ORDERS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_shapes(backend, sizes, orders):
    batch, m, k, n = sizes
    # Sums without terms are one number, which is copied.
    assert (labels(*sizes) == ["matmul unit sums"]) == (k > 0)
    check(backend, ((batch, m, k), (batch, k, n), EACH, ONE, orders), "float32", "float32")


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *(("bfloat16", "bfloat16"), ("float16", "float32"), ("float64", "float64")),
        *(("int8", "int32"), ("uint8", "uint8"), ("bool", "bool"), ("complex64", "complex64")),
    ],
)
def test_types(backend, dtype, result):
    row = ((40, 3, 7), (40, 7, 5), EACH, ONE, (None, (0, 2, 1)))
    check(backend, row, dtype, result)


@pytest.mark.parametrize(
    "sizes",
    [(1, 2, 2, 2), (31, 2, 9, 2), (16, 16, 8, 16), (64, 2, 33, 2), (64, 32, 3, 32)],
    ids=str,
)
def test_few_or_large_products_are_of_other_ways(sizes):
    assert "matmul unit sums" not in labels(*sizes)


def test_one_term_is_read_as_it_lies():
    """A term of each product, and rows apart: no operand is copied to be dense."""
    views = (View((4, 50, 1), (50, 1, 1), as_dtype("float16")),
             View((4, 1, 64), (64, 64, 1), as_dtype("float16")))  # fmt: skip
    apart = View((4, 50, 1), (150, 3, 1), as_dtype("float16"))
    for left in (views[0], apart):
        attributes = {"contract": EACH, "batch": ONE, "dtype": as_dtype("float16")}
        made = spec((4, 50, 64), as_dtype("float16"))
        request = Request("dot_general", attributes, (left, views[1]), (made,), INFO)
        product, copies = product_of(request)
        assert copies == (None, None)
        assert 1 in (product.a.depth, product.a.free)


def test_batches_that_repeat_an_operand(backend):
    row = ((4, 10, 3, 2), (10, 4, 2, 5), ((3,), (2,)), ((0, 1), (1, 0)), (None, None))
    check(backend, row, "float32", "float32")
    assert np.prod(row[0][:2]) >= 32
