"""Are convolutions whose one window is the image right as products, and which are those?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor import dtypes
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.library.matmul import ProductFuser
from calor_kernel.runtime.backend import KernelBackend
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, near, operands, run
from .test_conv import NONE, check
from .test_implicit_gemm_mma import LOWERINGS, request_of

WAY = "single window"


def row(images, channels, filters, *taps, padding=NONE, groups=1, stride=None):
    """Return a convolution of images of as many pixels as the window has taps."""
    rank = len(taps)
    window = (filters, channels // groups, *taps)
    steps = stride or (1,) * rank
    return (images, channels, *taps), window, steps, (padding,) * rank, (1,) * rank, groups


def way(given, kept=(), dtype="float32"):
    request = request_of("conv", given, getattr(dtypes, dtype), ONE_UNIT)
    return LOWERINGS["conv"](replace(request, kept=frozenset(kept)))[0].way.name


ROWS = [
    row(16, 9, 1, 4, 4),
    row(5, 40, 3, 3, 2),
    row(13, 6, 20, 1, 1),
    row(9, 21, 7, 1, 1),
    row(3, 33, 2, 7),
    row(10, 4, 5, 2, 2, 3),
    row(12, 8, 3, 3, 3, stride=(2, 3)),
]


@pytest.mark.parametrize("given", ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(given, dtype):
    assert way(given, dtype=dtype) == WAY
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    check(backend, "conv", given, dtype)


def test_with_what_follows():
    shapes = [(11, 10, 3, 3), (6, 10, 3, 3), (6, 1, 1)]
    arrays = operands(shapes, dtypes.float32)

    def function(x, w, b):
        return calor.silu(functional.conv2d(x, w) + b)

    graph = graph_of(function, dtypes.float32, shapes)
    found, launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert any(one.label.startswith("matmul") for one in launches)
    near(found, function, arrays, dtypes.float32, "highest")


def test_images_that_are_not_finite_stay_alone():
    x, w = np.ones((9, 5, 2, 2), np.float32), np.ones((4, 5, 2, 2), np.float32)
    x[3, 2, 1, 0] = np.nan
    graph = graph_of(functional.conv2d, dtypes.float32, [x.shape, w.shape])
    (found,), _ = run(graph, [x, w], ONE_UNIT, ())
    assert np.isnan(found[3]).all()
    assert (np.delete(found, 3, axis=0) == 20).all()


def test_others_are_no_products_of_images():
    usual = ROWS[0]
    assert way(usual) == WAY
    assert way(usual, kept=[1]) != WAY
    assert way(row(16, 8, 2, 4, 4, groups=2)) != WAY
    assert way(row(16, 9, 1, 4, 4, padding=(1, 1))) != WAY
    x, w, *rest = usual
    assert way(((16, 9, 5, 4), w, *rest)) != WAY
    assert way(((x[0], x[1], 4, 4), (1, 9, 4, 3), *rest)) != WAY
